"""Tables of items: CSV, TSV, JSON Lines and Parquet files, read alike for training and indexing.

A row is an item with the fields ``image`` (a path relative to the file; in Parquet also the bytes
of an image), ``text``, ``labels``, ``key``, ``split`` and ``features`` (the feature vector of the
image, as a list of numbers). Other fields become metadata. The key defaults to the image path, or
to the file name and row number. Rows with the same key are one item with all their texts and
labels.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.feature_cache import read_feature_file
from corrhash.datasets.formats.base import (
    EVERYTHING,
    Records,
    RecordStream,
    Shard,
    described,
    files_at,
    record_from_fields,
    split_records,
    training_records,
)
from corrhash.datasets.formats.table_parsers import JSON_LINES, PARQUET, SUFFIXES, Cells, read_rows
from corrhash.datasets.records import Record, UnreadableRecord
from corrhash.errors import InputError, check_settings, did_you_mean
from corrhash.index.filters import LARGEST
from corrhash.index.items import MODALITIES

MANIFESTS = tuple(f"manifest{suffix}" for suffix in SUFFIXES)
"""Names of a table that describes the folder it is in."""

CODES = tuple(f"{modality}_code" for modality in MODALITIES)
"""Fields that only ``corrhash export`` writes."""

KEYS = ("key", "image")
"""Columns that name the item of a row."""

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


def load(
    path: str | Path,
    seed: int = 0,
    *,
    image: str = "image",
    text: str = "text",
    labels: str = "labels",
    key: str = "key",
    split: str = "split",
    image_folder: str = ".",
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """Load the items of a table for training.

    Parameters
    ----------
    path : a file, or a folder of Parquet files.
    seed : of the split, if the table has no field ``split``.
    image, text, labels, key, split : names of the columns; only images and texts are required.
    image_folder : folder that image paths are relative to, relative to the table itself.
    n_query, n_validation, n_train : sizes of a random split.
    """
    path = Path(path)
    columns = Columns(image, text, labels, key, split, image_folder)
    items: dict[str, Record] = {}
    for file in _files(path):
        table = Table(file, columns)
        table.check_columns()
        for record in training_records(table.rows(metadata=False), path):
            first = items.setdefault(record.key, record)
            parts = [each.metadata.get("split") for each in (first, record)]
            if parts[0] != parts[1]:
                raise InputError(
                    f"{path} assigns {record.key!r} to two splits, {parts[0]} and {parts[1]}. "
                    "All rows of an item must have the same split."
                )
            if first is not record:
                items[record.key] = first.merge(record)
    name = path.parent.resolve().name if path.name in MANIFESTS else path.stem
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    return split_records(list(items.values()), path, name, seed, sizes)


def read(
    path: Path,
    shard: Shard = EVERYTHING,
    *,
    features: Path | None = None,
    image: str = "image",
    text: str = "text",
    labels: str = "labels",
    key: str = "key",
    split: str = "split",
    image_folder: str = ".",
    codes: bool = False,
) -> RecordStream:
    """Stream the items of a table; the parameters are those of :func:`load`.

    ``features`` is a file with a feature vector for each item. With ``codes``, records have the
    ready codes of the columns image_code and text_code, in hexadecimal digits. A shard of one file
    is every ``count``-th item, a shard of a folder every ``count``-th file.
    """
    columns = Columns(image, text, labels, key, split, image_folder)
    files = _files(path)
    if len(files) == 1:
        table = Table(files[0], columns, codes)
        records = table.items(None if features is None else read_feature_file(features, len(table)))
        return RecordStream(shard.select(records), shard.size(len(table)))
    if features is not None:
        raise InputError(f"--features requires a single table, but {path} is a folder.")
    tables = [Table(file, columns, codes) for file in shard.select(files)]
    return RecordStream(chain.from_iterable(t.items() for t in tables), sum(map(len, tables)))


def read_changes(path: Path) -> Iterator[dict[str, Any] | UnreadableRecord]:
    """Yield the key of each row and its text, labels and metadata, except empty ones.

    The key is that of an item that was read from the table: the field ``key``, or the image path.
    """
    if not path.name.lower().endswith(SUFFIXES):
        raise InputError(f"{path} is not a table ({', '.join(SUFFIXES)}). Pass another file.")
    table = Table(path, Columns())
    for number, where, cells in table.cells():
        if isinstance(cells, InputError):
            yield UnreadableRecord(where, str(cells))
        elif not any(cells.get(name) for name in (*KEYS, "path")):
            yield UnreadableRecord(where, f"It has no {' or '.join(KEYS)}.")
        else:
            found = described(table.fields(cells, metadata=True))
            given = {name: value for name, value in found.items() if value}
            yield {"key": table.key(cells, number), **given}


def _files(path: Path) -> list[Path]:
    return files_at(path, (PARQUET,)) if path.is_dir() else [path]


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a table, and the folder that image paths are relative to."""

    image: str = "image"
    text: str = "text"
    labels: str = "labels"
    key: str = "key"
    split: str = "split"
    image_folder: str = "."

    def __post_init__(self) -> None:
        check_settings(self, {})


@dataclass(frozen=True)
class _Scan:
    """What a first pass over a table finds."""

    n_items: int
    repeated: dict[int, int]  # number of rows by hash of a key that occurs more than once
    numeric: set[str]  # columns of a CSV file that hold numbers only


@dataclass
class Table:
    """The rows of one file, and the items that rows with the same key make up."""

    path: Path
    columns: Columns
    codes: bool = False  # whether records have the codes of the table

    def __len__(self) -> int:
        return self._scan.n_items

    @cached_property
    def _scan(self) -> _Scan:
        hashes, numeric, mixed = array("q"), set[str](), set[str]()
        for number, _, cells in self.cells(keys_only=True):
            hashes.append(hash(self.key(cells, number)))
            if isinstance(cells, InputError) or not self._is_csv:
                continue
            for name in cells.keys() - mixed:
                if cells[name]:
                    (numeric if _is_number(cells[name]) else mixed).add(name)
        values, counts = np.unique(np.frombuffer(hashes, np.int64), return_counts=True)
        repeated = zip(values[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True)
        return _Scan(len(values), dict(repeated), numeric - mixed)

    def check_columns(self) -> None:
        """Raise an error if the first row lacks the image column or the text column."""
        for _, _, cells in self.cells():
            if isinstance(cells, InputError):
                return
            for kind, others in (("image", {"path", "features"}), ("text", set[str]())):
                name = getattr(self.columns, kind)
                if not {name, *others} & set(cells):
                    raise InputError(
                        f"{self.path.name} has no column {name!r}. Its columns are "
                        f"{', '.join(cells)}.{did_you_mean(name, cells)} Pass the name of the "
                        f"{kind} column: --data {kind}=NAME."
                    )
            return

    def rows(self, *, metadata: bool = True) -> Records:
        """Yield a record for each row; without ``metadata``, records keep only the split."""
        for number, where, cells in self.cells():
            yield self._record(number, where, cells, metadata=metadata)

    def items(self, features: np.ndarray | None = None) -> Records:
        """Yield a record for each key; rows with the same key are merged into one record.

        ``features`` has a row for each item, in the order in which keys first occur.
        """
        remaining = dict(self._scan.repeated)
        pending: dict[int, dict[str, Record]] = {}
        n_seen = 0
        for number, where, cells in self.cells():
            key = self.key(cells, number)
            group = pending.setdefault(hash(key), {}) if hash(key) in remaining else None
            is_new = group is None or key not in group
            vector = features[n_seen] if is_new and features is not None else None
            n_seen += is_new
            record = self._record(number, where, cells, vector)
            if group is None or isinstance(record, UnreadableRecord):
                yield record
            else:
                group[key] = record if is_new else group[key].merge(record)
            if group is not None:
                remaining[hash(key)] -= 1
                if not remaining[hash(key)]:
                    yield from pending.pop(hash(key)).values()

    @property
    def _is_csv(self) -> bool:
        return self.path.suffix.lower() not in (*JSON_LINES, PARQUET)

    def cells(self, *, keys_only: bool = False) -> Iterator[tuple[int, str, Cells]]:
        """Yield number, location and cells of each row, or an error instead of invalid cells."""
        keys = [self.columns.key, self.columns.image, "path"] if keys_only else None
        for number, (where, cells) in enumerate(read_rows(self.path, keys)):
            yield number, f"{where} of {self.path.name}", cells

    def key(self, cells: Cells, number: int) -> str:
        """Return the key of a row: the field, the image path, or file name and row number."""
        default = f"{self.path.stem}/{number}"
        if isinstance(cells, InputError):
            return default
        if (key := cells.get(self.columns.key)) not in (None, ""):
            return str(key)
        image = cells.get(self.columns.image) or cells.get("path")
        return (_normalized(image) if isinstance(image, str) else "") or default

    def _record(
        self,
        number: int,
        where: str,
        cells: Cells,
        vector: np.ndarray | None = None,
        *,
        metadata: bool = True,
    ) -> Record | UnreadableRecord:
        try:
            if isinstance(cells, InputError):
                raise cells
            image, fields = self._image(cells), self.fields(cells, metadata=metadata)
            if isinstance(fields.get("features"), list):
                own = _vector(fields.pop("features"))
                vector = own if vector is None else vector
            key = self.key(cells, number)
            ready = {name: cells.get(name) or None for name in CODES} if self.codes else {}
            if vector is None:
                return record_from_fields(fields, key, image, **ready)
            return record_from_fields(fields, key, vector, image, **ready)
        except InputError as error:
            return UnreadableRecord(where, str(error))

    def _image(self, cells: Mapping[str, Any]) -> Path | bytes | None:
        value = cells.get(self.columns.image)
        if isinstance(value, dict):  # as Hugging Face datasets store images
            value = value.get("bytes") or value.get("path")
        if isinstance(value, bytes):
            return value
        folder = self.path.parent / self.columns.image_folder
        if not value:  # an export has the path as it was indexed
            value, folder = cells.get("path"), Path()
        if not value or not str(value).strip():
            return None
        if not isinstance(value, str) or "://" in value:
            raise InputError(
                f"image must be the path of a file, got {value!r}. Download remote images first."
            )
        return folder / value.strip().replace("\\", "/")

    def fields(self, cells: Mapping[str, Any], *, metadata: bool) -> dict[str, Any]:
        """Return the cells of a row under the names of fields, numbers of a CSV file as such."""
        c = self.columns
        roles = {c.text: "text", c.labels: "labels", c.key: "key", c.split: "split"}
        skipped = {c.image, "path"}
        if any(code in cells for code in CODES):  # an export: ids and codes belong to its model
            skipped |= {"id", *CODES}
        kept = cells if metadata else cells.keys() & {*roles, "features"}
        numeric = self._scan.numeric - roles.keys() if metadata and self._is_csv else ()
        return {
            roles.get(name, name): _number(cells[name]) if name in numeric else cells[name]
            for name in kept
            if name not in skipped
        }


def _normalized(path: str) -> str:
    """Return a path with forward slashes and composed accents, alike on every file system."""
    return unicodedata.normalize("NFC", path.strip().replace("\\", "/"))


def _vector(values: list[Any]) -> np.ndarray:
    try:
        return np.array(values, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise InputError(f"features must be a list of numbers: {error}.") from error


def _is_number(cell: Any) -> bool:
    return NUMBER.fullmatch(str(cell)) is not None and abs(float(cell)) <= LARGEST


def _number(cell: str) -> int | float | None:
    if not cell:
        return None
    return float(cell) if "." in cell else int(cell)
