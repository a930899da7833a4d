"""Rankings as groups of tied items: by Hamming distance, in stable order, and by cosine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.kernels.histograms import (
    distance_gain_histograms,
    distance_histograms,
    distances_to,
    listed_distances,
    shared_labels,
    stable_order,
)
from corrhash.similarity import Similarity, label_masks

Counts = NDArray[np.int64]

Masks = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""Labels of queries and of database items as bit masks, (n_label_words, n) each."""

MAX_MASK_CLASSES = 1024
"""With more classes, relevant rows are listed instead of comparing bit masks."""

CELLS_AT_ONCE = 1 << 16
"""Counts or ranked items per slice of the queries, to limit memory to a few MB."""

COSINE_STEPS = 1 << 24
"""Resolution of cosines between 0 and 1, about the precision of float32."""


@dataclass(frozen=True, eq=False)
class TiedGroups:
    """Counts of tied items per query and group, nearest group first.

    A Hamming ranking has one group per distance, ``n_bits + 1`` in all; groups can be empty. A
    ranking without ties has one item per group. Every metric is a function of these counts.

    Parameters
    ----------
    items : (n_queries, n_groups) number of items in each group.
    relevant : (n_queries, n_groups) number of relevant items in each group.
    gains : (n_queries, n_groups) sum of gains in each group, for NDCG.
    """

    items: Counts
    relevant: Counts
    gains: Counts | None = None

    @classmethod
    def without_ties(cls, gains: Counts) -> TiedGroups:
        """Build groups of one item from (n_queries, n_items) gains in ranking order."""
        return cls(np.ones_like(gains), (gains > 0).astype(np.int64), gains)

    @classmethod
    def from_counts(cls, counts: Counts) -> TiedGroups:
        """Build groups from (n_queries, n_groups, n_gains) counts of items by group and gain."""
        return cls(
            items=counts.sum(axis=2),
            relevant=counts[:, :, 1:].sum(axis=2),
            gains=counts @ np.arange(counts.shape[2]),
        )

    @cached_property
    def items_before(self) -> Counts:
        """(n_queries, n_groups) items in nearer groups: N0."""
        return np.cumsum(self.items, axis=1) - self.items

    @cached_property
    def relevant_before(self) -> Counts:
        """(n_queries, n_groups) relevant items in nearer groups: R0."""
        return np.cumsum(self.relevant, axis=1) - self.relevant

    @cached_property
    def n_relevant(self) -> Counts:
        """(n_queries,) relevant items in the whole database."""
        return self.relevant.sum(axis=1)

    def split_ties(self, relevant_first: bool) -> TiedGroups:
        """Split each group into its relevant and its other items: the bounds over ties."""
        others = self.items - self.relevant
        halves = [(self.relevant, self.relevant), (others, np.zeros_like(others))]
        if not relevant_first:
            halves.reverse()
        items, relevant = zip(*halves, strict=True)
        return TiedGroups(_interleave(*items), _interleave(*relevant))

    def hits_within(self, ranks: Counts) -> NDArray[np.float64]:
        """(n_queries, n_ranks) expected relevant items among the first ``rank`` items.

        Hits grow linearly inside a group: hits(rank) = R0 + (rank - N0) * relevant / items.
        """
        wanted = np.broadcast_to(ranks, (len(self.items), len(ranks)))
        group = first_reaching(self.items_before + self.items, wanted)
        items, before, relevant, hits = (
            np.take_along_axis(counts, group, axis=1)
            for counts in (self.items, self.items_before, self.relevant, self.relevant_before)
        )
        return hits + (wanted - before) * (relevant / items)


def first_reaching(running: Counts, wanted: Counts) -> Counts:
    """(n_queries, n_wanted) first column of each row of running totals that is ``>= wanted``.

    Rows are shifted to follow one another in a single ascending list, which is searched once.
    """
    n_queries, n_groups = running.shape
    shift = np.arange(n_queries)[:, None] * (int(running.max(initial=0)) + 1)
    found = np.searchsorted((running + shift).ravel(), (wanted + shift).ravel())
    return found.reshape(wanted.shape) - np.arange(n_queries)[:, None] * n_groups


def _interleave(first: Counts, second: Counts) -> Counts:
    """(n, g) and (n, g) -> (n, 2 g), alternating columns."""
    return np.stack([first, second], axis=2).reshape(len(first), -1)


class Gains:
    """Gain of each database item for each query: the number of shared labels.

    With relevance judgments, the gain is 1 for a relevant item and 0 for all others. ``masks``
    holds labels as bit masks, or None where listing the relevant rows is faster.
    """

    def __init__(self, similarity: Similarity) -> None:
        self.similarity = similarity
        self.masks: Masks | None = None
        queries, database = similarity.row_labels, similarity.column_labels
        if queries is not None and database is not None and queries.shape[1] <= MAX_MASK_CLASSES:
            self.masks = label_masks(queries), label_masks(database)

    @property
    def highest(self) -> int:
        """The highest gain that can occur."""
        labels = self.similarity.row_labels
        return 1 if labels is None else max(1, int(np.diff(labels.indptr).max(initial=0)))

    def sparse(self, queries: slice) -> sp.csr_array:
        """(n_queries, n_database) gains of a slice of the queries, sparse."""
        return self.similarity.take(rows=queries).gains()

    def dense(self, queries: slice) -> Counts:
        """(n_queries, n_database) gains of a short slice of the queries, dense."""
        if self.masks is None:
            return np.asarray(self.sparse(queries).toarray(), dtype=np.int64)
        query_masks, database_masks = self.masks
        numbers = range(*queries.indices(query_masks.shape[1]))
        rows = [shared_labels(query_masks, query, database_masks) for query in numbers]
        return np.stack(rows).astype(np.int64)


class RankedSlice(NamedTuple):
    """Rankings of a slice of the queries.

    ``groups``: the rankings. ``by_gain``: (n_queries, n_gains) number of database items of each
    gain. ``by_distance``: one group per Hamming distance, or None for rankings by cosine.
    """

    groups: TiedGroups
    by_gain: Counts
    by_distance: TiedGroups | None


def rank_by_distance(
    queries: Codes, database: Codes, gains: Gains, graded: bool, threads: int | None
) -> Iterator[RankedSlice]:
    """Rank by Hamming distance, one group per distance.

    With ``graded``, gains are counted as they are, else as 0 and 1.
    """
    n_gains = gains.highest + 1 if graded else 2
    database_planes = database.planes()
    at_once = max(1, CELLS_AT_ONCE // ((queries.n_bits + 1) * n_gains))
    if gains.masks is None:  # the whole database can be relevant to a query
        at_once = min(at_once, max(1, CELLS_AT_ONCE // len(database)))
    for start in range(0, len(queries), at_once):
        part = slice(start, start + at_once)
        planes = queries[part].planes()
        if gains.masks is None:
            items = distance_histograms(planes, database_planes, queries.n_bits, threads)
            counts = _count_by_gain(items, planes, database_planes, gains.sparse(part), n_gains)
        else:
            query_masks = np.ascontiguousarray(gains.masks[0][:, part])
            counts = distance_gain_histograms(
                planes,
                database_planes,
                queries.n_bits,
                query_masks,
                gains.masks[1],
                n_gains,
                threads,
            ).astype(np.int64)
        groups = TiedGroups.from_counts(counts)
        yield RankedSlice(groups, counts.sum(axis=1), groups)


def _count_by_gain(
    items: NDArray[np.uint32],
    planes: NDArray[np.uint64],
    database_planes: NDArray[np.uint64],
    gains: sp.csr_array,
    n_gains: int,
) -> Counts:
    """(n_queries, n_bits + 1, n_gains) counts, from counts by distance and sparse gains."""
    pairs = gains.tocoo()
    distances = listed_distances(
        planes, database_planes, pairs.row.astype(np.int64), pairs.col.astype(np.int64)
    )
    counts = np.zeros((*items.shape, n_gains), dtype=np.int64)
    gain = np.minimum(pairs.data, n_gains - 1)
    np.add.at(counts, (pairs.row, distances.astype(np.int64), gain), 1)
    counts[:, :, 0] = items - counts.sum(axis=2)
    return counts


def rank_in_stable_order(queries: Codes, database: Codes, gains: Gains) -> Iterator[RankedSlice]:
    """Rank by Hamming distance with ties in order of database row, one group per item."""
    planes, database_planes = queries.planes(), database.planes()
    at_once = max(1, CELLS_AT_ONCE // len(database))
    for start in range(0, len(queries), at_once):
        ranked = gains.dense(slice(start, start + at_once))  # (at_once, n_database)
        by_distance = []
        for row in range(len(ranked)):
            distances = distances_to(planes, start + row, database_planes)
            by_distance.append(_count_distances(distances, ranked[row], queries.n_bits))
            ranked[row] = ranked[row, stable_order(distances, queries.n_bits)]
        items, relevant = np.stack(by_distance, axis=1)
        yield RankedSlice(
            TiedGroups.without_ties(ranked),
            _count_gains(ranked, gains.highest),
            TiedGroups(items, relevant),
        )


def _count_distances(distances: NDArray[np.uint16], gains: Counts, n_bits: int) -> Counts:
    """(2, n_bits + 1) items and relevant items of one query at each distance."""
    relevant = distances[gains > 0]
    return np.stack([np.bincount(d, minlength=n_bits + 1) for d in (distances, relevant)])


def _count_gains(gains: Counts, highest: int) -> Counts:
    """(n_queries, highest + 1) number of items of each gain."""
    return np.stack([np.bincount(row, minlength=highest + 1) for row in gains])


def rank_by_cosine(
    queries: NDArray[Any], database: NDArray[Any], gains: Gains, merge_ties: bool
) -> Iterator[RankedSlice]:
    """Rank by cosine similarity, one group per distinct cosine, or per item in stable order.

    Cosines are rounded to steps of 2^-24, so that differences by rounding error count as ties.
    """
    queries, database = _unit_rows(queries), _unit_rows(database)
    at_once = max(1, CELLS_AT_ONCE // len(database))
    for start in range(0, len(queries), at_once):
        part = slice(start, start + at_once)
        steps = np.rint(queries[part] @ database.T * -COSINE_STEPS).astype(np.int32)
        order = np.argsort(steps, axis=1, kind="stable")
        ranked = np.take_along_axis(gains.dense(part), order, axis=1)
        by_gain = _count_gains(ranked, gains.highest)
        if not merge_ties:
            yield RankedSlice(TiedGroups.without_ties(ranked), by_gain, None)
            continue
        ranked_steps = np.take_along_axis(steps, order, axis=1)
        for row in range(len(ranked)):
            groups = _merge_equals(ranked_steps[row], ranked[row])
            yield RankedSlice(groups, by_gain[row : row + 1], None)


def _merge_equals(steps: NDArray[np.int32], gains: Counts) -> TiedGroups:
    """Group one query's ranked items by equal cosine."""
    first = np.flatnonzero(np.concatenate([[True], steps[1:] != steps[:-1]]))
    items = np.diff(np.append(first, len(steps)))
    relevant = np.add.reduceat((gains > 0).astype(np.int64), first)
    return TiedGroups(items[None], relevant[None], np.add.reduceat(gains, first)[None])


def _unit_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Divide rows by their Euclidean norm; a row of zeros stays zero."""
    rows = np.asarray(rows, dtype=np.float64)
    # Scaled by the largest entry first: squares of very large or small numbers would overflow.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows = rows / np.where(largest > 0, largest, 1.0)
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norm > 0, norm, 1.0)
