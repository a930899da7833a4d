"""MilvusIndex: codes and items on a Milvus server or cluster, for those who outgrow one machine.

Distances are exact, and equal distances come in order of id. Milvus itself orders ties as it
likes and cuts them anywhere, so more is asked for than is wanted, until the last distance is
complete or the server's limit is reached; then the log says that ties were cut.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes, check_codes, check_n_bits, check_same_bits
from corrhash.errors import InputError
from corrhash.filters import TEXT_FIELDS, And, Compare, Filter, HasLabel, Not, Or, as_filter
from corrhash.index.base import check_about, check_k, check_radius
from corrhash.index.entries import Entries, SideCodes, as_entries, as_ids, check_free, sides_of
from corrhash.index.item import FIELDS, SHOWN, SIDES, Item, check_fields, check_side
from corrhash.ranking import NO_ROW, Ranking

try:
    from pymilvus import DataType, MilvusClient, MilvusException
except ImportError as missing:
    raise InputError(
        "Milvus needs a package of its own. Install it: pip install 'corrhash[milvus]'."
    ) from missing

FORMAT = "corrhash collection 1"
LIMIT = 16_384
"""The most answers to one query that a server gives."""

ANSWERS = 200_000
"""Answers to one request, all its queries together."""

ROWS = 1000
"""Rows that are read at a time."""

LONGEST = 65_535
"""Bytes of a text."""

PATIENCE = 300.0
"""Seconds for which a server that went away is asked again: some take minutes to come back."""

FIRST_PATIENCE = 10.0
"""Seconds for which one that never answered is: its address may be wrong."""

TICK = 1e-4
"""Seconds between two new ids of one writer: several times as fast as Milvus takes items in."""

ABSENCE = (
    *("connect", "unavailable", "not ready", "not healthy", "no available", "timeout"),
    *("deadline", "not loaded", "recover", "node not", "channel not", "shard", "offline"),
    *("index not found", "no vector index"),  # another process is just making the collection
)
"""Words by which a server says that it is away, or there but not quite ready."""

EPOCH = 1_704_067_200
"""The second from which ids are counted, the beginning of 2024, so that they fit."""

log = logging.getLogger("corrhash")
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # errors are told here, in a sentence


class MilvusIndex:
    """Codes and items on a server or cluster of Milvus: milvus://host:port/name.

    ``?shards=4`` behind the name of a new collection lets as many nodes take in what is written.

    A row holds one code: that of the picture of item ``i`` is row ``2 * i``, that of its text row
    ``2 * i + 1``. The first row of an item holds what is large.

    New ids are made of the time and of a random number of the writer, so that writers on several
    machines need not ask one another; they still ascend in order of adding. Two writers that add
    the same new key at the same moment leave two items.
    """

    @classmethod
    def open(cls, uri: str, n_bits: int, about: dict[str, Any] | None = None) -> MilvusIndex:
        """The index at an address; a new one, of which ``about`` is kept, if there is none."""
        client, name, n_shards = _connect(uri)
        found = _look(client, name, uri)
        if found is None:
            content = {"format": FORMAT, **(about or {}), "n_bits": check_n_bits(n_bits)}
            _told(uri, lambda: _create(client, name, content, n_shards))
            found = _look(client, name, uri) or content  # another process may have been faster
        check_about(found, uri, n_bits)
        return cls(client, name, uri, found)

    @classmethod
    def look(cls, uri: str) -> dict[str, Any] | None:
        """What is kept about the index at an address; None if there is none."""
        client, name, _ = _connect(uri)
        return _look(client, name, uri)

    def __init__(self, client: Any, name: str, uri: str, about: dict[str, Any]) -> None:
        self.about = about
        self.n_bits: int = about["n_bits"]
        self._client, self._name, self._uri = client, name, uri
        self._writer = secrets.randbits(18)
        self._last_tick = 0
        self._lock = RLock()
        self._ask("load_collection")

    def _ask(self, verb: str, **arguments: Any) -> Any:
        """One request, repeated while the server does not answer; all of ours may be repeated."""
        call = getattr(self._client, verb)
        return _told(self._uri, lambda: call(collection_name=self._name, **arguments))

    def _rows(self, where: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        rows = self._ask("query", filter=where, output_fields=["pk", *fields], **STRONG)
        return [dict(row) for row in rows]

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
        condition = f"side == {SIDES.index(check_side(side))}"
        if wanted is not None:
            condition += f" and {as_expression(wanted)}"
        if k > LIMIT:
            k = self._checked_k(k, condition)
        answers: list[NDArray[np.int64]] = [np.empty((2, 0), np.int64)] * len(queries)
        open_ones, limit = list(range(len(queries))), min(LIMIT, 2 * k + 64)
        while open_ones:
            cut = []
            for some in _portions(open_ones, max(1, ANSWERS // limit)):
                found = self._nearest(queries[some], limit, condition)
                for query, answer in zip(some, found, strict=True):
                    answers[query] = answer[:, :k]
                    if answer.shape[1] == limit and answer[1, k - 1] == answer[1, -1]:
                        cut.append(query)
            if limit == LIMIT and cut:
                log.warning(
                    "Milvus: more than %s items are as near as the last answers to %s of %s "
                    "queries. Their distances are right; which of the tied items are shown is "
                    "the server's choice.",
                    *(f"{number:,}" for number in (LIMIT, len(cut), len(queries))),
                )
                break
            open_ones, limit = cut, min(LIMIT, 4 * limit)
        return _as_ranking(answers).within(radius)

    def _checked_k(self, k: int, condition: str) -> int:
        """``k`` where it means everything there is, else an error: the server has a limit."""
        if (n := self._count(condition)) > LIMIT:
            raise InputError(
                f"Milvus answers with at most {LIMIT:,} items. Got k = {k:,} for {n:,} items. "
                "Ask for fewer, or filter."
            )
        return max(n, 1)

    def _nearest(self, queries: Codes, limit: int, where: str) -> list[NDArray[np.int64]]:
        """For each query (2, n) ids and distances, by distance and then by id."""
        found = self._ask(
            "search",
            data=[code.tobytes() for code in queries.packed],
            anns_field="code",
            limit=limit,
            filter=where,
            search_params={"metric_type": "HAMMING"},
            **STRONG,
        )
        answers = []
        for hits in found:
            ids = np.array([hit["id"] // 2 for hit in hits], dtype=np.int64)
            distances = np.array([round(hit["distance"]) for hit in hits], dtype=np.int64)
            answers.append(np.stack([ids, distances])[:, np.lexsort((ids, distances))])
        return answers

    def get(self, ids: ArrayLike, fields: Sequence[str] = SHOWN) -> list[Item | None]:
        """The items of ids, with some of their fields; None where there is none."""
        numbers, names = as_ids(ids), check_fields(fields)
        columns = sorted({COLUMNS[name] for name in names} | {"first"})
        items: dict[int, Item] = {}
        for some in _portions(numbers.tolist(), ROWS):
            rows = sorted(self._rows(_pk_in(some), columns), key=lambda row: int(row["pk"]))
            for number, of_item in groupby(rows, key=lambda row: int(row["pk"]) // 2):
                items[number] = _read_item(list(of_item), names)
        return [items.get(number) for number in numbers.tolist()]

    def codes_of(self, ids: ArrayLike, side: str = "image") -> tuple[NDArray[np.int64], Codes]:
        """Which of the ids have a code on this side, and their codes."""
        place = SIDES.index(check_side(side))
        found: dict[int, NDArray[np.uint8]] = {}
        for some in _portions(as_ids(ids).tolist(), ROWS):
            wanted = [2 * number + place for number in some]
            for row in self._rows(f"pk in {wanted}", ["code"]):
                found[int(row["pk"]) // 2] = _read_code(row)
        there = [(row, found[i]) for row, i in enumerate(as_ids(ids).tolist()) if i in found]
        rows = np.array([row for row, _ in there], dtype=np.int64)
        return rows, _as_codes([code for _, code in there], self.n_bits)

    def ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        """The ids of those keys that there are."""
        found: dict[str, int] = {}
        for some in _portions(list(keys), ROWS):
            names = ", ".join(map(_quoted, some))
            for row in self._rows(f"first == 1 and key in [{names}]", ["key"]):
                found[row["key"]] = int(row["pk"]) // 2
        return found

    def new_ids(self, n: int) -> NDArray[np.int64]:
        """Ids that nobody else makes, larger than those that this writer made before."""
        with self._lock:
            start = max(int((time.time() - EPOCH) / TICK), self._last_tick + 1)
            self._last_tick = start + n - 1
        return np.arange(start, start + n, dtype=np.int64) << 18 | self._writer

    def batches(self, size: int = 1000) -> Iterator[Entries]:
        """Everything, in ascending order of id."""
        ids = self._all_ids()
        for some in _portions(ids, min(size, ROWS)):
            columns = sorted({*COLUMNS.values(), "first", "code"})
            rows = sorted(self._rows(_pk_in(some), columns), key=lambda row: int(row["pk"]))
            yield _read_entries(rows, self.n_bits)

    def _all_ids(self) -> list[int]:
        """Ids alone are read by an iterator, which gives large results page by page."""
        pages = self._ask(
            "query_iterator", filter="first == 1", output_fields=["pk"], batch_size=LIMIT, **STRONG
        )
        ids: list[int] = []
        while page := pages.next():
            ids += [int(row["pk"]) // 2 for row in page]
        pages.close()
        return sorted(ids)

    def _count(self, where: str) -> int:
        (row,) = self._ask("query", filter=where, output_fields=["count(*)"], **STRONG)
        return int(row["count(*)"])

    def __len__(self) -> int:
        return self._count("first == 1")

    # Writing

    def writing(self) -> AbstractContextManager[object]:
        """While it lasts no other thread of this process writes; other processes may."""
        return self._lock

    def add(self, ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None = None) -> None:
        """Keep codes and items under ids that are not taken yet."""
        entries = as_entries(ids, codes, items, self.n_bits)
        with self._lock:
            check_free(np.unique([pk // 2 for pk in self._pks(entries.ids.tolist())]))
            self._write(entries)

    def upsert(self, ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None = None) -> None:
        """Keep codes and items under ids, in place of what was there.

        Milvus cannot write and delete in one request. Where an item loses its picture or its text,
        that row is deleted in a second one: if this process ends between the two, the item is found
        by the code it should have lost, until it is upserted again.
        """
        entries = as_entries(ids, codes, items, self.n_bits)
        with self._lock:
            before = set(self._pks(entries.ids.tolist()))
            gone = sorted(before - set(self._write(entries)))
            if gone:
                self._ask("delete", filter=f"pk in {gone}")

    def _write(self, entries: Entries) -> list[int]:
        """One request, which the server takes as a whole; the numbers of its rows."""
        rows = _as_rows(entries)
        if rows:
            # Also for new rows, so that a request can be repeated.
            self._ask("upsert", data=rows)
        return [row["pk"] for row in rows]

    def delete(self, ids: ArrayLike) -> int:
        """Forget ids; how many of them were there."""
        with self._lock:
            pks = self._pks(as_ids(ids).tolist())
            for some in _portions(pks, LIMIT):
                self._ask("delete", filter=f"pk in {some}")
        return len({pk // 2 for pk in pks})

    def _pks(self, ids: list[int]) -> list[int]:
        """The rows that ids have."""
        rows = [row for some in _portions(ids, LIMIT // 2) for row in self._rows(_pk_in(some), [])]
        return [int(row["pk"]) for row in rows]


STRONG = {"consistency_level": "Strong"}
"""Everything that was written before, by anyone, is seen."""

# Which column of Milvus holds a field of an item; labels and metadata share one.
COLUMNS = {
    **{name: name for name in ("key", "text", "path", "stamp", "thumbnail")},
    **{"labels": "fields", "metadata": "fields"},
    **{"image_scores": "scores", "text_scores": "scores"},
}


def as_expression(where: Filter) -> str:
    """A filter in the language of Milvus.

    >>> as_expression(HasLabel('a "dog"'))
    'json_contains(fields["labels"], "a \\\\"dog\\\\"")'
    """
    match where:
        case Compare(field, "!=", value) if not isinstance(value, bool):
            # Its own != also holds where the field is missing or of another kind.
            less, more = Compare(field, "<", value), Compare(field, ">", value)
            return f"({as_expression(less)} or {as_expression(more)})"
        case Compare(field, operator, value):
            if isinstance(value, bool):
                value, operator = value == (operator == "="), "="
            sign = "==" if operator == "=" else operator
            if field in TEXT_FIELDS:
                # The language has no word for never: no row has a number below 0.
                return f"({field} {sign} {_quoted(value)})" if isinstance(value, str) else "pk < 0"
            wanted = _quoted(value) if isinstance(value, str) else json.dumps(value)
            return f'(fields["metadata"]["{field}"] {sign} {wanted})'
        case HasLabel(label):
            return f'json_contains(fields["labels"], {_quoted(label)})'
        case Not(part):
            return f"(not ({as_expression(part)}))"
        case And(parts):
            return f"({' and '.join(map(as_expression, parts))})"
        case Or(parts):
            return f"({' or '.join(map(as_expression, parts))})"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _pk_in(ids: Iterable[int]) -> str:
    return f"pk in {[pk for number in ids for pk in (2 * number, 2 * number + 1)]}"


def _portions(values: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


ADDRESS = re.compile(r"milvus://([^/:]+):(\d+)/([A-Za-z_][A-Za-z0-9_]*)(?:\?shards=([1-9]\d*))?")


def _connect(uri: str) -> tuple[Any, str, int]:
    """The client, the name of the collection, and in how many shards a new one is written."""
    found = ADDRESS.fullmatch(uri)
    if found is None:
        raise InputError(
            f"An address of Milvus is milvus://host:port/name, the name of letters, digits and _; "
            f"of a new collection in several shards, milvus://host:port/name?shards=4. Got {uri!r}."
        )
    host, port, name, n_shards = found.groups()
    address = f"http://{host}:{port}"
    client = _told(uri, lambda: MilvusClient(uri=address, timeout=10), FIRST_PATIENCE)
    return client, name, int(n_shards or 1)


def _told(uri: str, request: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The answer to a request, asked again while nobody answers; errors as sentences."""
    end, pause = time.monotonic() + patience, 0.1
    while True:
        try:
            return request()
        except MilvusException as error:
            if not _is_absence(error):
                raise InputError(f"Milvus at {uri} refused: {error.message}.") from error
            if time.monotonic() > end:
                raise InputError(
                    f"Milvus at {uri} does not answer ({error.message}). Start it, or check host "
                    "and port."
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, 3.0)


def _is_absence(error: Any) -> bool:
    """Whether the server is away or not ready yet, rather than unwilling."""
    return any(words in str(error.message).lower() for words in ABSENCE)


def _look(client: Any, name: str, uri: str) -> dict[str, Any] | None:
    if not _told(uri, lambda: client.has_collection(name)):
        return None
    text = _told(uri, lambda: client.describe_collection(name))["description"]
    try:
        about = dict(json.loads(text))
        if about["format"] != FORMAT:
            raise ValueError(f"format {about['format']!r}; this version reads {FORMAT!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{uri} is a collection of Milvus that corrhash did not make ({error}). "
            "Choose another name."
        ) from error
    return about


def _create(client: Any, name: str, about: dict[str, Any], n_shards: int) -> None:
    schema = client.create_schema(auto_id=False, description=json.dumps(about))
    schema.add_field("pk", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * -(-about["n_bits"] // 8))
    for flag in ("side", "first"):
        schema.add_field(flag, DataType.INT8)
    for text in ("key", "text", "path", "stamp", "thumbnail", "scores"):
        schema.add_field(text, DataType.VARCHAR, max_length=LONGEST)
    schema.add_field("fields", DataType.JSON)
    exact = client.prepare_index_params()
    exact.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
    more = {**STRONG, "num_shards": n_shards}
    client.create_collection(name, schema=schema, index_params=exact, **more)


def _as_rows(entries: Entries) -> list[dict[str, Any]]:
    rows, begun = [], set()
    for side, places, codes in sides_of(entries):
        for place, code in zip(places.tolist(), codes.packed, strict=True):
            item, first = entries.item(place), place not in begun
            begun.add(place)
            row = {
                "pk": 2 * int(entries.ids[place]) + SIDES.index(side),
                "code": code.tobytes(),
                "side": SIDES.index(side),
                "first": int(first),
                **{name: _checked(getattr(item, name), name) for name in ("key", "text", "path")},
                "stamp": item.stamp,
                "fields": {"labels": list(item.labels), "metadata": dict(item.metadata)},
                "thumbnail": _as_text(item.thumbnail if first else None),
                "scores": _as_text(item.image_scores if side == "image" else item.text_scores),
            }
            rows.append(row)
    return rows


def _checked(text: str, name: str) -> str:
    if len(text.encode()) > LONGEST:
        raise InputError(
            f"Milvus keeps texts of at most {LONGEST:,} bytes. Got {name} = {text[:20]!r}..., "
            f"which has {len(text.encode()):,}. Shorten it."
        )
    return text


def _as_text(content: bytes | None) -> str:
    return "" if content is None else base64.b64encode(content).decode()


def _as_bytes(text: str) -> bytes | None:
    return base64.b64decode(text) if text else None


def _read_item(rows: list[dict[str, Any]], names: Sequence[str]) -> Item:
    """An item from its rows, the first of them first."""
    first, values = rows[0], {}
    for name in names:
        if name in ("labels", "metadata"):
            values[name] = first["fields"][name]
        elif name.endswith("_scores"):
            place = SIDES.index(name.removesuffix("_scores"))
            of_side = [row for row in rows if int(row["pk"]) % 2 == place]
            values[name] = _as_bytes(of_side[0]["scores"]) if of_side else None
        else:
            value = first[COLUMNS[name]]
            values[name] = _as_bytes(value) if name == "thumbnail" else value
    return Item(**values)


def _read_entries(rows: list[dict[str, Any]], n_bits: int) -> Entries:
    grouped = [list(group) for _, group in groupby(rows, key=lambda row: int(row["pk"]) // 2)]
    ids = np.array([int(group[0]["pk"]) // 2 for group in grouped], dtype=np.int64)
    codes, places = {}, {}
    for number, side in enumerate(SIDES):
        of_side = [
            (place, row)
            for place, group in enumerate(grouped)
            for row in group
            if int(row["pk"]) % 2 == number
        ]
        places[side] = np.array([place for place, _ in of_side], dtype=np.int64)
        codes[side] = _as_codes([_read_code(row) for _, row in of_side], n_bits)
    return Entries(ids, codes, places, [_read_item(group, FIELDS) for group in grouped])


def _read_code(row: dict[str, Any]) -> NDArray[np.uint8]:
    (code,) = row["code"]
    return np.frombuffer(code, dtype=np.uint8)


def _as_codes(rows: list[NDArray[np.uint8]], n_bits: int) -> Codes:
    packed = np.stack(rows) if rows else np.empty((0, -(-n_bits // 8)), np.uint8)
    return Codes(packed, n_bits)


def _as_ranking(answers: list[NDArray[np.int64]]) -> Ranking:
    most = max((answer.shape[1] for answer in answers), default=0)
    both = np.full((2, len(answers), most), NO_ROW, dtype=np.int64)
    for query, answer in enumerate(answers):
        both[:, query, : answer.shape[1]] = answer
    return Ranking(both[0], both[1].astype(np.int32))
