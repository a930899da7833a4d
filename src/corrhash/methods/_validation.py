"""Validation of the parameters and inputs of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from corrhash.datasets.base import n_rows
from corrhash.datasets.images import ImageFiles
from corrhash.errors import InputError


def check_number(name: str, value: Any, *, zero: bool) -> None:
    """Raise an error unless ``value`` is finite and positive, or 0 where ``zero`` is allowed."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not (0 <= value < np.inf) or (value == 0 and not zero):
        raise InputError(f"{name} must be a number {'>= 0' if zero else '> 0'}, got {value!r}.")


def check_count(name: str, value: Any, *, least: int = 1) -> None:
    """Raise an error unless ``value`` is an integer of at least ``least``."""
    integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not integer or value < least:
        raise InputError(f"{name} must be an integer >= {least}, got {value!r}.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise an error unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise InputError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}.")


def feature_rows(
    values: Any, what: str, n_columns: int | None = None, *, convert: bool = True
) -> Any:
    """Return ``values`` as an (n, d) float array, or a float sparse matrix, of features.

    ``n_columns`` is the number of columns that the model was trained on. ``convert=False`` leaves
    the type of a sparse matrix: SciPy takes 60 us to convert even one row.
    """
    if not sp.issparse(values):
        values = _dense_rows(values, what)
    elif convert:
        values = values.astype(np.float64)  # sums of small integers would overflow
    if n_columns is not None and values.shape[1] != n_columns:
        raise InputError(
            f"The model was trained on {n_columns} columns of {what}, got {values.shape[1]}. "
            "Read the items with the reader of the model."
        )
    return values


def _dense_rows(values: Any, what: str) -> np.ndarray:
    expected = f"This method reads {what} as (n, d) arrays of numbers, got"
    if isinstance(values, ImageFiles) or getattr(values, "ndim", 0) == 4:
        raise InputError(
            f"{expected} {n_rows(values)} images. Load them with image_features='simple'."
        )
    array = np.asarray(values)
    if array.dtype.kind in "USO":
        raise InputError(
            f"{expected} strings. Read them with the reader of the model, "
            "reader.read_texts([...]), or with load_dataset."
        )
    if array.ndim != 2:
        raise InputError(f"{expected} shape {array.shape}. Pass one item as a row: x[None, :].")
    return array.astype(np.float64)
