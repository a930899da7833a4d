"""WebDataset tar shards: consecutive members that share a name are one item.

``000017.jpg``, ``000017.txt`` and ``000017.json`` are an image, its text, and fields as in a table;
``000017.npy`` is the feature vector of the image. Other members are ignored.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from corrhash._files import open_regular
from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.feature_cache import UNREADABLE_FEATURES
from corrhash.datasets.formats.base import (
    EVERYTHING,
    Records,
    RecordStream,
    Shard,
    files_at,
    record_from_fields,
    split_records,
    training_records,
)
from corrhash.datasets.images import IMAGE_SUFFIXES
from corrhash.datasets.records import Record, UnreadableRecord
from corrhash.errors import InputError

SUFFIXES = (".tar", ".tar.gz", ".tgz")
TEXT, FIELDS, VECTOR = ".txt", ".json", ".npy"
MEMBERS = {*IMAGE_SUFFIXES, TEXT, FIELDS, VECTOR}
DAMAGE = (
    tarfile.TarError,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    TypeError,  # of tarfile, for a truncated gzip header
    zlib.error,
    lzma.LZMAError,
)

LARGEST_MEMBER = 1 << 28
"""Bytes of a member that is read into memory; a compressed file can declare any number."""


def load(
    path: str | Path,
    seed: int = 0,
    *,
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """Load a shard, or a folder of shards, for training.

    Parameters
    ----------
    path : the file or folder.
    seed : of the split, if the items have no field ``split``.
    n_query, n_validation, n_train : sizes of a drawn split.
    """
    path = Path(path)
    records = list(training_records(read(path).records, path))
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    return split_records(records, path, path.name.partition(".")[0], seed, sizes)


def read(path: Path, shard: Shard = EVERYTHING) -> RecordStream:
    """Stream the items of a tar file, or of a folder of them.

    A shard of one file is every ``count``-th item, a shard of a folder every ``count``-th file.
    """
    files = files_at(path, SUFFIXES)
    if len(files) == 1:
        return RecordStream(shard.select(_records(files[0])), None)
    return RecordStream(chain.from_iterable(map(_records, shard.select(files))), None)


def _records(path: Path) -> Records:
    stem = path.name.partition(".")[0]
    for name, members in _items(path):
        key = f"{stem}/{name}"
        try:
            record: Record | UnreadableRecord = _record(key, members)
        except InputError as error:
            record = UnreadableRecord(key, str(error))
        yield record


def _items(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the name of each item and the contents of its members by suffix."""
    last, members = "", dict[str, bytes]()
    try:
        with open_regular(path) as file, tarfile.open(fileobj=file, mode="r|*") as tar:
            for member in tar:
                name, suffix = _split(member.name)
                if not member.isreg() or suffix not in MEMBERS:
                    continue
                if member.size > LARGEST_MEMBER:
                    raise InputError(
                        f"{path} has a member of {member.size:,} bytes, {member.name[:100]!r}. "
                        f"Remove this member: the limit is {LARGEST_MEMBER:,} bytes."
                    )
                if name != last and members:
                    yield last, members
                    members = {}
                content = tar.extractfile(member)
                assert content is not None  # a regular file
                last, members[suffix] = name, content.read()
    except InputError:
        raise
    except DAMAGE as error:
        where = f" after item {last!r}" if last else ""
        raise InputError(
            f"Cannot read {path} as a tar file{where}: {error}. The file may be damaged: download "
            "or export it again."
        ) from error
    if members:
        yield last, members


def _split(member: str) -> tuple[str, str]:
    """Split a member's name at the first dot of its file name; the suffix is in lower case.

    >>> _split("part/a.17.JPG"), _split("./000017.jpg")
    (('part/a', '.17.jpg'), ('000017', '.jpg'))
    """
    path = PurePosixPath(member)
    stem, dot, rest = path.name.partition(".")
    return str(path.with_name(stem)) if stem else "", (dot + rest).lower()


def _record(key: str, members: dict[str, bytes]) -> Record:
    fields = _fields(members.pop(FIELDS, b"{}"))
    if text := _text(members.pop(TEXT, b"")):
        fields["text"] = text
    vector = members.pop(VECTOR, None)
    image = next(iter(members.values()), None)
    if vector is None:
        return record_from_fields(fields, key, image)
    return record_from_fields(fields, key, _vector(vector), image)


def _fields(content: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"Invalid .json member: {str(error)[:200]}.") from error
    if not isinstance(fields, dict):
        raise InputError(
            'Expected a JSON object such as {"labels": ["boat"], "year": 2015} in the .json '
            f"member, got {fields!r}."
        )
    return fields


def _text(content: bytes) -> str:
    try:
        return content.decode().strip()
    except UnicodeDecodeError as error:
        raise InputError(f"The .txt member is not UTF-8: {error}.") from error


def _vector(content: bytes) -> np.ndarray:
    try:
        vector: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    except UNREADABLE_FEATURES as error:
        raise InputError(f"Invalid .npy member: {str(error)[:200]}.") from error
    if vector.ndim != 1 or vector.dtype.kind not in "fiu":
        raise InputError(
            "The .npy member must be a one-dimensional array of numbers, got shape "
            f"{vector.shape} and dtype {vector.dtype}."
        )
    return vector
