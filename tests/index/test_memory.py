"""MemoryIndex: filters evaluated once, multi-index hashing, and readers beside writers."""

import threading

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import Item, code_table
from corrhash.index.memory import MemoryIndex


def random_codes(n, n_bits, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


def test_multi_index_gives_the_same_results(monkeypatch):
    monkeypatch.setattr(code_table, "MULTI_INDEX_CODES", 1000)
    codes = random_codes(2000, 64)
    plain, index = MemoryIndex(64), MemoryIndex(64)
    index.use_multi_index()
    for each in (plain, index):
        each.add(np.arange(2000), codes)
    assert index._codes.tables["image"].view().multi_index is not None
    for k in (1, 5, 1500):
        ranking, expected = (each.search(codes[3:5], k) for each in (index, plain))
        np.testing.assert_array_equal(ranking.rows, expected.rows)
        np.testing.assert_array_equal(ranking.distances, expected.distances)


def test_multi_index_needs_64_bits():
    with pytest.raises(InputError, match="64 bits"):
        MemoryIndex(128).use_multi_index()


def test_filter_is_evaluated_once_until_a_change(monkeypatch):
    asked = []
    fields = Item.fields
    monkeypatch.setattr(Item, "fields", lambda item: asked.append(item.key) or fields(item))
    index, codes = MemoryIndex(16), random_codes(5, 16)
    index.add(np.arange(4), codes[:4], [Item(str(i), metadata={"year": i}) for i in range(4)])
    for _ in range(3):
        assert sorted(index.search(codes[:1], 5, where="year > 1").rows[0]) == [2, 3]
    assert len(asked) == 4
    index.add([4], codes[4:], [Item("4", metadata={"year": 4})])
    assert sorted(index.search(codes[:1], 5, where="year > 1").rows[0]) == [2, 3, 4]
    assert len(asked) == 9


@pytest.mark.parametrize(
    "read",
    [lambda index: index.codes_of([3]), lambda index: list(index.batches())],
    ids=["codes_of", "batches"],
)
def test_codes_added_during_a_read_are_kept(read, monkeypatch):
    """Above 64 bits a reader copies a table that has room to grow."""
    index, codes = MemoryIndex(100), random_codes(30, 100)
    for rows in (np.arange(20), np.arange(20, 22)):
        index.add(rows, codes[rows])
    adding = threading.Thread(target=lambda: index.add(np.arange(22, 30), codes[22:]))
    plain = np.ascontiguousarray

    def copy_slowly(array):
        copy = plain(array)
        if adding.ident is None:
            adding.start()
            adding.join(0.2)  # waits for the reader
        return copy

    monkeypatch.setattr(code_table.np, "ascontiguousarray", copy_slowly)
    read(index)
    adding.join()
    rows, found = index.codes_of(np.arange(30))
    assert rows.tolist() == list(range(30))
    np.testing.assert_array_equal(found.packed, codes.packed)


def test_key_of_another_id_is_refused():
    index, codes = MemoryIndex(16), random_codes(2, 16)
    index.add([0], codes[:1], [Item("a")])
    with pytest.raises(InputError, match="Key 'a' is already stored under id 0"):
        index.add([1], codes[1:], [Item("a")])
    index.upsert([0], codes[1:], [Item("b")])
    index.add([1], codes[1:], [Item("a")])
    assert index.ids_of(["a", "b", ""]) == {"a": 1, "b": 0}
