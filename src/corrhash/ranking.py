"""Ranking: for each query the nearest database rows, equal distances in order of row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.errors import InputError


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ``k`` nearest database rows of each query, nearest first.

    Equal distances are in ascending order of database row, always: the answer to a search does
    not depend on the engine or on the number of threads.

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
        same_or_farther = np.diff(distances, axis=1)
        if np.any(same_or_farther < 0):
            raise InputError("A ranking goes from nearest to farthest. Sort it first.")
        if np.any((same_or_farther == 0) & (np.diff(rows, axis=1) <= 0)):
            raise InputError("Equal distances stand in ascending order of row. Sort it first.")
        for name, array in (("rows", rows), ("distances", distances)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def k(self) -> int:
        """How many answers each query has."""
        return int(self.rows.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, queries: Any) -> Ranking:
        """The answers to some of the queries: a Ranking again, also for a single one."""
        if isinstance(queries, (int, np.integer)):
            queries = [queries]
        return Ranking(self.rows[queries], self.distances[queries])

    def __repr__(self) -> str:
        return f"Ranking({len(self):,} queries, {self.k:,} nearest each)"
