"""CodeTable: codes in memory in ascending order of id, with room to grow, scanned exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.kernels.scan import nearest
from corrhash.ranking import Ranking

GROWTH = 1.5
"""How much room a full table makes: the cost of an added code stays the same however many."""


class CodeTable:
    """Ids, codes and the places of their items, in ascending order of id.

    That order makes ties come out right. Ids usually ascend, and are then put at the end, into
    room that grows by half; others are merged in, which copies everything.

    A :meth:`view` stays as it is whatever comes or goes later: rows are written only behind the
    last one, and everything else makes new arrays.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self._n = 0
        self._ids = np.empty(0, dtype=np.int64)
        self._places = np.empty(0, dtype=np.uint64)
        self._planes = np.empty((-(-n_bits // 64), 0), dtype=np.uint64)

    def __len__(self) -> int:
        return self._n

    @property
    def ids(self) -> NDArray[np.int64]:
        """(n,) ascending."""
        return self._ids[: self._n]

    @property
    def places(self) -> NDArray[np.uint64]:
        """(n,) where the items of the rows are, for engines to which that means something."""
        return self._places[: self._n]

    def view(self) -> TableView:
        """What there is now."""
        if len(self._planes) > 1 and self._planes.shape[1] != self._n:
            # The scan wants each plane right behind the one before: give spare room back.
            self._planes = np.ascontiguousarray(self._planes[:, : self._n])
            self._ids, self._places = self.ids, self.places
        return TableView(self.ids, self.places, self._planes[:, : self._n], self.n_bits)

    def add(
        self, ids: NDArray[np.int64], codes: Codes, places: NDArray[np.uint64] | None = None
    ) -> None:
        """Keep codes under ids that are not there yet."""
        order = np.argsort(ids, kind="stable")
        ids, planes = ids[order], codes.planes()[:, order]
        where = np.zeros(len(ids), np.uint64) if places is None else places[order]
        if self._n and len(ids) and ids[0] < self.ids[-1]:
            self._merge(ids, planes, where)
        else:
            self._append(ids, planes, where)

    def _append(
        self, ids: NDArray[np.int64], planes: NDArray[np.uint64], places: NDArray[np.uint64]
    ) -> None:
        start, stop = self._n, self._n + len(ids)
        if stop > len(self._ids):
            # A table that is filled at once is not given room that it may never need.
            room = stop if start == 0 else max(stop, int(GROWTH * start))
            self._ids = _grown(self._ids, start, room)
            self._places = _grown(self._places, start, room)
            self._planes = np.stack([_grown(plane, start, room) for plane in self._planes])
        self._ids[start:stop] = ids
        self._places[start:stop] = places
        self._planes[:, start:stop] = planes
        self._n = stop

    def _merge(
        self, ids: NDArray[np.int64], planes: NDArray[np.uint64], places: NDArray[np.uint64]
    ) -> None:
        at = np.searchsorted(self.ids, ids)
        self._planes = np.insert(self._planes[:, : self._n], at, planes, axis=1)
        self._places = np.insert(self.places, at, places)
        self._ids = np.insert(self.ids, at, ids)
        self._n = len(self._ids)

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget the rows that are not among ``kept``, (n,)."""
        if kept.all():
            return
        self._planes = np.ascontiguousarray(self._planes[:, : self._n][:, kept])
        self._places = self.places[kept]
        self._ids = self.ids[kept]
        self._n = len(self._ids)

    def delete(self, ids: NDArray[np.int64]) -> None:
        """Forget ids, where they are there."""
        rows, _ = rows_of(self.ids, ids)
        kept = np.ones(self._n, dtype=bool)
        kept[rows] = False
        self.keep(kept)


@dataclass(frozen=True, eq=False)
class TableView:
    """The rows of a table at one moment."""

    ids: NDArray[np.int64]
    places: NDArray[np.uint64]
    planes: NDArray[np.uint64]
    n_bits: int

    def __len__(self) -> int:
        return len(self.ids)

    def among(self, rows: NDArray[np.int64]) -> TableView:
        """Some of the rows, in ascending order."""
        planes = np.ascontiguousarray(self.planes[:, rows])
        return TableView(self.ids[rows], self.places[rows], planes, self.n_bits)

    def nearest(self, queries: Codes, k: int, threads: int | None = None) -> Ranking:
        """The ``k`` nearest ids of each query; all of them where there are fewer than ``k``."""
        k = min(k, len(self.ids))
        if k == 0 or len(queries) == 0:
            empty = np.empty((len(queries), k), dtype=np.int64)
            return Ranking(empty, empty.astype(np.int32))
        rows, distances = nearest(queries.planes(), self.planes, self.n_bits, k, threads)
        return Ranking(self.ids[rows], distances)

    def codes(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Codes]:
        """Which of the ids are there, and their codes."""
        rows, there = rows_of(self.ids, ids)
        return np.flatnonzero(there), Codes.from_planes(self.planes[:, rows], self.n_bits)


def rows_of(
    known: NDArray[np.int64], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The rows of those ids that are known, and which ids these are; ``known`` ascends."""
    rows = np.searchsorted(known, ids)
    there = np.zeros(len(ids), dtype=bool)
    inside = rows < len(known)
    there[inside] = known[rows[inside]] == ids[inside]
    return rows[there], there


def _grown(array: np.ndarray, used: int, room: int) -> np.ndarray:
    grown = np.empty(room, dtype=array.dtype)
    grown[:used] = array[:used]
    return grown
