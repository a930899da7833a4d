"""CodeTables: the codes of both modalities in memory, in ascending order of id, scanned exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.errors import InputError
from corrhash.index.filters import Filter
from corrhash.index.items import MODALITIES
from corrhash.index.ranking import Ranking
from corrhash.kernels.small_scan import SMALL, nearest_in_numpy

if TYPE_CHECKING:  # compiled kernels are loaded by the first search of many codes
    from corrhash.kernels.multi_index import MultiIndex

GROWTH = 1.5
"""Factor by which a full table grows, so that appending a code takes amortized constant time."""

MULTI_INDEX_CODES = 4_000_000
"""Codes from which multi-index hashing answers a single query faster than the scan."""

MULTI_INDEX_LAG = 1 / 16
"""Share of appended codes that is scanned before the multi-index is built again."""

IdsAndCodes = tuple[NDArray[np.int64], Codes]


class CodeTables:
    """A :class:`CodeTable` for each modality, and the codes that passed the last filter.

    Callers serialize access with a lock. Views stay valid without it.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self.tables = {modality: CodeTable(n_bits) for modality in MODALITIES}
        self._passing: tuple[str, NDArray[np.int64]] | None = None  # filter, ascending ids
        self._filtered: dict[str, TableView] = {}  # by modality, for the same filter
        self._n_changes = 0

    def use_multi_index(self) -> None:
        """Build multi-indexes for views to come."""
        for table in self.tables.values():
            table.use_multi_index()

    def replace(self, ids: NDArray[np.int64], codes: Mapping[str, IdsAndCodes]) -> None:
        """Store codes by modality, and delete what else is stored under ``ids``."""
        self._change()
        for modality, table in self.tables.items():
            new, of_modality = codes.get(modality, (ids[:0], None))
            if len(ids):
                table.delete(ids[~rows_of(np.sort(new), ids)[1]])
            if of_modality is not None:
                table.upsert(new, of_modality)

    def delete(self, ids: NDArray[np.int64]) -> None:
        """Delete ids in both modalities, where they exist."""
        self._change()
        for table in self.tables.values():
            table.delete(ids)

    def existing(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the ids that have a code, each once, ascending."""
        found = [ids[rows_of(table.ids, ids)[1]] for table in self.tables.values()]
        return np.unique(np.concatenate(found))

    def ids(self) -> NDArray[np.int64]:
        """Return all ids, ascending."""
        return _union(*(self.tables[modality].ids for modality in MODALITIES))

    def within(self, ranges: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the stored ids in (n, 2) ranges, whose ends belong to them."""
        found = [np.empty(0, np.int64)]
        for table in self.tables.values():
            start = np.searchsorted(table.ids, ranges[:, 0])
            stop = np.searchsorted(table.ids, ranges[:, 1], side="right")
            found += [table.ids[i:j] for i, j in zip(start, stop, strict=True) if i < j]
        return np.unique(np.concatenate(found))

    def _change(self) -> None:
        self._n_changes += 1
        self._passing = None
        self._filtered.clear()

    def view(self, modality: str, where: Filter | None) -> TableView | None:
        """Return the codes of one modality that pass a filter.

        None means that the filter is another than the last one, or that codes have changed. Then
        evaluate it for the ids of a :meth:`snapshot`, without the lock, and :meth:`remember` them.
        """
        if where is None:
            return self.tables[modality].view()
        if self._passing is None or self._passing[0] != _key(where):
            return None
        if modality not in self._filtered:
            self._filtered[modality] = self.tables[modality].view().of(self._passing[1])
        return self._filtered[modality]

    def snapshot(self) -> Snapshot:
        """Return all codes as they are now."""
        views = {modality: table.view() for modality, table in self.tables.items()}
        return Snapshot(views, self._n_changes)

    def remember(self, where: Filter, passing: NDArray[np.int64], seen: Snapshot) -> None:
        """Keep the ascending ids that pass a filter, unless codes have changed."""
        if seen.n_changes == self._n_changes:
            self._passing = _key(where), passing
            self._filtered.clear()


def _key(where: Filter) -> str:
    return repr(where)  # as text, because 1 equals True but the filters differ


def _union(image: NDArray[np.int64], text: NDArray[np.int64]) -> NDArray[np.int64]:
    return image if not len(text) or np.array_equal(image, text) else np.union1d(image, text)


class CodeTable:
    """Ids and codes of one modality in ascending order of id, with room to grow.

    This order lets the scan return ties in order of id. Ascending ids are appended; others are
    merged in, which copies the table.

    A :meth:`view` never changes: rows are written only behind the last one, and any other change
    makes new arrays.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self._uses_multi_index = False
        self._multi_index: MultiIndex | None = None  # of the first rows
        self._n = 0
        self._ids = np.empty(0, dtype=np.int64)
        self._planes = np.empty((-(-n_bits // 64), 0), dtype=np.uint64)

    def __len__(self) -> int:
        return self._n

    @property
    def ids(self) -> NDArray[np.int64]:
        """(n,) ids, ascending."""
        return self._ids[: self._n]

    @property
    def nbytes(self) -> int:
        """Bytes of ids and codes, room to grow included."""
        return self._ids.nbytes + self._planes.nbytes

    def use_multi_index(self) -> None:
        """Build a :class:`MultiIndex` for views to come, once there are enough codes."""
        from corrhash.kernels.multi_index import N_BITS

        if self.n_bits != N_BITS:
            raise InputError(
                f"Multi-index hashing needs codes of {N_BITS} bits, got {self.n_bits}. "
                "Use the scan, which is exact, too."
            )
        self._uses_multi_index = True

    def view(self) -> TableView:
        """Return the present rows."""
        if len(self._planes) > 1 and self._planes.shape[1] != self._n:
            # The scan needs contiguous planes, so the room to grow is given up.
            self._planes = np.ascontiguousarray(self._planes[:, : self._n])
            self._ids = self.ids
        planes = self._planes[:, : self._n]
        return TableView(self.ids, planes, self.n_bits, self._current_multi_index())

    def _current_multi_index(self) -> MultiIndex | None:
        if not self._uses_multi_index or self._n < MULTI_INDEX_CODES:
            return None
        from corrhash.kernels.multi_index import MultiIndex

        if self._multi_index is None or self._n > (1 + MULTI_INDEX_LAG) * len(self._multi_index):
            self._multi_index = MultiIndex.build(self._planes[0, : self._n])
        return self._multi_index

    def upsert(self, ids: NDArray[np.int64], codes: Codes) -> None:
        """Store codes under distinct ids, replacing those of ids that exist."""
        planes = codes.planes()
        if np.any(ids[1:] < ids[:-1]):
            order = np.argsort(ids)
            ids, planes = ids[order], planes[:, order]
        rows, exists = rows_of(self.ids, ids)
        if len(rows):
            self._planes = self._planes[:, : self._n].copy()
            self._planes[:, rows] = planes[:, exists]
            self._ids = self.ids
            self._multi_index = None
            ids, planes = ids[~exists], planes[:, ~exists]
        if self._n and len(ids) and ids[0] < self.ids[-1]:
            self._merge(ids, planes)
        else:
            self._append(ids, planes)

    def _append(self, ids: NDArray[np.int64], planes: NDArray[np.uint64]) -> None:
        start, stop = self._n, self._n + len(ids)
        if start == 0:  # a table that is filled at once gets no room that it may never need
            self._ids, self._planes, self._n = ids.copy(), planes.copy(), stop
            return
        if stop > len(self._ids):
            room = max(stop, int(GROWTH * start))
            self._ids = _grown(self._ids, start, room)
            self._planes = np.stack([_grown(plane, start, room) for plane in self._planes])
        self._ids[start:stop] = ids
        self._planes[:, start:stop] = planes
        self._n = stop

    def _merge(self, ids: NDArray[np.int64], planes: NDArray[np.uint64]) -> None:
        at = np.searchsorted(self.ids, ids)
        self._planes = np.insert(self._planes[:, : self._n], at, planes, axis=1)
        self._ids = np.insert(self.ids, at, ids)
        self._n = len(self._ids)
        self._multi_index = None

    def delete(self, ids: NDArray[np.int64]) -> None:
        """Delete ids, where they exist."""
        rows, _ = rows_of(self.ids, ids)
        if not len(rows):
            return
        kept = np.ones(self._n, dtype=bool)
        kept[rows] = False
        self._planes = np.ascontiguousarray(self._planes[:, : self._n][:, kept])
        self._ids = self.ids[kept]
        self._n = len(self._ids)
        self._multi_index = None


@dataclass(frozen=True, eq=False)
class TableView:
    """The rows of a table at one moment."""

    ids: NDArray[np.int64]
    planes: NDArray[np.uint64]
    n_bits: int
    multi_index: MultiIndex | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[np.int64]) -> TableView:
        """Return some of the rows, given in ascending order."""
        planes = np.ascontiguousarray(self.planes[:, rows])
        return TableView(self.ids[rows], planes, self.n_bits)

    def of(self, ids: NDArray[np.int64]) -> TableView:
        """Return the rows of some ids, given in ascending order, where they exist."""
        return self.take(rows_of(self.ids, ids)[0])

    def nearest(self, queries: Codes, k: int, threads: int | None = None) -> Ranking:
        """Return the ``k`` nearest ids of each query, or all of them if there are fewer."""
        k = min(k, len(self.ids))
        if k == 0 or len(queries) == 0:
            empty = np.empty((len(queries), k), dtype=np.int64)
            return Ranking(empty, empty.astype(np.int32))
        if len(queries) * self.planes.size <= SMALL:
            rows, distances = nearest_in_numpy(queries.planes(), self.planes, k)
            return Ranking(self.ids[rows], distances)
        from corrhash.kernels.scan import FEW, nearest

        if self.multi_index is not None and len(queries) < FEW:
            rows, distances = self.multi_index.nearest(queries.planes(), self.planes, k, threads)
        else:
            rows, distances = nearest(queries.planes(), self.planes, self.n_bits, k, threads)
        return Ranking.in_order(self.ids[rows], distances)

    def codes(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Codes]:
        """Return the positions of those ids that exist, and their codes."""
        rows, exists = rows_of(self.ids, ids)
        return np.flatnonzero(exists), Codes.from_planes(self.planes[:, rows], self.n_bits)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The codes of both modalities at one moment."""

    views: dict[str, TableView]
    n_changes: int

    def ids(self) -> NDArray[np.int64]:
        """Return all ids, ascending."""
        return _union(*(self.views[modality].ids for modality in MODALITIES))


def rows_of(
    known: NDArray[np.int64], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the rows of ids that are in the ascending ``known``, and a mask of these ids."""
    if len(known) and known[-1] - known[0] + 1 == len(known):  # no gaps: nothing to search
        exists = (ids >= known[0]) & (ids <= known[-1])
        return ids[exists] - known[0], exists
    rows = np.searchsorted(known, ids)
    exists = np.zeros(len(ids), dtype=bool)
    inside = rows < len(known)
    exists[inside] = known[rows[inside]] == ids[inside]
    return rows[exists], exists


def _grown(array: np.ndarray, used: int, room: int) -> np.ndarray:
    grown = np.empty(room, dtype=array.dtype)
    grown[:used] = array[:used]
    return grown
