"""Tar shards, as WebDataset writes them: members in a row that share a name are one item.

``000017.jpg``, ``000017.txt`` and ``000017.json`` are a picture, its text, and fields as a line of
a list has them; ``000017.npy`` is the feature vector of the picture. Other members are left aside.
"""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from corrhash.datasets import folder as pictures
from corrhash.errors import InputError
from corrhash.records import Record, Unusable
from corrhash.sources.base import Records, Share, Source, files_at, record_of

SUFFIXES = (".tar", ".tar.gz", ".tgz")
TEXT, FIELDS, VECTOR = ".txt", ".json", ".npy"
READ = {*pictures.SUFFIXES, TEXT, FIELDS, VECTOR}
DAMAGE = (tarfile.TarError, OSError, EOFError, zlib.error)


def open_tar_shards(path: Path, share: Share) -> Source | None:
    """The items of a shard, or of a folder of them, of which each process reads some."""
    files = files_at(path, SUFFIXES)
    if not files:
        return None
    if len(files) == 1:
        return Source(share.of(tar_records(files[0])), None)
    return Source((record for file in share.of(files) for record in tar_records(file)), None)


def tar_records(path: Path) -> Records:
    """The items of one shard, read from its beginning to its end."""
    shard = path.name.partition(".")[0]
    for name, parts in _items(path):
        key = f"{shard}/{name}"
        try:
            yield _record(key, parts)
        except InputError as error:
            yield Unusable(key, str(error))


def _items(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Names, and the contents of the members that share one, by the ends of their names."""
    last, parts = "", dict[str, bytes]()
    try:
        with tarfile.open(path, "r|*") as tar:
            for member in tar:
                name, suffix = _split(member.name)
                if not member.isreg() or suffix not in READ:
                    continue
                if name != last and parts:
                    yield last, parts
                    parts = {}
                content = tar.extractfile(member)
                assert content is not None  # a regular file
                last, parts[suffix] = name, content.read()
    except DAMAGE as error:
        raise InputError(
            f"{path} cannot be read as a tar file (behind item {last!r}): {error}. What came "
            "before is kept. Copy the file again and start once more."
        ) from error
    if parts:
        yield last, parts


def _split(member: str) -> tuple[str, str]:
    """The name of an item, up to the first dot of its file, and the rest in small letters.

    >>> _split("part/a.17.JPG"), _split("./000017.jpg")
    (('part/a', '.17.jpg'), ('000017', '.jpg'))
    """
    path = PurePosixPath(member)
    stem, dot, rest = path.name.partition(".")
    return str(path.with_name(stem)) if stem else "", (dot + rest).lower()


def _record(key: str, parts: dict[str, bytes]) -> Record:
    fields = _fields(parts.pop(FIELDS, b"{}"))
    if text := _text(parts.pop(TEXT, b"")):
        fields["text"] = text
    vector = parts.pop(VECTOR, None)
    picture = next(iter(parts.values()), None)
    if vector is None:
        return record_of(fields, key, picture)
    return record_of(fields, key, _vector(vector), picture)


def _fields(content: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(content)
    except ValueError as error:
        raise InputError(f"Its .json cannot be read: {error}.") from error
    if not isinstance(fields, dict):
        raise InputError('Its .json is no object, as {"labels": ["boat"], "year": 2015}.')
    return fields


def _text(content: bytes) -> str:
    try:
        return content.decode().strip()
    except UnicodeDecodeError as error:
        raise InputError(f"Its .txt is not UTF-8: {error}.") from error


def _vector(content: bytes) -> np.ndarray:
    try:
        vector: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"Its .npy cannot be read: {error}.") from error
    if vector.ndim != 1 or vector.dtype.kind not in "fiu":
        raise InputError(
            f"Its .npy is an array of shape {vector.shape} of {vector.dtype}. Write one row of "
            "numbers."
        )
    return vector
