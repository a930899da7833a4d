"""Slow reference implementations: lists, loops, and all orders of tied items."""

from itertools import chain, permutations, product
from math import log2, nan

import numpy as np


def slow_average_precision(ranked, name, depth=None):
    """AP of one ranking without ties; ``ranked`` lists relevance (0 or 1) from the nearest."""
    ranks = [rank for rank, relevant in enumerate(ranked, 1) if relevant]
    precisions = [hits / rank for hits, rank in enumerate(ranks, 1)]
    inside = [p for p, rank in zip(precisions, ranks, strict=True) if depth and rank <= depth]
    if not ranks:
        return 0.0 if name == "dcmh" else nan
    if name in ("all", "dcmh"):
        return sum(precisions) / len(ranks)
    if name == "first":
        first = precisions[:depth]
        return sum(first) / len(first)
    if name == "hashnet":
        return sum(inside) / len(inside) if inside else nan
    if name == "possible":
        return sum(inside) / min(depth, len(ranks))
    return sum(inside) / len(ranks)  # trec


def orders_of_ties(distances, gains):
    """Yield every ranking by distance, as a list of gains."""
    groups = [
        [gain for d, gain in zip(distances, gains, strict=True) if d == distance]
        for distance in sorted(set(distances))
    ]
    for choice in product(*(permutations(group) for group in groups)):
        yield list(chain.from_iterable(choice))


def mean_over_orders(distances, gains, metric):
    """The mean of ``metric`` over all orders of tied items; orders that give NaN are skipped."""
    values = [metric(order) for order in orders_of_ties(distances, gains)]
    known = [value for value in values if not np.isnan(value)]
    return sum(known) / len(known) if known else nan


def stable_order(distances, gains):
    """``gains`` in ascending order of distance, ties in their given order."""
    return [gains[i] for i in sorted(range(len(gains)), key=lambda i: distances[i])]


def expected_hits(distances, relevant):
    """Expected hits after rank 1, 2, ...: the mean over all orders of ties."""
    curves = [np.cumsum(order) for order in orders_of_ties(distances, relevant)]
    return np.mean(curves, axis=0)


def slow_precision_at_recall(hits):
    """The highest precision at any rank with at least that recall, for recall 0, .05, ..., 1."""
    total = hits[-1]
    points = [(hit / total, hit / rank) for rank, hit in enumerate(hits, 1)]
    return [max(p for r, p in points if r >= step / 20 - 1e-9) for step in range(21)]


def slow_ndcg(gains, depth):
    """NDCG of one ranking without ties."""

    def discounted(ordered):
        return sum(g / log2(1 + rank) for rank, g in enumerate(ordered[:depth], 1))

    return discounted(gains) / discounted(sorted(gains, reverse=True))
