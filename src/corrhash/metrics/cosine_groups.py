"""Rankings by the cosine of real-valued scores, as tied groups: what binarisation is judged by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.errors import InputError
from corrhash.metrics.gains import Gains
from corrhash.metrics.hamming_groups import CELLS_AT_ONCE, count_gains
from corrhash.metrics.tied_groups import Counts, RankedSlice, TiedGroups

STEPS = 1 << 24
"""Steps of the cosine between 0 and 1: about the precision of a float32."""


def rank_by_cosine(
    queries: NDArray[Any], database: NDArray[Any], gains: Gains, merge_ties: bool
) -> Iterator[RankedSlice]:
    """Slices of the queries: a group for each distinct cosine, or for each item in stable order.

    Cosines are compared in steps of 2^-24: what differs by rounding alone counts as tied.
    """
    queries, database = unit_rows(queries), unit_rows(database)
    at_once = max(1, CELLS_AT_ONCE // len(database))
    for start in range(0, len(queries), at_once):
        span = slice(start, start + at_once)
        steps = np.rint(queries[span] @ database.T * -STEPS).astype(np.int32)  # nearest first
        order = np.argsort(steps, axis=1, kind="stable")
        worth = np.take_along_axis(gains.dense(span), order, axis=1)
        by_gain = count_gains(worth, gains.most)
        if not merge_ties:
            yield RankedSlice(TiedGroups.singles(worth), by_gain, None)
            continue
        ranked = np.take_along_axis(steps, order, axis=1)
        for row in range(len(worth)):
            groups = _merge_equals(ranked[row], worth[row])
            yield RankedSlice(groups, by_gain[row : row + 1], None)


def _merge_equals(ranked: NDArray[np.int32], worth: Counts) -> TiedGroups:
    """One query's items in order -> one group for each distinct cosine."""
    first = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    items = np.diff(np.append(first, len(ranked)))
    relevant = np.add.reduceat((worth > 0).astype(np.int64), first)
    return TiedGroups(items[None], relevant[None], np.add.reduceat(worth, first)[None])


def unit_rows(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Rows divided by their length; a row of zeros stays zero."""
    scores = np.asarray(scores, dtype=np.float64)
    # Brought near one first, so that squares of very large or small numbers can be summed.
    largest = np.abs(scores).max(axis=1, keepdims=True, initial=0.0)
    scores = scores / np.where(largest > 0, largest, 1.0)
    length = np.linalg.norm(scores, axis=1, keepdims=True)
    return scores / np.where(length > 0, length, 1.0)


def check_scores(scores: ArrayLike, name: str) -> NDArray[Any]:
    """``scores`` as a table of finite numbers, or an error that says why not."""
    table = np.asarray(scores)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise InputError(
            f"{name} must be Codes, or an (n, n_bits) array of real-valued scores. "
            f"Got shape {table.shape} of {table.dtype}."
        )
    if not np.isfinite(table).all():
        row = int(np.argwhere(~np.isfinite(table))[0, 0])
        raise InputError(f"{name} must be finite. Row {row} is not. Look for a diverged model.")
    return table
