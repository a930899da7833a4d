"""Ranking: for each query the nearest database rows, equal distances in order of row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.errors import InputError

NO_ROW = -1
"""Stands where a query has no further answer."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ``k`` nearest database rows of each query, nearest first.

    Equal distances are in ascending order of database row, always: the answer to a search does
    not depend on the engine or on the number of threads.

    A search within a radius finds more for one query than for another: where a query has no
    further answer, row and distance are -1.

    Parameters
    ----------
    rows : (n_queries, k) database rows (ids, where an engine gives ids).
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
                "A ranking has (n_queries, k) rows and as many distances. "
                f"Got {rows.shape} and {distances.shape}."
            )
        there = rows[:, 1:] != NO_ROW
        same_or_farther = np.diff(distances, axis=1)
        if np.any((same_or_farther < 0) & there):
            raise InputError("A ranking goes from nearest to farthest. Sort it first.")
        if np.any((same_or_farther == 0) & (np.diff(rows, axis=1) <= 0) & there):
            raise InputError("Equal distances stand in ascending order of row. Sort it first.")
        for name, array in (("rows", rows), ("distances", distances)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def k(self) -> int:
        """How many answers each query has."""
        return int(self.rows.shape[1])

    def within(self, radius: int | None) -> Ranking:
        """The answers at most ``radius`` away; None leaves all.

        >>> Ranking([[4, 1], [1, 7]], [[0, 2], [3, 3]]).within(2).rows
        array([[ 4,  1],
               [-1, -1]])
        """
        if radius is None:
            return self
        near = self.distances <= radius
        most = int(near.sum(axis=1).max(initial=0))
        rows, distances = np.where(near, self.rows, NO_ROW), np.where(near, self.distances, NO_ROW)
        return Ranking(rows[:, :most], distances[:, :most])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, queries: Any) -> Ranking:
        """The answers to some of the queries: a Ranking again, also for a single one."""
        if isinstance(queries, (int, np.integer)):
            queries = [queries]
        return Ranking(self.rows[queries], self.distances[queries])

    def __repr__(self) -> str:
        return f"Ranking({len(self):,} queries, {self.k:,} nearest each)"
