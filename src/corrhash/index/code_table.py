"""CodeTable: codes in memory in ascending order of id, with room to grow, scanned exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.errors import InputError
from corrhash.kernels.multi_index import N_BITS as TABLE_BITS
from corrhash.kernels.multi_index import MultiIndex
from corrhash.kernels.scan import FEW, nearest
from corrhash.ranking import Ranking

GROWTH = 1.5
"""How much room a full table makes: the cost of an added code stays the same however many."""

WORTH_TABLES = 4_000_000
"""Codes from which on a lone query is answered faster by multi-index hashing, random ones too."""

LATER_ROWS = 1 / 16
"""Rows behind those of the tables, as a share of these, that a search scans before new are made."""


class CodeTable:
    """Ids, codes and the places of their items, in ascending order of id.

    That order makes ties come out right. Ids usually ascend, and are then put at the end, into
    room that grows by half; others are merged in, which copies everything.

    A :meth:`view` stays as it is whatever comes or goes later: rows are written only behind the
    last one, and everything else makes new arrays. Whoever has a table sees to it that one thread
    at a time calls it, :meth:`view` too, which may move the rows.

    :meth:`use_multi_index` makes lone queries faster where there are many codes.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self._multi_index = False
        self._made: MultiIndex | None = None  # of the first rows, which are still as they were
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

    def use_multi_index(self) -> None:
        """Make a :class:`MultiIndex` of the codes for views to come, once there are many."""
        if self.n_bits != TABLE_BITS:
            raise InputError(
                f"Multi-index hashing is for codes of {TABLE_BITS} bits. Got {self.n_bits}. "
                "Do without it: the scan is as exact."
            )
        self._multi_index = True

    def view(self) -> TableView:
        """What there is now."""
        if len(self._planes) > 1 and self._planes.shape[1] != self._n:
            # The scan wants each plane right behind the one before: give spare room back.
            self._planes = np.ascontiguousarray(self._planes[:, : self._n])
            self._ids, self._places = self.ids, self.places
        planes = self._planes[:, : self._n]
        return TableView(self.ids, self.places, planes, self.n_bits, self._tables())

    def _tables(self) -> MultiIndex | None:
        """Tables of nearly all rows, where they are wanted and pay."""
        if not self._multi_index or self._n < WORTH_TABLES:
            return None
        if self._made is None or self._n > (1 + LATER_ROWS) * len(self._made):
            self._made = MultiIndex.build(self._planes[0, : self._n])
        return self._made

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
        self._made = None

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget the rows that are not among ``kept``, (n,)."""
        if kept.all():
            return
        self._planes = np.ascontiguousarray(self._planes[:, : self._n][:, kept])
        self._places = self.places[kept]
        self._ids = self.ids[kept]
        self._n = len(self._ids)
        self._made = None

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
    tables: MultiIndex | None = None

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
        if self.tables is not None and len(queries) < FEW:
            rows, distances = self.tables.nearest(queries.planes(), self.planes, k, threads)
        else:
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
