"""ExactIndex: what only the engine in memory does."""

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
