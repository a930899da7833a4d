"""ImageFiles: a list of pictures on disk that are opened on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from corrhash.errors import InputError

UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""What decoders raise for damaged files; which of them depends on format and damage."""


class ImageFiles:
    """Paths of pictures; ``files[i]`` opens number i as RGB, ``files[rows]`` is ImageFiles again.

    Parameters
    ----------
    paths : the files, in the order of the rows of a dataset.
    rows : their rows in the whole dataset, if these are some of its pictures; errors name them.
    """

    def __init__(self, paths: Sequence[str | Path], rows: Sequence[int] | None = None) -> None:
        self.paths = [Path(path) for path in paths]
        self.rows = range(len(self.paths)) if rows is None else rows

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, (int, np.integer)):
            return _open_row(self.paths[rows], self.rows[int(rows)])
        taken = np.arange(len(self))[rows].tolist()
        return ImageFiles([self.paths[i] for i in taken], [self.rows[i] for i in taken])

    def __iter__(self) -> Iterator[Image.Image]:
        return map(_open_row, self.paths, self.rows)

    def __repr__(self) -> str:
        return f"ImageFiles({len(self):,} pictures)"


def _open_row(path: Path, row: int) -> Image.Image:
    """The picture at ``path`` as RGB, or an error that names the file and its row."""
    try:
        with Image.open(path) as picture:
            return picture.convert("RGB")
    except FileNotFoundError as error:
        raise InputError(
            f"There is no picture {path} (row {row}). Check the path, or leave the row out."
        ) from error
    except UNREADABLE as error:
        raise InputError(
            f"Cannot read the picture {path} (row {row}): {error}. Repair it, or leave the row out."
        ) from error
