"""LanceIndex: a folder that keeps everything, and codes in memory that answer.

The table of LanceDB is what must not be lost; it is written in commits that are there as a whole
or not at all, by any number of processes. Answers come from a copy of the codes in memory, which
is brought up to date before every search: that takes half a millisecond where nothing is new.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import RLock
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from filelock import FileLock
from lancedb.index import BTree
from numpy.typing import ArrayLike, NDArray

from corrhash.atomic_write import atomic_write, make_folder
from corrhash.codes import Codes, check_codes, check_n_bits, check_same_bits
from corrhash.errors import InputError
from corrhash.filters import TEXT_FIELDS, And, Compare, Filter, HasLabel, Not, Or, as_filter
from corrhash.index.base import check_about, check_k, check_radius
from corrhash.index.code_table import CodeTable, TableView, rows_of
from corrhash.index.entries import Entries, SideCodes, as_entries, as_ids, check_free
from corrhash.index.item import FIELDS, SHOWN, SIDES, Item, check_fields, check_side
from corrhash.ranking import Ranking

ABOUT_FILE = "collection.json"
"""Says what the folder holds; written last, so that its presence makes the folder valid."""

FORMAT = "corrhash collection 1"
TABLE = "items"
KEPT = tuple(name for name in FIELDS if name not in SHOWN)
"""Fields of an item that are read only when they are asked for."""

LOCK_FILE = ".writing.lock"
ROWS = 1 << 20
"""Rows that are read at a time: in small portions LanceDB is ten times slower."""

NAMES = 10_000
"""Keys or ids in one question to the table."""

MANY_FRAGMENTS = 64
"""Each commit leaves files behind; from so many on, merging them is thought of."""

TOO_MANY_FRAGMENTS = 1000
FULL_FILE = 1 << 20
"""Rows of a file that is not merged with others any more."""

WORTH_AN_INDEX = 50_000
"""Rows from which on finding keys and ids by a tree pays."""

OLD = timedelta(hours=1)
"""Versions older than this are removed when files are merged; searches take milliseconds."""

log = logging.getLogger("corrhash")


class LanceIndex:
    """Codes and items in a folder, durable and shared by processes; answers are exact.

    In memory a code of 64 bits takes 24 bytes: itself, its id and the place of its item. Those that
    passed the last filter are kept beside, so that the next search with it is as fast as without.
    """

    @classmethod
    def open(cls, uri: str, n_bits: int, about: dict[str, Any] | None = None) -> LanceIndex:
        """The index in a folder; a new one, of which ``about`` is kept, if there is none."""
        found = cls.look(uri)
        if found is None:
            _create(Path(uri), check_n_bits(n_bits), about or {})
            found = cls.look(uri) or {}
        check_about(found, uri, n_bits)
        return cls(Path(uri), found)

    @classmethod
    def look(cls, uri: str) -> dict[str, Any] | None:
        """What is kept about the index in a folder; None if there is none."""
        path = Path(uri) / ABOUT_FILE
        try:
            about = json.loads(path.read_bytes())
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']!r}; this version reads {FORMAT!r}")
            about["n_bits"] = check_n_bits(about["n_bits"])
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"Cannot read {path} ({error}). Restore it from a copy, or make the collection "
                "again in another folder."
            ) from error
        return dict(about)

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder = folder
        self.about = about
        self.n_bits: int = about["n_bits"]
        try:
            self._table: Any = lancedb.connect(folder).open_table(TABLE)
        except Exception as error:
            raise InputError(
                f"The table of the collection in {folder} cannot be read ({_reason(error)}). "
                "Restore the folder from a copy."
            ) from error
        self._lock = RLock()
        self._file_lock = FileLock(folder / LOCK_FILE)
        self._n_written = 0  # rows since files were merged
        self._multi_index = False
        self._forget()

    def _forget(self) -> None:
        """Begin with empty memory."""
        self._version = -1
        self._behind = True  # whether keys were looked for or rows written since it was read
        self._n = 0
        self._last_place = -1
        self._tables = {side: CodeTable(self.n_bits) for side in SIDES}
        if self._multi_index:
            self.use_multi_index()
        # Which version was asked for which filter, and what passed: codes by side, places.
        self._passing: tuple[tuple[int, str], NDArray[np.uint64]] | None = None
        self._filtered: dict[str, tuple[tuple[int, str], TableView]] = {}

    # Reading

    def search(
        self,
        queries: Codes,
        k: int = 10,
        *,
        side: str = "image",
        where: str | Filter | None = None,
        radius: int | None = None,
    ) -> Ranking:
        """The ``k`` nearest ids of each query, of those that pass a filter, within a radius."""
        check_same_bits(check_codes(queries).n_bits, self.n_bits)
        k, radius, wanted = check_k(k), check_radius(radius), as_filter(where)
        with self._lock:
            self._refresh()
            view = self._view(check_side(side), wanted)
        return view.nearest(queries, k).within(radius)

    def use_multi_index(self) -> None:
        """Answer lone queries of 64 bits from tables that hold each code four times.

        They take 48 bytes a code, and are made when a search finds some millions of codes.
        """
        with self._lock:
            for table in self._tables.values():
                table.use_multi_index()
            self._multi_index = True

    def _view(self, side: str, where: Filter | None) -> TableView:
        """The codes of one side that pass a filter; those of the last one are remembered."""
        view = self._tables[side].view()
        if where is None:
            return view
        asked = self._version, repr(where)
        if side not in self._filtered or self._filtered[side][0] != asked:
            places = np.sort(self._places_passing(where)).view(np.int64)
            _, passing = rows_of(places, view.places.view(np.int64))
            self._filtered[side] = asked, view.among(np.flatnonzero(passing))
        return self._filtered[side][1]

    def _refresh(self) -> None:
        """Bring the codes in memory up to date with the table.

        A row of the table never changes: an update writes a new one, with a higher number than all
        before, and marks the old one as gone.
        """
        self._table.checkout_latest()
        version = self._table.version
        if version != self._version and not (self._read_new() or self._drop_gone()):
            self._forget()  # files were merged, which gives every row another number
            self._read_new()
        self._version, self._behind = version, False

    def _read_new(self) -> bool:
        """Read rows behind the last one known; whether that makes up for all there is."""
        query = self._table.search().select(["id", *map(_code, SIDES)]).with_row_id(True)
        if self._last_place >= 0:
            query = query.where(f"_rowid > {self._last_place}")
        batches = [batch for batch in query.to_batches(ROWS) if batch.num_rows]
        if batches:
            # All at once, so that the tables need not grow many times.
            rows = pa.Table.from_batches(batches)
            ids, places = rows["id"].to_numpy(), rows["_rowid"].to_numpy()
            for side, table in self._tables.items():
                table.delete(ids)
                there, codes = _read_codes(rows[_code(side)].combine_chunks(), self.n_bits)
                table.add(ids[there], codes, places[there])
            self._n += len(ids)
            self._last_place = max(self._last_place, int(places.max()))
        return self._n == int(self._table.count_rows())

    def _drop_gone(self) -> bool:
        """Forget rows that the table no longer has; whether the others are all there is."""
        query = self._table.search().select(["_rowid"])
        parts = [batch["_rowid"].to_numpy() for batch in query.to_batches(ROWS)]
        current = np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))
        known = []
        for table in self._tables.values():
            _, there = rows_of(current.view(np.int64), table.places.view(np.int64))
            table.keep(there)
            known.append(table.places)
        self._n = len(np.union1d(*known))
        return self._n == len(current)

    def _places_passing(self, where: Filter) -> NDArray[np.uint64]:
        """The places of the rows that pass a filter; those of the last one are remembered."""
        asked = self._version, repr(where)  # as text, in which 1 is not equal to true
        if self._passing is None or self._passing[0] != asked:
            query = self._table.search().where(as_sql(where)).select(["_rowid"])
            parts = [batch["_rowid"].to_numpy() for batch in query.to_batches(ROWS)]
            places = np.concatenate([np.empty(0, np.uint64), *parts])
            self._passing = asked, places
        return self._passing[1]

    def get(self, ids: ArrayLike, fields: Sequence[str] = SHOWN) -> list[Item | None]:
        """The items of ids, with some of their fields; None where there is none.

        They are as the last search or look for keys saw them, which saves looking again.
        """
        numbers, names = as_ids(ids), check_fields(fields)
        with self._lock:
            found = self._take(numbers, names)
            if len(found) < len(set(numbers.tolist())):
                self._refresh()
                found = self._take(numbers, names)
        return [found.get(number) for number in numbers.tolist()]

    def _take(self, ids: NDArray[np.int64], names: Sequence[str]) -> dict[int, Item]:
        places = self._places(ids)
        if not len(places):
            return {}
        columns = ["shown", *(name for name in names if name not in SHOWN)]
        taken = self._table.take_row_ids(places.tolist()).select(columns).to_arrow()
        found = dict(_read_items(taken))
        whole = set(SHOWN) <= set(names)
        return found if whole else {number: item.only(names) for number, item in found.items()}

    def _places(self, ids: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Where the rows of ids are, each once."""
        tables = self._tables.values()
        found = [table.places[rows_of(table.ids, ids)[0]] for table in tables]
        return np.unique(np.concatenate(found))

    def codes_of(self, ids: ArrayLike, side: str = "image") -> tuple[NDArray[np.int64], Codes]:
        """Which of the ids have a code on this side, and their codes."""
        numbers, table = as_ids(ids), self._tables[check_side(side)]
        with self._lock:
            # What a search just found is in memory; anything else may be new.
            if self._behind or len(rows_of(table.ids, numbers)[0]) < len(numbers):
                self._refresh()
            return self._tables[side].view().codes(numbers)

    def ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        """The ids of those keys that there are."""
        found: dict[str, int] = {}
        with self._lock:
            self._table.checkout_latest()
            self._behind = True
            for start in range(0, len(keys), NAMES):
                names = ", ".join(map(_quoted, keys[start : start + NAMES]))
                query = self._table.search().where(f"key in ({names})").select(["id", "key"])
                for batch in query.to_batches(ROWS):
                    found |= zip(batch["key"].to_pylist(), batch["id"].to_pylist(), strict=True)
        return found

    def new_ids(self, n: int) -> NDArray[np.int64]:
        """Ids that are not taken, larger than all that are."""
        with self._lock:
            self._refresh()
            last = max(int(table.ids[-1]) if len(table) else -1 for table in self._tables.values())
        return np.arange(last + 1, last + 1 + n)

    def batches(self, size: int = 1000) -> Iterator[Entries]:
        """Everything, in ascending order of id."""
        with self._lock:
            self._refresh()
            tables = self._tables.values()
            ids = np.union1d(*(table.ids for table in tables))
        columns = ["id", "shown", *KEPT, *map(_code, SIDES)]
        for start in range(0, len(ids), size):
            with self._lock:
                self._refresh()
                places = self._places(ids[start : start + size])
                taken = self._table.take_row_ids(places.tolist()).select(columns).to_arrow()
            yield _read_entries(taken.sort_by("id").combine_chunks(), self.n_bits)

    def __len__(self) -> int:
        with self._lock:
            self._table.checkout_latest()
            return int(self._table.count_rows())

    # Writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While it lasts no other process writes, and what is read is what all others wrote.

        A lock ends with the process that holds it.
        """
        with self._lock, _told(self.folder), self._file_lock:
            self._refresh()
            yield

    def add(self, ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None = None) -> None:
        """Keep codes and items under ids that are not taken yet."""
        entries = as_entries(ids, codes, items, self.n_bits)
        with self.writing():
            check_free(self._taken(entries.ids))
            self._write(entries, replace=False)

    def upsert(self, ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None = None) -> None:
        """Keep codes and items under ids, in place of what was there."""
        entries = as_entries(ids, codes, items, self.n_bits)
        with self.writing():
            self._write(entries, replace=len(self._taken(entries.ids)) > 0)

    def _write(self, entries: Entries, replace: bool) -> None:
        """One commit."""
        if not len(entries):
            return
        rows = _as_rows(entries, _schema(self.n_bits))
        self._behind = True
        if replace:
            merge = self._table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)
        else:
            self._table.add(rows)
        self._n_written += len(entries)
        try:
            self._tidy()
        except (OSError, RuntimeError, InputError) as error:
            # What was to be written is there: the next write tries again.
            log.warning("Cannot merge the files of %s: %s", self.folder, _reason(error))

    def _tidy(self) -> None:
        """Merge the files of many commits, seldom enough that no item is copied many times."""
        n_small = self._table.stats()["fragment_stats"]["num_small_fragments"]
        few_are_new = 2 * self._n_written < min(self._table.count_rows(), FULL_FILE)
        if n_small >= TOO_MANY_FRAGMENTS or (n_small >= MANY_FRAGMENTS and not few_are_new):
            self.compact()

    def compact(self) -> None:
        """Merge the files of many commits into few, and remove old versions."""
        with self.writing():
            self._table.optimize(cleanup_older_than=OLD)
            self._n_written = 0
            indexed = {name for index in self._table.list_indices() for name in index.columns}
            if self._table.count_rows() >= WORTH_AN_INDEX:
                for column in {"id", "key"} - indexed:
                    self._table.create_index(column, config=BTree())

    def delete(self, ids: ArrayLike) -> int:
        """Forget ids; how many of them were there."""
        with self.writing():
            gone = self._taken(as_ids(ids))
            if len(gone):
                self._behind = True
                self._table.delete(f"id in ({', '.join(map(str, gone.tolist()))})")
            return len(gone)

    def _taken(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the ids that are there, each once."""
        found = [ids[rows_of(table.ids, ids)[1]] for table in self._tables.values()]
        return np.unique(np.concatenate(found))


def as_sql(where: Filter) -> str:
    """A filter in the language of the table.

    >>> as_sql(HasLabel("it's"))
    "coalesce(array_has(labels, 'it''s'), false)"
    """
    match where:
        case Compare(field, operator, value) if field in TEXT_FIELDS:
            return f"({field} {operator} {_quoted(value)})" if isinstance(value, str) else "false"
        case Compare(field, operator, value):
            # JSON text: a number as it is, a text with its quotes, true or false.
            stored = f"json_extract(metadata, '$.{field}')"
            if isinstance(value, bool):
                found, wanted = stored, f"'{str(value == (operator == '=')).lower()}'"
                operator = "="
            elif isinstance(value, str):
                text = f"json_get_string(metadata, '{field}')"
                found = f"case when starts_with({stored}, '\"') then {text} end"
                wanted = _quoted(value)
            else:
                found, wanted = f"try_cast({stored} as double)", f"cast({value!r} as double)"
            return f"coalesce(({found}) {operator} {wanted}, false)"
        case HasLabel(label):
            return f"coalesce(array_has(labels, {_quoted(label)}), false)"
        case Not(part):
            return f"(not {as_sql(part)})"
        case And(parts):
            return f"({' and '.join(map(as_sql, parts))})"
        case Or(parts):
            return f"({' or '.join(map(as_sql, parts))})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _code(side: str) -> str:
    """The column of a side's codes."""
    return f"{side}_code"


def _schema(n_bits: int) -> pa.Schema:
    code = pa.list_(pa.uint8(), -(-n_bits // 8))
    return pa.schema(
        [
            ("id", pa.int64()),
            *((_code(side), code) for side in SIDES),
            ("key", pa.string()),
            ("text", pa.string()),
            ("labels", pa.list_(pa.string())),
            ("metadata", pa.json_(pa.string())),
            ("path", pa.string()),
            # What a match shows, once more as one JSON text: each column that is read costs half
            # a millisecond. The columns above are for filters.
            ("shown", pa.string()),
            ("thumbnail", pa.large_binary()),
            ("stamp", pa.string()),
            ("image_scores", pa.binary()),
            ("text_scores", pa.binary()),
        ]
    )


def _create(folder: Path, n_bits: int, about: dict[str, Any]) -> None:
    """An empty table, and then the file that makes the folder a collection."""
    make_folder(folder)
    with _told(folder), FileLock(folder / LOCK_FILE):
        if LanceIndex.look(str(folder)) is not None:
            return  # another process was faster
        _create_table(folder, n_bits)
        content = {"format": FORMAT, **about, "n_bits": n_bits}
        with atomic_write(folder / ABOUT_FILE) as file:
            file.write(json.dumps(content, indent=1).encode())


def _create_table(folder: Path, n_bits: int) -> None:
    """An empty table; one that an interrupted creation left is replaced, but never a full one."""
    database, exists = lancedb.connect(folder), (folder / f"{TABLE}.lance").exists()
    if exists and database.open_table(TABLE).count_rows():
        raise InputError(
            f"{folder} holds items, but its {ABOUT_FILE} is missing. Restore that file from a "
            "copy, or choose another folder."
        )
    mode = "overwrite" if exists else "create"
    database.create_table(TABLE, schema=_schema(n_bits), mode=mode)


def _as_rows(entries: Entries, schema: pa.Schema) -> pa.Table:
    items = [entries.item(row) for row in range(len(entries))]
    columns: dict[str, Any] = {"id": entries.ids}
    for name in FIELDS:
        values: list[Any] = [getattr(item, name) for item in items]
        if name == "metadata":
            values = [json.dumps(value) for value in values]
        columns[name] = values
    columns["shown"] = [
        json.dumps([number, *(_as_plain(getattr(item, name)) for name in SHOWN)])
        for number, item in zip(entries.ids.tolist(), items, strict=True)
    ]
    for side in SIDES:
        columns[_code(side)] = _code_column(entries, side, schema.field(_code(side)).type)
    arrays = [_as_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _as_plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _as_array(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.JsonType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.string()))
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _code_column(entries: Entries, side: str, kind: pa.DataType) -> pa.Array:
    width = kind.list_size
    packed = np.zeros((len(entries), width), np.uint8)
    missing = np.ones(len(entries), dtype=bool)
    if side in entries.codes:
        packed[entries.rows[side]] = entries.codes[side].packed
        missing[entries.rows[side]] = False
    return pa.FixedSizeListArray.from_arrays(packed.ravel(), type=kind, mask=pa.array(missing))


def _read_codes(column: pa.Array, n_bits: int) -> tuple[NDArray[np.int64], Codes]:
    """Which rows have a code, and their codes."""
    there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    bytes_ = column.drop_null().flatten().to_numpy()
    return there, Codes(bytes_.reshape(len(there), -(-n_bits // 8)), n_bits)


def _read_items(rows: pa.Table) -> list[tuple[int, Item]]:
    """Ids and items."""
    kept = {name: rows[name].to_pylist() for name in rows.column_names if name in KEPT}
    items = []
    for row, text in enumerate(rows["shown"].to_pylist()):
        number, *shown = json.loads(text)
        more = {name: values[row] for name, values in kept.items()}
        items.append((number, Item(**dict(zip(SHOWN, shown, strict=True)), **more)))
    return items


def _read_entries(rows: pa.Table, n_bits: int) -> Entries:
    read = {}
    for side in SIDES:
        column = rows[_code(side)].combine_chunks()
        read[side] = _read_codes(column, n_bits)
    codes = {side: codes for side, (_, codes) in read.items()}
    there = {side: rows_ for side, (rows_, _) in read.items()}
    items = [item for _, item in _read_items(rows)]
    return Entries(rows["id"].to_numpy(), codes, there, items)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """What goes wrong with the disk becomes a sentence; what was there before is untouched."""
    try:
        yield
    except InputError:
        raise
    except (OSError, RuntimeError) as error:
        raise InputError(
            f"Cannot write into {folder}: {_reason(error)}. What was there before is unchanged. "
            "Make room, or choose a folder that is writable."
        ) from error


def _reason(error: BaseException) -> str:
    """The first line of an error, without the place in the engine's own source."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0].split(", /")[0] if str(error) else type(error).__name__
