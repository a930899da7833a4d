"""TiedGroups: a ranking with ties, as counts of items and relevant items per group of equals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TiedGroups:
    """For each query the groups of tied items, nearest first; empty groups are allowed.

    A Hamming ranking of ``n_bits`` has ``n_bits + 1`` groups. A ranking without ties has one item
    in each group. Every metric is a function of these counts, so each is written once.

    Parameters
    ----------
    items : (n_queries, n_groups) number of items in each group.
    relevant : (n_queries, n_groups) number of relevant ones among them.
    gains : (n_queries, n_groups) their summed gains, where NDCG is asked for.
    """

    items: Counts
    relevant: Counts
    gains: Counts | None = None

    @classmethod
    def singles(cls, gains: Counts) -> TiedGroups:
        """A ranking without ties from the gains of its items in order, (n_queries, n_items)."""
        return cls(np.ones_like(gains), (gains > 0).astype(np.int64), gains)

    @classmethod
    def of_counts(cls, counts: Counts) -> TiedGroups:
        """Groups from (n_queries, n_groups, n_gains) counts of items by group and gain."""
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

    def purified(self, relevant_first: bool) -> TiedGroups:
        """Each group split into its relevant and its other items: the two bounds over ties."""
        others = self.items - self.relevant
        halves = [(self.relevant, self.relevant), (others, np.zeros_like(others))]
        if not relevant_first:
            halves.reverse()
        items, relevant = zip(*halves, strict=True)
        return TiedGroups(_interleave(*items), _interleave(*relevant))

    def hits_within(self, ranks: Counts) -> NDArray[np.float64]:
        """(n_queries, n_ranks) expected relevant items among the first ``rank`` items.

        Inside a group hits grow evenly: hits(r) = R0 + (r - N0) * relevant / items.
        """
        wanted = np.broadcast_to(ranks, (len(self.items), len(ranks)))
        group = first_reaching(self.items_before + self.items, wanted)
        items, before, relevant, hits = (
            np.take_along_axis(counts, group, axis=1)
            for counts in (self.items, self.items_before, self.relevant, self.relevant_before)
        )
        return hits + (wanted - before) * (relevant / items)


class RankedSlice(NamedTuple):
    """The rankings of a slice of the queries, and what some metrics need beside them.

    ``by_gain``: (n_queries, n_gains) database items by gain, whatever their rank.
    ``by_distance``: one group for each Hamming distance; None where items are not codes.
    """

    groups: TiedGroups
    by_gain: Counts
    by_distance: TiedGroups | None


def first_reaching(running: Counts, wanted: Counts) -> Counts:
    """(n_queries, n_wanted) the first column of each row of running totals that is ``>= wanted``.

    All rows are searched at once: shifted one above the other, they form one ascending list.
    """
    n_queries, n_groups = running.shape
    shift = np.arange(n_queries)[:, None] * (int(running.max(initial=0)) + 1)
    found = np.searchsorted((running + shift).ravel(), (wanted + shift).ravel())
    return found.reshape(wanted.shape) - np.arange(n_queries)[:, None] * n_groups


def _interleave(first: Counts, second: Counts) -> Counts:
    """(n, g) and (n, g) -> (n, 2 g), alternating columns."""
    return np.stack([first, second], axis=2).reshape(len(first), -1)
