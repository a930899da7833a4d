"""ExactIndex: codes in memory, every one of them looked at; the yardstick for other engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes, check_codes, check_n_bits, check_same_bits
from corrhash.filters import Filter, as_filter, as_test
from corrhash.index.base import check_k, check_radius
from corrhash.index.code_table import CodeTable, TableView, rows_of
from corrhash.index.entries import Entries, SideCodes, as_entries, as_ids, check_free, sides_of
from corrhash.index.item import SHOWN, SIDES, Item, check_fields, check_side
from corrhash.ranking import Ranking

_NOTHING = Item()  # what an item is that was not given


class ExactIndex:
    """Codes and items in memory, gone with the process; answers are exact.

    A code of 64 bits takes 24 bytes with its id and a place that other engines use. What passed the
    last filter is kept beside, so that the next search with it is as fast as one without.

    Parameters
    ----------
    n_bits : length of the codes.
    threads : how many a search may use; all cores if None. The answers do not depend on it.

    Examples
    --------
    >>> index = ExactIndex(n_bits=2)
    >>> index.add([10, 11, 12], Codes.from_signs([[1, 1], [1, -1], [1, -1]]))
    >>> answer = index.search(Codes.from_signs([[-1, -1]]), k=2)
    >>> answer.rows, answer.distances
    (array([[11, 12]]), array([[1, 1]], dtype=int32))
    """

    @classmethod
    def open(cls, uri: str, n_bits: int, about: dict[str, Any] | None = None) -> ExactIndex:
        """A new index; ``memory:`` keeps nothing."""
        index = cls(n_bits)
        index.about = {**(about or {}), "n_bits": index.n_bits}
        return index

    @classmethod
    def look(cls, uri: str) -> dict[str, Any] | None:
        """Nothing: what is in memory has no address."""
        return None

    def __init__(self, n_bits: int, threads: int | None = None) -> None:
        self.n_bits = check_n_bits(n_bits)
        self.about: dict[str, Any] = {"n_bits": self.n_bits}
        self.threads = threads
        self._tables = {side: CodeTable(self.n_bits) for side in SIDES}
        self._items: dict[int, Item] = {}  # only those that were given
        self._ids: dict[str, int] = {}  # by key
        self._next = 0
        self._filtered: dict[str, tuple[str, TableView]] = {}  # by side: filter, what passed
        self._lock = RLock()

    def add(self, ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None = None) -> None:
        """Keep codes and items under ids that are not taken yet."""
        entries = as_entries(ids, codes, items, self.n_bits)
        with self._lock:
            check_free(self._taken(entries.ids))
            self._put(entries)

    def upsert(self, ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None = None) -> None:
        """Keep codes and items under ids, in place of what was there."""
        entries = as_entries(ids, codes, items, self.n_bits)
        with self._lock:
            self.delete(self._taken(entries.ids))
            self._put(entries)

    def use_multi_index(self) -> None:
        """Answer lone queries of 64 bits from tables that hold each code four times.

        They take 48 bytes a code, and are made when a search finds some millions of codes.
        """
        with self._lock:
            for table in self._tables.values():
                table.use_multi_index()

    def _put(self, entries: Entries) -> None:
        self._filtered.clear()
        for side, rows, codes in sides_of(entries):
            self._tables[side].add(entries.ids[rows], codes)
        for number, item in zip(entries.ids.tolist(), entries.items, strict=False):
            self._items[number] = item
            self._ids[item.key] = number
        self._next = max(self._next, int(entries.ids.max(initial=-1)) + 1)

    def delete(self, ids: ArrayLike) -> int:
        """Forget ids; how many of them were there."""
        with self._lock:
            gone = self._taken(as_ids(ids))
            self._filtered.clear()
            for table in self._tables.values():
                table.delete(gone)
            for number in gone.tolist():
                item = self._items.pop(number, None)
                if item is not None and self._ids.get(item.key) == number:
                    del self._ids[item.key]
            return len(gone)

    def search(
        self,
        queries: Codes,
        k: int = 10,
        *,
        side: str = "image",
        where: str | Filter | None = None,
        radius: int | None = None,
    ) -> Ranking:
        """The ``k`` nearest ids of each query, of those that pass a filter, within a radius."""
        check_same_bits(check_codes(queries).n_bits, self.n_bits)
        k, radius, wanted = check_k(k), check_radius(radius), as_filter(where)
        with self._lock:
            view = self._view(check_side(side), wanted)
        return view.nearest(queries, k, self.threads).within(radius)

    def _view(self, side: str, where: Filter | None) -> TableView:
        """The codes of one side that pass a filter; those of the last one are remembered."""
        view = self._tables[side].view()
        if where is None:
            return view
        if self._filtered.get(side, ("",))[0] != repr(where):
            passes = as_test(where)
            items = (self._items.get(number, _NOTHING) for number in view.ids.tolist())
            passing = [passes(item.fields()) for item in items]
            self._filtered[side] = repr(where), view.among(np.flatnonzero(passing))
        return self._filtered[side][1]

    def get(self, ids: ArrayLike, fields: Sequence[str] = SHOWN) -> list[Item | None]:
        """The items of ids, with some of their fields; None where there is none."""
        numbers, names = as_ids(ids), check_fields(fields)
        with self._lock:
            there = set(self._taken(numbers).tolist())
            return [
                self._items.get(number, _NOTHING).only(names) if number in there else None
                for number in numbers.tolist()
            ]

    def codes_of(self, ids: ArrayLike, side: str = "image") -> tuple[NDArray[np.int64], Codes]:
        """Which of the ids have a code on this side, and their codes."""
        with self._lock:
            view = self._tables[check_side(side)].view()
        return view.codes(as_ids(ids))

    def ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        """The ids of those keys that there are."""
        with self._lock:
            return {key: self._ids[key] for key in keys if key in self._ids}

    def new_ids(self, n: int) -> NDArray[np.int64]:
        """Ids that are not taken, larger than all that ever were."""
        with self._lock:
            return np.arange(self._next, self._next + n)

    def writing(self) -> AbstractContextManager[object]:
        """While it lasts no other thread writes."""
        return self._lock

    def batches(self, size: int = 1000) -> Iterator[Entries]:
        """Everything that is there at the first one, in ascending order of id."""
        with self._lock:
            views = {side: table.view() for side, table in self._tables.items()}
            kept = dict(self._items)
        ids = np.union1d(views["image"].ids, views["text"].ids)
        for start in range(0, len(ids), size):
            some = ids[start : start + size]
            codes, rows = {}, {}
            for side, view in views.items():
                rows[side], codes[side] = view.codes(some)
            items = [kept.get(number, _NOTHING) for number in some.tolist()]
            yield Entries(some, codes, rows, items)

    def _taken(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the ids that are there, each once."""
        found = [ids[rows_of(table.ids, ids)[1]] for table in self._tables.values()]
        return np.unique(np.concatenate(found))

    def __len__(self) -> int:
        with self._lock:
            image, text = (table.ids for table in self._tables.values())
        return len(image) + len(text) - len(np.intersect1d(image, text, assume_unique=True))
