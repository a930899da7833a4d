"""Sums over stable rankings, by distance and then by row, in one pass and without sorting.

The histogram of distances gives the number of items, and of relevant ones, at smaller distances. A
pass in row order with a counter of ranks and a counter of hits per distance then gives the rank of
each item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corrhash.kernels.histograms import distance_gain_histograms, fill_distances, fill_shared
from corrhash.kernels.threads import split_over_threads

TILE = 2048
"""Rows computed before they are ranked, so that they stay in the cache."""


class StableSums(NamedTuple):
    """Sums over stable rankings, one row per query.

    ``counts``: (n_queries, n_bits + 1, 2) items by distance, irrelevant and relevant.
    ``precisions``: (n_queries,) sum of precisions at relevant items up to the cutoff.
    ``hits``: (n_queries, n_ranks) relevant items up to each rank.
    ``curves``: (n_queries, n_levels) highest precision at or after each recall level.
    """

    counts: NDArray[np.uint32]
    precisions: NDArray[np.float64]
    hits: NDArray[np.int64]
    curves: NDArray[np.float64]


def stable_sums(
    codes: tuple[NDArray[np.uint64], NDArray[np.uint64]],
    n_bits: int,
    masks: tuple[NDArray[np.uint64], NDArray[np.uint64]],
    ranks: NDArray[np.int64],
    cut: tuple[int, int],
    recall_steps: int,
    threads: int | None = None,
) -> StableSums:
    """Rank the database for each query and compute the sums.

    Parameters
    ----------
    codes, masks : codes and labels of queries and database, as planes of 64-bit words.
    ranks : (n_ranks,) ascending, from 1 to n.
    cut : last rank, and last relevant item, whose precision is summed.
    recall_steps : recall levels are 0, 1 / recall_steps, ..., 1.
    """
    counts = distance_gain_histograms(*codes, n_bits, *masks, 2, threads)
    n_queries = len(counts)
    sums = StableSums(
        counts,
        np.zeros(n_queries),
        np.zeros((n_queries, len(ranks)), np.int64),
        np.zeros((n_queries, recall_steps + 1)),
    )
    # Index of the first of the ranks that includes each rank; a hit counts from there on.
    first_rank = np.searchsorted(ranks, np.arange(ranks.max(initial=0) + 1))
    planes = [np.ascontiguousarray(words) for words in (*codes, *masks)]

    def rank(start: int, stop: int) -> None:
        for query in range(start, stop):
            _rank(*planes, query, counts[query], first_rank, *cut, sums.precisions, *sums[2:])

    split_over_threads(rank, n_queries, threads)
    np.cumsum(sums.hits, axis=1, out=sums.hits)
    from_level_on = np.maximum.accumulate(sums.curves[:, ::-1], axis=1)[:, ::-1]
    return sums._replace(curves=from_level_on)


@njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")
def _rank(
    query_planes, database_planes, query_masks, database_masks, query, counts,
    first_rank, last_rank, last_hit, precisions, hits_out, curves,
):  # fmt: skip
    """Compute the sums of one query; hits and curves are accumulated by the caller."""
    n, n_bits = database_planes.shape[1], len(counts) - 1
    rank, hits = np.zeros(n_bits + 1, np.int64), np.zeros(n_bits + 1, np.int64)
    n_relevant = 0
    for distance in range(n_bits + 1):
        n_relevant += counts[distance, 1]
        if distance < n_bits:
            rank[distance + 1] = rank[distance] + counts[distance, 0] + counts[distance, 1]
            hits[distance + 1] = hits[distance] + counts[distance, 1]
    steps = curves.shape[1] - 1
    total = 0.0
    distances, shared = np.empty(TILE, np.uint16), np.empty(TILE, np.uint16)
    for row in range(0, n, TILE):
        size = min(TILE, n - row)
        fill_distances(query_planes, query, database_planes, row, distances[:size])
        fill_shared(query_masks, query, database_masks, row, shared[:size])
        for i in range(np.uint64(size)):
            distance = distances[i]
            rank[distance] += 1
            if shared[i] == 0:
                continue
            hits[distance] += 1
            place, hit = rank[distance], hits[distance]
            precision = hit / place
            if place <= last_rank and hit <= last_hit:
                total += precision
            if place < len(first_rank):
                hits_out[query, first_rank[place]] += 1
            level = hit * steps // n_relevant
            if precision > curves[query, level]:
                curves[query, level] = precision
    precisions[query] = total
