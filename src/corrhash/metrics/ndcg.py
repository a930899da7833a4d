"""Normalised discounted cumulative gain, where the gain is the number of shared labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrhash.metrics.tied_groups import Counts, TiedGroups


def ndcg(groups: TiedGroups, ideal: TiedGroups, depth: int) -> NDArray[np.float64]:
    """(n_queries,) NDCG at ``depth``; tied items receive their group's mean gain.

    ``ideal`` is the best possible order of the whole database: one group for each gain, the
    largest first. Queries without a relevant item are NaN.
    """
    best = _discounted(ideal, depth)
    return np.where(best > 0, _discounted(groups, depth) / np.where(best > 0, best, 1.0), np.nan)


def ideal_groups(gain_counts: Counts) -> TiedGroups:
    """The best order from (n_queries, n_gains) counts of database items by gain 0, 1, 2, ..."""
    gains = np.arange(gain_counts.shape[1])[::-1]
    items = gain_counts[:, ::-1]
    return TiedGroups(items, np.where(gains > 0, items, 0), items * gains)


def _discounted(groups: TiedGroups, depth: int) -> NDArray[np.float64]:
    """(n_queries,) the sum of gain / log2(1 + rank) over the first ``depth`` ranks."""
    assert groups.gains is not None
    depth = min(depth, int(groups.items[:1].sum()))
    discounts = 1.0 / np.log2(1.0 + np.arange(1, depth + 1))
    up_to = np.concatenate([[0.0], np.cumsum(discounts)])  # up_to[r]: the first r discounts
    start = np.minimum(groups.items_before, depth)
    stop = np.minimum(groups.items_before + groups.items, depth)
    mean_gain = groups.gains / np.maximum(groups.items, 1)
    return np.sum(mean_gain * (up_to[stop] - up_to[start]), axis=1)
