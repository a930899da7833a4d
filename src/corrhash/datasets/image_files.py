"""ImageFiles: a list of pictures on disk that are opened on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count
from PIL import Image

from corrhash.datasets.open_picture import UNREADABLE, open_picture
from corrhash.errors import InputError

MOST_THREADS = 8
AHEAD = 4  # pictures a thread has decoded before they are asked for


class ImageFiles:
    """Paths of pictures; ``files[i]`` opens number i as RGB, ``files[rows]`` is ImageFiles again.

    Iterating decodes in threads, some pictures ahead.

    Parameters
    ----------
    paths : the files, in the order of the rows of a dataset.
    rows : their rows in the whole dataset, if these are some of its pictures; errors name them.
    n_listed : how many rows the whole dataset has, where it lists more than are used.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        rows: Sequence[int] | None = None,
        n_listed: int | None = None,
    ) -> None:
        self.paths = [Path(path) for path in paths]
        self.rows = range(len(self.paths)) if rows is None else rows
        self.n_listed = len(self.paths) if n_listed is None else n_listed

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, (int, np.integer)):
            return _open_row(self.paths[rows], self.rows[int(rows)])
        taken = np.arange(len(self))[rows].tolist()
        paths, of_whole = [self.paths[i] for i in taken], [self.rows[i] for i in taken]
        return ImageFiles(paths, of_whole, self.n_listed)

    def __iter__(self) -> Iterator[Image.Image]:
        with ThreadPoolExecutor(n_threads()) as pool:
            waiting: deque[Future[Image.Image]] = deque()
            try:
                for path, row in zip(self.paths, self.rows, strict=True):
                    waiting.append(pool.submit(_open_row, path, row))
                    if len(waiting) >= AHEAD * n_threads():
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)

    def __repr__(self) -> str:
        return f"ImageFiles({len(self):,} pictures)"


def n_threads() -> int:
    """How many pictures are decoded at a time."""
    return min(MOST_THREADS, cpu_count())


def _open_row(path: Path, row: int) -> Image.Image:
    """The picture at ``path`` as RGB, or an error that names the file and its row."""
    try:
        return open_picture(path)
    except FileNotFoundError as error:
        raise InputError(
            f"There is no picture {path} (row {row}). Check the path, or leave the row out."
        ) from error
    except UNREADABLE as error:
        raise InputError(
            f"Cannot read the picture {path} (row {row}): {error}. Repair it, or leave the row out."
        ) from error
