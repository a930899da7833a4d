"""Precision against recall: along the ranking, and by Hamming radius."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrhash.metrics.tied_groups import Counts, TiedGroups

RECALL_STEPS = 20
RECALL_GRID = np.arange(RECALL_STEPS + 1) / RECALL_STEPS
"""0, .05, ..., 1: the recall levels at which precision is read off."""

_ROUNDING = 1e-9  # expected hits are fractions; a level reached up to rounding is reached


def precision_at_recall(groups: TiedGroups) -> NDArray[np.float64]:
    """(n_queries, 21) the highest precision at any rank whose recall is at least each level.

    Expected hits inside a group of ties grow evenly, so precision is monotone there: the highest
    value lies where the level is first reached, or at the end of that or of a later group.
    Rows of queries without a relevant item are NaN.
    """
    curves = np.full((len(groups.items), len(RECALL_GRID)), np.nan)
    for query in np.flatnonzero(groups.n_relevant):
        filled = groups.items[query] > 0
        curves[query] = _interpolate(groups.items[query, filled], groups.relevant[query, filled])
    return curves


def _interpolate(items: Counts, relevant: Counts) -> NDArray[np.float64]:
    """The curve of one query from its groups, none of them empty."""
    ends, hits = np.cumsum(items), np.cumsum(relevant)
    best_from_here = np.maximum.accumulate((hits / ends)[::-1])[::-1]
    wanted = np.arange(RECALL_STEPS + 1) * hits[-1] / RECALL_STEPS
    group = np.searchsorted(hits, wanted - _ROUNDING)
    before, hits_before = ends[group] - items[group], hits[group] - relevant[group]
    share = relevant[group] / items[group]
    # The first rank of the group that reaches the level; rank 1 of the list for recall 0.
    missing = np.maximum(wanted - hits_before - _ROUNDING, 0.0)
    places = np.maximum(np.ceil(missing / np.where(share > 0, share, 1.0)), 1)
    crossing = (hits_before + places * share) / (before + places)
    return np.maximum(crossing, best_from_here[group])


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
