"""ImageFiles: a list of pictures on disk that are opened on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from corrhash.errors import InputError


class ImageFiles:
    """Paths of pictures; ``files[i]`` opens number i as RGB, ``files[rows]`` is ImageFiles again.

    Parameters
    ----------
    paths : the files, in the order of the rows of a dataset.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.paths = [Path(path) for path in paths]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, (int, np.integer)):
            return open_picture(self.paths[rows])
        return ImageFiles([self.paths[i] for i in np.arange(len(self))[rows]])

    def __iter__(self) -> Iterator[Image.Image]:
        return map(open_picture, self.paths)

    def __repr__(self) -> str:
        return f"ImageFiles({len(self):,} pictures)"


def open_picture(path: Path) -> Image.Image:
    """The picture at ``path`` as RGB, or an error that names the file."""
    try:
        with Image.open(path) as picture:
            return picture.convert("RGB")
    except FileNotFoundError as error:
        raise InputError(f"There is no picture {path}. Check the path or leave it out.") from error
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InputError(f"Cannot read the picture {path}: {error}. Leave it out.") from error
