"""MemoryIndex: codes and items in memory, the reference for other engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes, check_n_bits
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.index.code_table import CodeTables, Snapshot, TableView
from corrhash.index.filters import Filter, as_test
from corrhash.index.items import Entries, Item, by_modality
from corrhash.index.time_limit import check_time

CHECKED = 32
"""Items that a filter is evaluated for before the time limit is checked again."""

_EMPTY = Item()  # stands for items that were not given


class MemoryIndex(CodeIndex):
    """Codes and items in memory, lost when the process ends; results are exact.

    A 64-bit code takes 16 bytes with its id. The codes that passed the last filter are kept, so
    that the next search with the same filter is as fast as one without.

    Parameters
    ----------
    n_bits : code length.
    threads : threads per search; all cores if None. Results do not depend on it.

    Examples
    --------
    >>> index = MemoryIndex(n_bits=2)
    >>> index.add([10, 11, 12], Codes.from_signs([[1, 1], [1, -1], [1, -1]]))
    >>> ranking = index.search(Codes.from_signs([[-1, -1]]), k=2)
    >>> ranking.rows, ranking.distances
    (array([[11, 12]]), array([[1, 1]], dtype=int32))
    """

    @classmethod
    def open(cls, uri: str, n_bits: int, about: dict[str, Any] | None = None) -> MemoryIndex:
        """Create an index; ``memory:`` never refers to an existing one."""
        index = cls(n_bits)
        index.about = {**(about or {}), "n_bits": index.n_bits}
        return index

    @classmethod
    def look(cls, uri: str) -> dict[str, Any] | None:
        """Return None: no index exists before it is opened."""
        return None

    def __init__(self, n_bits: int, threads: int | None = None) -> None:
        self.n_bits = check_n_bits(n_bits)
        self.about: dict[str, Any] = {"n_bits": self.n_bits}
        self.threads = threads
        self._codes = CodeTables(self.n_bits)
        self._items: dict[int, Item] = {}  # only those that were given
        self._ids: dict[str, int] = {}  # by key
        self._n_with_field: Counter[str] = Counter()  # items by metadata field
        self._by_content: dict[str, set[int]] = {}
        self._next_id = 0
        self._log: list[tuple[str, dict[str, Any]]] = []
        self._lock = RLock()

    def use_multi_index(self) -> None:
        """Answer single queries of 64 bits by multi-index hashing, which is exact too.

        It takes 48 bytes per code and is built when a search finds millions of codes.
        """
        with self._lock:
            self._codes.use_multi_index()

    def writing(self) -> AbstractContextManager[object]:
        """Exclude other writing threads inside the block."""
        return self._lock

    def new_ids(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return unused ids, larger than all that ever existed."""
        with self._lock:
            return np.arange(self._next_id, self._next_id + len(keys))

    def __len__(self) -> int:
        with self._lock:
            return len(self._codes.ids())

    def _upsert(self, entries: Entries) -> None:
        ids = entries.ids.tolist()
        replaced = set(ids)
        for item in entries.items:
            other = self._ids.get(item.key)
            if other is not None and other not in replaced:
                raise InputError(f"Key {item.key!r} is already stored under id {other}.")
        self._drop_items(ids)
        codes = {
            modality: (entries.ids[rows], of_modality)
            for modality, rows, of_modality in by_modality(entries)
        }
        self._codes.replace(entries.ids, codes)
        for number, item in zip(ids, entries.items, strict=False):
            self._items[number] = item
            self._n_with_field.update(item.metadata.keys())
            if item.key:
                self._ids[item.key] = number
            if item.content:
                self._by_content.setdefault(item.content, set()).add(number)
        self._next_id = max(self._next_id, int(entries.ids.max(initial=-1)) + 1)

    def _delete(self, ids: NDArray[np.int64]) -> int:
        existing = self._codes.existing(ids)
        self._codes.delete(existing)
        self._drop_items(existing.tolist())
        return len(existing)

    def _drop_items(self, ids: list[int]) -> None:
        for number in ids:
            item = self._items.pop(number, _EMPTY)
            self._n_with_field.subtract(item.metadata.keys())
            if item.key:
                del self._ids[item.key]
            if item.content:
                self._by_content[item.content].discard(number)

    def _existing(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._codes.existing(ids)

    def _view(self, modality: str, where: Filter | None) -> TableView:
        with self._lock:
            view = self._codes.view(modality, where)
        if view is None:
            assert where is not None
            passing, seen = self._passing(where)
            view = seen.views[modality].of(passing)
        return view

    def current_view(self, modality: str) -> TableView | None:
        """Return all codes of a modality, unless another thread is writing."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._codes.view(modality, None)
        finally:
            self._lock.release()

    def _passing(self, where: Filter) -> tuple[NDArray[np.int64], Snapshot]:
        """Return the ids that pass a filter, and the codes that they were selected from.

        Nobody waits for a slow filter: the lock is held only while the items are listed.
        """
        with self._lock:
            seen = self._codes.snapshot()
            ids = seen.ids()
            items = [self._items.get(number, _EMPTY) for number in ids.tolist()]
        passes, passed = as_test(where), []
        for start in range(0, len(items), CHECKED):
            check_time()
            passed += [passes(item.fields()) for item in items[start : start + CHECKED]]
        passing = ids[np.array(passed, dtype=bool)]
        with self._lock:
            self._codes.remember(where, passing, seen)
        return passing, seen

    def _select(self, where: Filter) -> NDArray[np.int64]:
        return self._passing(where)[0]

    def _metadata_names(self) -> list[str]:
        with self._lock:
            return sorted(name for name, n_items in self._n_with_field.items() if n_items)

    def _get(self, ids: NDArray[np.int64], fields: Sequence[str]) -> dict[int, Item]:
        with self._lock:
            existing = self._codes.existing(ids).tolist()
            return {number: self._items.get(number, _EMPTY).only(fields) for number in existing}

    def _codes_of(self, ids: NDArray[np.int64], modality: str) -> tuple[NDArray[np.int64], Codes]:
        with self._lock:
            view = self._codes.tables[modality].view()
        return view.codes(ids)

    def _ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        with self._lock:
            return {key: self._ids[key] for key in keys if key in self._ids}

    def _ids_of_content(self, contents: Sequence[str]) -> dict[str, list[int]]:
        with self._lock:
            found = {content: self._by_content.get(content) for content in contents}
        return {content: sorted(ids) for content, ids in found.items() if ids}

    def _write_about(self, about: dict[str, Any]) -> None:
        pass

    def _append(self, kind: str, records: Sequence[dict[str, Any]]) -> None:
        self._log += [(kind, dict(record)) for record in records]

    def _records(self, kind: str) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(record) for of_kind, record in self._log if of_kind == kind]

    def _batches(self, size: int, fields: Sequence[str]) -> Iterator[Entries]:
        """Iterate over what exists when the first batch is read."""
        with self._lock:
            views = {modality: table.view() for modality, table in self._codes.tables.items()}
            stored, ids = dict(self._items), self._codes.ids()
        for start in range(0, len(ids), size):
            some = ids[start : start + size]
            codes, rows = {}, {}
            for modality, view in views.items():
                rows[modality], codes[modality] = view.codes(some)
            items = [stored.get(number, _EMPTY) for number in some.tolist()]
            yield Entries(some, codes, rows, items)
