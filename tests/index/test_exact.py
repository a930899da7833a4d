"""ExactIndex: what only the engine in memory does."""

import threading

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import Item, code_table
from corrhash.index.exact import ExactIndex


def random_codes(n, n_bits, seed=0):
    return Codes.from_scores(np.random.default_rng(seed).standard_normal((n, n_bits)))


def test_multi_index_hashing_gives_the_same_answers(monkeypatch):
    monkeypatch.setattr(code_table, "WORTH_TABLES", 1000)
    codes = random_codes(2000, 64)
    plain, index = ExactIndex(64), ExactIndex(64)
    index.use_multi_index()
    for each in (plain, index):
        each.add(np.arange(2000), codes)
    assert index._tables["image"].view().tables is not None
    for k in (1, 5, 1500):
        answer, expected = (each.search(codes[3:5], k) for each in (index, plain))
        np.testing.assert_array_equal(answer.rows, expected.rows)
        np.testing.assert_array_equal(answer.distances, expected.distances)


def test_multi_index_hashing_of_other_lengths_is_refused():
    with pytest.raises(InputError, match="64 bits"):
        ExactIndex(128).use_multi_index()


def test_items_are_asked_once_whether_they_pass_until_something_changes(monkeypatch):
    asked = []
    fields = Item.fields
    monkeypatch.setattr(Item, "fields", lambda item: asked.append(item.key) or fields(item))
    index, codes = ExactIndex(16), random_codes(5, 16)
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
def test_codes_that_come_while_others_are_read_are_kept(read, monkeypatch):
    """Above 64 bits a reader moves the rows of a table that has spare room."""
    index, codes = ExactIndex(100), random_codes(30, 100)
    for rows in (np.arange(20), np.arange(20, 22)):
        index.add(rows, codes[rows])
    adding = threading.Thread(target=lambda: index.add(np.arange(22, 30), codes[22:]))
    plain = np.ascontiguousarray

    def moved_slowly(array):
        moved = plain(array)
        if adding.ident is None:
            adding.start()
            adding.join(0.2)  # it waits for the reader, or would write where nobody looks
        return moved

    monkeypatch.setattr(code_table.np, "ascontiguousarray", moved_slowly)
    read(index)
    adding.join()
    rows, found = index.codes_of(np.arange(30))
    assert rows.tolist() == list(range(30))
    np.testing.assert_array_equal(found.packed, codes.packed)
