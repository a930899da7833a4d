"""Ranking: the nearest database rows of each query, with ties in row order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.errors import InputError

NO_ROW = -1
"""Row and distance that pad a query with fewer results than others."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ``k`` nearest database rows of each query, nearest first.

    Rows at equal distance are in ascending order, so that a result does not depend on the engine or
    on the number of threads. A query with fewer than ``k`` results is padded with row -1 and
    distance -1.

    Parameters
    ----------
    rows : (n_queries, k) database rows, or item ids if the engine returns ids.
    distances : (n_queries, k) Hamming distances.

    Examples
    --------
    >>> ranking = Ranking(rows=[[4, 1, 7]], distances=[[0, 2, 2]])
    >>> ranking
    Ranking(1 queries, 3 nearest each)
    >>> ranking.rows[0]
    array([4, 1, 7])
    """

    rows: NDArray[np.int64]
    distances: NDArray[np.int32]

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows, dtype=np.int64).view()
        distances = np.asarray(self.distances, dtype=np.int32).view()
        if rows.ndim != 2 or rows.shape != distances.shape:
            raise InputError(
                "rows and distances must both have shape (n_queries, k), "
                f"got {rows.shape} and {distances.shape}."
            )
        # Slices instead of np.diff, whose overhead exceeds the work on a single query.
        before, after = distances[:, :-1], distances[:, 1:]
        padding = rows[:, 1:] == NO_ROW
        if not ((before <= after) | padding).all():
            raise InputError("Distances must not decrease along a ranking. Sort it first.")
        if not ((rows[:, :-1] < rows[:, 1:]) | (before != after) | padding).all():
            raise InputError("Rows at equal distance must be in ascending order. Sort them first.")
        for name, array in (("rows", rows), ("distances", distances)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def in_order(cls, rows: NDArray[np.int64], distances: NDArray[np.int32]) -> Ranking:
        """Return the ranking of a scan, which is in order, without checking it."""
        ranking = object.__new__(cls)
        for name, array in (("rows", rows), ("distances", distances)):
            array.flags.writeable = False
            object.__setattr__(ranking, name, array)
        return ranking

    @property
    def k(self) -> int:
        """The number of results per query, padding included."""
        return int(self.rows.shape[1])

    def within_radius(self, radius: int | None) -> Ranking:
        """Keep the results at distance ``radius`` or less; None keeps all.

        >>> Ranking([[4, 1], [1, 7]], [[0, 2], [3, 3]]).within_radius(2).rows
        array([[ 4,  1],
               [-1, -1]])
        """
        if radius is None:
            return self
        near = (self.distances <= radius) & (self.rows != NO_ROW)
        k = int(near.sum(axis=1).max(initial=0))
        rows, distances = np.where(near, self.rows, NO_ROW), np.where(near, self.distances, NO_ROW)
        return Ranking(rows[:, :k], distances[:, :k])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, queries: Any) -> Ranking:
        """Select queries; a single index returns a Ranking of one query."""
        if isinstance(queries, (int, np.integer)):
            queries = [queries]
        return Ranking(self.rows[queries], self.distances[queries])

    def __repr__(self) -> str:
        return f"Ranking({len(self):,} queries, {self.k:,} nearest each)"
