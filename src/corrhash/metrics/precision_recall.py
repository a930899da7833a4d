"""Precision against recall: along the ranking, and by Hamming radius."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrhash.metrics.tied_groups import Counts, TiedGroups, first_reaching

RECALL_STEPS = 20
RECALL_GRID = np.arange(RECALL_STEPS + 1) / RECALL_STEPS
"""0, .05, ..., 1: the recall levels at which precision is read off."""


def precision_at_recall(groups: TiedGroups) -> NDArray[np.float64]:
    """(n_queries, 21) the highest precision at any rank whose recall is at least each level.

    Expected hits inside a group of ties grow evenly, so precision is monotone there: the highest
    value lies where the level is first reached, or at the end of that or of a later group.
    Rows of queries without a relevant item are NaN.
    """
    some = groups.n_relevant > 0
    curves = np.full((len(some), len(RECALL_GRID)), np.nan)
    if some.any():
        curves[some] = _interpolate(groups.items[some], groups.relevant[some])
    return curves


def _interpolate(items: Counts, relevant: Counts) -> NDArray[np.float64]:
    """The curves of queries that have a relevant item."""
    ends, hits = np.cumsum(items, axis=1), np.cumsum(relevant, axis=1)
    at_ends = hits / np.maximum(ends, 1)
    best_from_here = np.maximum.accumulate(at_ends[:, ::-1], axis=1)[:, ::-1]
    # In steps of 1/20 all counts are whole numbers: no level is missed by rounding.
    wanted = np.arange(RECALL_STEPS + 1) * hits[:, -1:]
    group = first_reaching(hits * RECALL_STEPS, wanted)
    group[:, 0] = np.argmax(items > 0, axis=1)  # recall 0 is reached at rank 1
    n, r, best, end, hit = (
        np.take_along_axis(table, group, axis=1)
        for table in (items, relevant, best_from_here, ends, hits)
    )
    missing = (wanted - (hit - r) * RECALL_STEPS) * n
    places = np.maximum(-(-missing // np.maximum(r * RECALL_STEPS, 1)), 1)  # rounded up
    crossing = (hit - r + places * r / n) / (end - n + places)
    return np.maximum(crossing, best)


def within_radius(by_distance: TiedGroups) -> NDArray[np.float64]:
    """(n_queries, 3, n_bits + 1): precision, recall, and whether nothing is retrieved (0 or 1).

    All codes within radius 0, 1, ..., ``n_bits`` are retrieved; precision is 0 where that is
    nothing. Recall is NaN for a query without a relevant item.
    """
    retrieved = np.cumsum(by_distance.items, axis=1)
    hits = np.cumsum(by_distance.relevant, axis=1)
    n_relevant = np.where(by_distance.n_relevant > 0, by_distance.n_relevant, np.nan)
    precision = hits / np.maximum(retrieved, 1)
    return np.stack([precision, hits / n_relevant[:, None], retrieved == 0], axis=1)
