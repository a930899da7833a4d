"""File formats of user data: which one reads a file or folder."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.formats import arrays, folder, table, tar
from corrhash.datasets.formats.base import EVERYTHING, RecordStream, Shard, files_at
from corrhash.errors import InputError

__all__ = ["EVERYTHING", "Format", "RecordStream", "Shard", "find_format"]


class Format(Protocol):
    """A module that reads one file format."""

    @property
    def load(self) -> Callable[..., RetrievalSplit]:
        """Load a path for training."""

    @property
    def read(self) -> Callable[..., RecordStream]:
        """Stream every record of a path."""


FILE_FORMATS = {table: table.SUFFIXES, tar: tar.SUFFIXES, arrays: arrays.SUFFIXES}


def find_format(path: Path) -> tuple[Format, Path]:
    """Return the format of a file or folder, and the path that it reads.

    A folder with a manifest is read as that table. A folder of tar, Parquet or array files without
    images is read as those; any other folder as images.
    """
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot open {str(path)[:200]!r}: {reason}. Check the path.") from error
    if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
        raise InputError(f"{path} is a pipe or a device. Pass a regular file or a folder.")
    if not path.is_dir():
        for format, suffixes in FILE_FORMATS.items():
            if path.name.lower().endswith(suffixes):
                return format, path
        known = ", ".join(suffix for suffixes in FILE_FORMATS.values() for suffix in suffixes)
        raise InputError(
            f"Unknown file format {path.suffix!r}: {path}. Pass a folder of images, or a file that "
            f"ends in one of: {known}."
        )
    for name in table.MANIFESTS:
        if (path / name).is_file():
            return table, path / name
    if files_at(path, tar.SUFFIXES):
        return tar, path
    if files_at(path, (table.PARQUET,)):
        return table, path
    if files_at(path, arrays.SUFFIXES) and not folder.image_files(path):
        return arrays, path
    return folder, path
