"""Metrics beside average precision: PR curves, hash lookup, NDCG and distance histograms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.metrics.tied_groups import Counts, Gains, TiedGroups, first_reaching, rank_by_distance
from corrhash.similarity import Labels, Similarity

RECALL_STEPS = 20
RECALL_LEVELS = np.arange(RECALL_STEPS + 1) / RECALL_STEPS
"""The recall levels of precision-recall curves: 0, .05, ..., 1."""


def precision_at_recall(groups: TiedGroups) -> NDArray[np.float64]:
    """(n_queries, 21) interpolated precision at each recall level; NaN without a relevant item.

    Interpolated precision is the highest precision at any rank with at least that recall. Expected
    hits grow linearly inside a tied group, so precision is monotone there: the highest value is
    where the level is first reached, or at the end of that or a later group.
    """
    answerable = groups.n_relevant > 0
    curves = np.full((len(answerable), len(RECALL_LEVELS)), np.nan)
    if answerable.any():
        curves[answerable] = _interpolate(groups.items[answerable], groups.relevant[answerable])
    return curves


def _interpolate(items: Counts, relevant: Counts) -> NDArray[np.float64]:
    """Precision-recall curves of queries that have a relevant item."""
    ends, hits = np.cumsum(items, axis=1), np.cumsum(relevant, axis=1)
    at_ends = hits / np.maximum(ends, 1)
    best_from_here = np.maximum.accumulate(at_ends[:, ::-1], axis=1)[:, ::-1]
    # Counted in units of 1/20 hit, all levels are integers, so that rounding cannot miss one.
    wanted = np.arange(RECALL_STEPS + 1) * hits[:, -1:]
    group = first_reaching(hits * RECALL_STEPS, wanted)
    group[:, 0] = np.argmax(items > 0, axis=1)  # recall 0 is reached at rank 1
    n, r, best, end, hit = (
        np.take_along_axis(array, group, axis=1)
        for array in (items, relevant, best_from_here, ends, hits)
    )
    missing = (wanted - (hit - r) * RECALL_STEPS) * n
    ranks = np.maximum(-(-missing // np.maximum(r * RECALL_STEPS, 1)), 1)  # rounded up
    crossing = (hit - r + ranks * r / n) / (end - n + ranks)
    return np.maximum(crossing, best)


def radius_curves(by_distance: TiedGroups) -> NDArray[np.float64]:
    """(n_queries, 3, n_bits + 1): precision, recall, and 1 where the result is empty, else 0.

    Retrieves all codes within Hamming radius 0, 1, ..., ``n_bits``. The precision of an empty
    result is 0. Recall is NaN for a query without a relevant item.
    """
    retrieved = np.cumsum(by_distance.items, axis=1)
    hits = np.cumsum(by_distance.relevant, axis=1)
    n_relevant = np.where(by_distance.n_relevant > 0, by_distance.n_relevant, np.nan)
    precision = hits / np.maximum(retrieved, 1)
    return np.stack([precision, hits / n_relevant[:, None], retrieved == 0], axis=1)


def ndcg(groups: TiedGroups, ideal: TiedGroups, depth: int) -> NDArray[np.float64]:
    """(n_queries,) NDCG at ``depth``; NaN for a query without a relevant item.

    The gain is the number of shared labels. Tied items have their group's mean gain. ``ideal`` is
    the ideal ranking of the whole database, as :func:`ideal_groups` returns it.
    """
    best = _dcg(ideal, depth)
    return np.where(best > 0, _dcg(groups, depth) / np.where(best > 0, best, 1.0), np.nan)


def ideal_groups(gain_counts: Counts) -> TiedGroups:
    """The ideal ranking, from (n_queries, n_gains) counts of database items by gain 0, 1, 2, ..."""
    gains = np.arange(gain_counts.shape[1])[::-1]
    items = gain_counts[:, ::-1]
    return TiedGroups(items, np.where(gains > 0, items, 0), items * gains)


def _dcg(groups: TiedGroups, depth: int) -> NDArray[np.float64]:
    """(n_queries,) discounted cumulative gain: gain / log2(1 + rank), summed to ``depth``."""
    assert groups.gains is not None
    depth = min(depth, int(groups.items[:1].sum()))
    discounts = 1.0 / np.log2(1.0 + np.arange(1, depth + 1))
    cumulative = np.concatenate([[0.0], np.cumsum(discounts)])
    start = np.minimum(groups.items_before, depth)
    stop = np.minimum(groups.items_before + groups.items, depth)
    mean_gain = groups.gains / np.maximum(groups.items, 1)
    return np.sum(mean_gain * (cumulative[stop] - cumulative[start]), axis=1)


def paired_rank(groups: TiedGroups) -> NDArray[np.float64]:
    """(n_queries,) expected rank of the paired sample, the one relevant item of its query."""
    middle = groups.items_before + (groups.items + 1) / 2
    return np.sum(np.where(groups.relevant > 0, middle, 0.0), axis=1)


def distance_counts(
    queries: Codes,
    database: Codes,
    query_labels: Labels,
    database_labels: Labels,
    threads: int | None = None,
) -> Counts:
    """(2, n_bits + 1) number of pairs at each distance: with and without a shared label.

    >>> codes = Codes.from_signs([[1, 1], [1, -1]])
    >>> distance_counts(codes, codes, [[1, 0], [0, 1]], [[1, 0], [0, 1]])
    array([[2, 0, 0],
           [0, 2, 0]])
    """
    gains = Gains(Similarity.from_labels(query_labels, database_labels))
    counts = np.zeros((2, queries.n_bits + 1), dtype=np.int64)
    for ranked in rank_by_distance(queries, database, gains, graded=False, threads=threads):
        relevant = ranked.groups.relevant.sum(axis=0)
        counts += np.stack([relevant, ranked.groups.items.sum(axis=0) - relevant])
    return counts
