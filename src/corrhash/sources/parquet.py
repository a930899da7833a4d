"""Parquet files: a row is an item, and its columns are named as the fields of a list are.

``image`` holds paths, seen from the file, or the bytes of pictures; ``features`` the feature vector
that the model reads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from corrhash.errors import InputError
from corrhash.records import Record, Unusable
from corrhash.sources.base import Records, Share, Source, files_at, record_of

SUFFIXES = (".parquet",)
ROWS = 512
"""Rows in memory at a time."""


def open_parquet(path: Path, share: Share) -> Source | None:
    """The rows of a file, or of a folder of files, of which each process reads some."""
    files = files_at(path, SUFFIXES)
    if not files:
        return None
    if len(files) == 1:
        return Source(share.of(parquet_records(files[0])), share.size(_n_rows(files[0])))
    own = list(share.of(files))
    return Source((record for file in own for record in parquet_records(file)), _sum(own))


def parquet_records(path: Path) -> Records:
    """The rows of one file, some in memory at a time."""
    number = 0
    batches = _told(path, lambda: pyarrow.parquet.ParquetFile(path).iter_batches(ROWS))
    while (batch := _told(path, lambda: next(batches, None))) is not None:
        for row in batch.to_pylist():
            key = f"{path.stem}/{number}"
            number += 1
            try:
                yield _record(path, row, key)
            except InputError as error:
                yield Unusable(key, str(error))


def _record(path: Path, row: dict[str, Any], key: str) -> Record:
    image, vector = row.pop("image", None), row.pop("features", None)
    if isinstance(image, dict):  # as the library datasets keeps pictures
        image = image.get("bytes") or image.get("path")
    if isinstance(image, str):
        key, image = image, path.parent / image
    if vector is None:
        return record_of(row, key, image)
    return record_of(row, key, np.array(vector, dtype=np.float32), image)


def _sum(files: list[Path]) -> int:
    return sum(map(_n_rows, files))


def _n_rows(path: Path) -> int:
    n: int = _told(path, lambda: pyarrow.parquet.read_metadata(path).num_rows)
    return n


def _told(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(
            f"{path} cannot be read as Parquet: {error}. Copy the file again."
        ) from error
