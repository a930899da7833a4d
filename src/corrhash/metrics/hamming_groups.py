"""Hamming rankings as tied groups: one group a distance, or one an item in stable order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.kernels.histograms import (
    distance_gain_histograms,
    distance_histograms,
    distances_to,
    listed_distances,
    stable_order,
)
from corrhash.metrics.gains import Gains
from corrhash.metrics.tied_groups import Counts, RankedSlice, TiedGroups

CELLS_AT_ONCE = 1 << 16
"""How many counts, or ranked items, are held at a time: some MB."""


def rank_by_distance(
    queries: Codes, database: Codes, gains: Gains, graded: bool, threads: int | None
) -> Iterator[RankedSlice]:
    """Slices of the queries, one group a distance; ``graded`` counts gains beyond 0 and 1."""
    n_gains = gains.most + 1 if graded else 2
    database_planes = database.planes()
    at_once = max(1, CELLS_AT_ONCE // ((queries.n_bits + 1) * n_gains))
    if gains.masks is None:  # a query may have the whole database on its list
        at_once = min(at_once, max(1, CELLS_AT_ONCE // len(database)))
    for start in range(0, len(queries), at_once):
        span = slice(start, start + at_once)
        planes = queries[span].planes()
        if gains.masks is None:
            items = distance_histograms(planes, database_planes, queries.n_bits, threads)
            counts = _add_listed(items, planes, database_planes, gains.listed(span), n_gains)
        else:
            of_queries = np.ascontiguousarray(gains.masks[0][:, span])
            counts = distance_gain_histograms(
                planes,
                database_planes,
                queries.n_bits,
                of_queries,
                gains.masks[1],
                n_gains,
                threads,
            ).astype(np.int64)
        groups = TiedGroups.of_counts(counts)
        yield RankedSlice(groups, counts.sum(axis=1), groups)


def _add_listed(
    items: NDArray[np.uint32],
    planes: NDArray[np.uint64],
    database_planes: NDArray[np.uint64],
    listed: sp.csr_array,
    n_gains: int,
) -> Counts:
    """Counts by distance and gain from items by distance and the gains of the listed rows."""
    pairs = listed.tocoo()
    distances = listed_distances(
        planes, database_planes, pairs.row.astype(np.int64), pairs.col.astype(np.int64)
    )
    counts = np.zeros((*items.shape, n_gains), dtype=np.int64)
    gain = np.minimum(pairs.data, n_gains - 1)
    np.add.at(counts, (pairs.row, distances.astype(np.int64), gain), 1)
    counts[:, :, 0] = items - counts.sum(axis=2)
    return counts


def rank_in_stable_order(queries: Codes, database: Codes, gains: Gains) -> Iterator[RankedSlice]:
    """Slices of the queries, one group an item, equal distances in order of database row."""
    planes, database_planes = queries.planes(), database.planes()
    at_once = max(1, CELLS_AT_ONCE // len(database))
    for start in range(0, len(queries), at_once):
        worth = gains.dense(slice(start, start + at_once))  # (at_once, n_database)
        by_distance = []
        for row in range(len(worth)):
            distances = distances_to(planes, start + row, database_planes)
            by_distance.append(_count_distances(distances, worth[row], queries.n_bits))
            worth[row] = worth[row, stable_order(distances, queries.n_bits)]
        items, relevant = np.stack(by_distance, axis=1)
        yield RankedSlice(
            TiedGroups.singles(worth), count_gains(worth, gains.most), TiedGroups(items, relevant)
        )


def _count_distances(distances: NDArray[np.uint16], worth: Counts, n_bits: int) -> Counts:
    """(2, n_bits + 1) items and relevant items of one query at each distance."""
    relevant = distances[worth > 0]
    return np.stack([np.bincount(d, minlength=n_bits + 1) for d in (distances, relevant)])


def count_gains(worth: Counts, most: int) -> Counts:
    """(n_queries, most + 1) database items by gain, from the gains of all items."""
    return np.stack([np.bincount(row, minlength=most + 1) for row in worth])
