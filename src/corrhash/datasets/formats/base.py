"""The contract of file formats: a stream of records for an index, a split of them for training."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from corrhash._files import (
    atomic_write,
    cache_folder,
    content_checksum,
    is_regular,
    make_folder,
)
from corrhash.datasets.base import PARTS, PairedDataset, RetrievalSplit, label_table
from corrhash.datasets.images import IMAGE_SUFFIXES, ImageFiles
from corrhash.datasets.records import Record, UnreadableRecord, parse_labels
from corrhash.datasets.splits import draw_user_split, split_of
from corrhash.errors import InputError, ParameterError
from corrhash.index.filters import NAME

T = TypeVar("T")
Records = Iterator[Record | UnreadableRecord]
Sizes = Mapping[str, int | None]
"""``n_query``, ``n_validation`` and ``n_train`` of a split to draw; None for the default."""

PART_NAMES = {
    **{part: part for part in PARTS},
    **dict.fromkeys(("training", "restval"), "train"),
    **dict.fromkeys(("val", "valid", "dev"), "validation"),
    **dict.fromkeys(("test", "queries"), "query"),
    **dict.fromkeys(("retrieval", "gallery"), "database"),
}
"""Accepted values of the field ``split``."""


@dataclass(frozen=True)
class RecordStream:
    """Records in a fixed order, and their number; None if it is unknown before reading."""

    records: Records
    total: int | None


@dataclass(frozen=True)
class Shard:
    """Part ``index`` of ``count`` that one of several processes reads; everything by default.

    >>> list(Shard(1, 3).select("abcdefgh")), Shard(1, 3).size(8)
    (['b', 'e', 'h'], 3)
    """

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse ``0/4``, the first of four shards."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        index, count = map(int, found.groups()) if found else (0, 0)
        if not index < count:
            raise ParameterError(
                "shard", f"must be I/N with I < N, such as 0/4, got {text[:40]!r}."
            )
        return cls(index, count)

    @classmethod
    def from_environment(cls) -> Shard:
        """Return the shard of this torchrun process, or everything outside torchrun."""
        rank, world_size = (os.environ.get(name) for name in ("RANK", "WORLD_SIZE"))
        return cls() if rank is None or world_size is None else cls.parse(f"{rank}/{world_size}")

    def select(self, values: Iterable[T]) -> Iterator[T]:
        """Yield every ``count``-th value, starting with number ``index``."""
        return islice(values, self.index, None, self.count)

    def size(self, total: int) -> int:
        """Return how many of ``total`` values :meth:`select` yields."""
        return len(range(self.index, total, self.count))


EVERYTHING = Shard()


def files_at(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the file itself, or the files in a folder, if their names end in ``suffixes``.

    A folder that also holds images is a folder of images: nothing is returned.
    """
    if not path.is_dir():
        return [path] if path.name.lower().endswith(suffixes) else []
    files = sorted(file for file in path.iterdir() if is_regular(file))
    if any(file.suffix.lower() in IMAGE_SUFFIXES for file in files):
        return []
    return [file for file in files if file.name.lower().endswith(suffixes)]


def record_from_fields(
    fields: Mapping[str, Any], key: str, image: Any = None, preview: Any = None, **codes: Any
) -> Record:
    """Build a record from named fields: ``text``, ``labels``, ``key``; others become metadata.

    ``text`` can be a list of captions, ``metadata`` a dictionary of further fields. Empty values
    are dropped. ``codes`` are ready codes.
    """
    given = fields.get("key")
    key = key if given in (None, "") else str(given)
    return Record(key, image, preview=preview, **described(fields), **codes)


def described(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return text, labels and metadata of named fields, as :func:`record_from_fields` does."""
    rest = {name: value for name, value in fields.items() if name != "key"}
    given = rest.pop("metadata") if isinstance(rest.get("metadata"), Mapping) else {}
    text, labels = _join_text(rest.pop("text", None)), parse_labels(rest.pop("labels", None))
    metadata = {_field_name(n): v for n, v in rest.items() if v not in (None, "", [])}
    return {"text": text, "labels": labels, "metadata": {**metadata, **given}}


def _join_text(value: Any) -> str:
    if value is None:
        return ""
    values = value if isinstance(value, (list, tuple)) else [value]
    return " ".join(text for text in (str(each).strip() for each in values) if text)


def _field_name(name: str) -> str:
    """Return a heading as a name that filters accept.

    >>> _field_name("Photo Date"), _field_name("year")
    ('photo_date', 'year')
    """
    if NAME.fullmatch(name):
        return name
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def training_records(records: Iterable[Record | UnreadableRecord], path: Path) -> Iterator[Record]:
    """Yield records that can be trained on; raise an error at the first one that cannot.

    Images inside tar and Parquet files are unpacked into the cache, named by their content.
    """
    for record in records:
        if isinstance(record, UnreadableRecord):
            raise InputError(f"Cannot read {record.key} ({path}): {record.reason}")
        if record.image is None:
            raise InputError(
                f"{record.key!r} in {path} has no image. Training needs an image for every item: "
                "add the path of a file or remove the item."
            )
        if isinstance(record.image, bytes):
            record = replace(record, image=_unpacked(record.image))
        yield record


def _unpacked(content: bytes) -> Path:
    name = content_checksum(content)
    path = cache_folder() / "unpacked" / name[:2] / name
    if not path.exists():
        make_folder(path.parent)
        with atomic_write(path) as file:
            file.write(content)
    return path


def split_records(
    records: Sequence[Record], path: Path, name: str, seed: int, sizes: Sizes
) -> RetrievalSplit:
    """Build the training split of records: the one in their field ``split``, or a drawn one."""
    if not records:
        raise InputError(f"{path} contains no items.")
    labels = [record.labels for record in records]
    label_names, table = label_table(labels) if any(labels) else ([], None)
    pairs = PairedDataset(
        images=_stack_images(records, path),
        texts=[record.text for record in records],
        labels=table,
        keys=[record.key for record in records],
        label_names=label_names,
    )
    parts = [_part(record, path) for record in records]
    if any(parts):
        return _assigned_split(path, pairs, name, parts)
    return replace(draw_user_split(pairs, seed, sizes, path.name), name=name)


def _stack_images(records: Sequence[Record], path: Path) -> ImageFiles | np.ndarray:
    n_vectors = sum(record.is_vector for record in records)
    if not n_vectors:
        return ImageFiles([record.image for record in records])
    widths = {record.image.shape if record.is_vector else None for record in records}
    if len(widths) > 1:
        found = f"The items in {path} have feature vectors of {len(widths):,} different lengths"
        if None in widths:
            found = f"Only {n_vectors:,} of {len(records):,} items in {path} have a feature vector"
        raise InputError(f"{found}. Give every item a feature vector of the same length.")
    return np.stack([record.image for record in records])


def _part(record: Record, path: Path) -> str | None:
    value = record.metadata.get("split")
    if value is None:
        return None
    part = PART_NAMES.get(str(value).strip().lower())
    if part is None:
        raise InputError(
            f"{record.key!r} in {path} has the unknown split {value!r}. Use one of: "
            f"{', '.join(PARTS)}."
        )
    return part


def _assigned_split(
    path: Path, pairs: PairedDataset, name: str, parts: list[str | None]
) -> RetrievalSplit:
    assigned = np.array([part or "database" for part in parts])
    rows = {part: np.flatnonzero(assigned == part) for part in PARTS}
    for part in ("train", "query"):
        if not len(rows[part]):
            raise InputError(
                f"No item in {path} has the split {part!r}. Assign at least one item to it, or "
                "remove the field 'split' to split the items at random."
            )
    return split_of(
        pairs, name, train=rows["train"], validation=rows["validation"], query=rows["query"]
    )
