"""Feature vectors that stand ready in a file, row i for item i of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from corrhash.errors import InputError

SUFFIXES = (".npy", ".npz")


def read_feature_file(
    path: Path, n_items: int, rows: Sequence[int] | None = None, n_listed: int | None = None
) -> np.ndarray:
    """(n_items, d) float32 of a ``.npy`` file, or of a ``.npz`` file that holds one array.

    A file of all ``n_listed`` items of a dataset does too, where the items are its ``rows``.
    """
    array = _load(path)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InputError(
            f"{path} holds an array of shape {array.shape} and type {array.dtype}. Give one of "
            "numbers with a row for each item, (n, d)."
        )
    if rows is not None and len(array) == n_listed:
        array = array[np.asarray(rows)]
    if len(array) != n_items:
        raise InputError(
            f"{path} has {len(array):,} rows, and the dataset {n_items:,} items. Row i belongs to "
            "item i of the dataset as it is loaded: give a row for every item, in this order."
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold is told below
        features = array.astype(np.float32)
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        raise InputError(
            f"Row {int(np.argmin(finite))} of {path} is not finite, as {int((~finite).sum()):,} of "
            f"{n_items:,} rows are. Compute these again."
        )
    return features


def _load(path: Path) -> np.ndarray:
    """The one array of a file; what is pickled is never read."""
    try:
        content: Any = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            names = content.files
            if len(names) == 1:
                return content[names[0]]
    except FileNotFoundError as error:
        raise InputError(f"There is no file of features {path}. Check the path.") from error
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise InputError(
            f"{path} cannot be read as features: {error}. Write it with numpy.save(path, array)."
        ) from error
    raise InputError(
        f"{path} holds {len(names)} arrays ({', '.join(names)}), and one is wanted. "
        "Write it with numpy.save(path, array)."
    )
