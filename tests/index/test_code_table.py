"""CodeTable: order of ids, room to grow, and views that stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrhash import Codes
from corrhash.errors import InputError
from corrhash.index import code_table
from corrhash.index.code_table import CodeTable, rows_of
from corrhash.kernels.multi_index import MultiIndex


def random_codes(n, n_bits, seed=0):
    return Codes.from_scores(np.random.default_rng(seed).standard_normal((n, n_bits)))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([8, 64, 130]),
    st.lists(st.lists(st.integers(0, 60), unique=True, max_size=8), max_size=8),
)
def test_a_table_holds_what_a_dictionary_holds(n_bits, steps):
    """Every step adds the ids that are new and forgets those that are there."""
    table, expected = CodeTable(n_bits), {}
    for step, ids in enumerate(steps):
        new = np.array([i for i in ids if i not in expected], dtype=np.int64)
        old = np.array([i for i in ids if i in expected], dtype=np.int64)
        codes = random_codes(len(new), n_bits, step)
        table.delete(old)
        table.add(new, codes, new.astype(np.uint64) * 2)
        for number in old.tolist():
            del expected[number]
        expected |= {number: codes[row].packed for row, number in enumerate(new.tolist())}
        view = table.view()
        assert view.ids.tolist() == sorted(expected)
        assert view.places.tolist() == [2 * number for number in sorted(expected)]
        for number in expected:
            rows, codes = view.codes(np.array([99, number]))
            assert rows.tolist() == [1]
            np.testing.assert_array_equal(codes.packed, expected[number])


def test_adding_one_by_one_copies_each_code_a_few_times_only(monkeypatch):
    copied = []
    grow = np.empty
    table, codes = CodeTable(64), random_codes(1, 64)
    monkeypatch.setattr(
        np, "empty", lambda shape, dtype=float: copied.append(shape) or grow(shape, dtype)
    )
    for number in range(2000):
        table.add(np.array([number]), codes)
    assert sum(copied) < 3 * 4 * 2000  # three arrays


@pytest.mark.parametrize("n_bits", [64, 128])
def test_a_view_stays_as_it_was(n_bits):
    table = CodeTable(n_bits)
    table.add(np.arange(10), random_codes(10, n_bits))
    view = table.view()
    before = view.ids.copy(), view.planes.copy()
    table.add(np.arange(10, 30), random_codes(20, n_bits, 1))
    table.add(np.array([40]), random_codes(1, n_bits, 2))
    table.add(np.array([35]), random_codes(1, n_bits, 3))
    table.delete(np.array([0, 5, 40]))
    np.testing.assert_array_equal(view.ids, before[0])
    np.testing.assert_array_equal(view.planes, before[1])
    assert len(table) == 29


def test_rows_of_ids_that_are_known():
    rows, there = rows_of(np.array([2, 5, 9]), np.array([9, 3, 2, 10]))
    assert rows.tolist() == [2, 0]
    assert there.tolist() == [True, False, True, False]


def same_answers(table, expected, queries, k):
    ours, theirs = table.view().nearest(queries, k), expected.view().nearest(queries, k)
    np.testing.assert_array_equal(ours.rows, theirs.rows)
    np.testing.assert_array_equal(ours.distances, theirs.distances)


def test_multi_index_hashing_answers_alike_whatever_comes_and_goes(monkeypatch):
    monkeypatch.setattr(code_table, "WORTH_TABLES", 1000)
    table, plain = CodeTable(64), CodeTable(64)
    table.use_multi_index()
    queries = random_codes(3, 64, seed=9)
    centres = queries.signs()[np.arange(3000) % 3]
    codes = Codes.from_scores(centres + 0.8 * np.random.default_rng(0).standard_normal((3000, 64)))
    steps = [(0, 500), (500, 1500), (1500, 1550), (1550, 2900)]  # none, made, scanned, made anew
    for start, stop in steps:
        for each in (table, plain):
            each.add(np.arange(start, stop) * 2, codes[start:stop])
        assert (table.view().tables is None) == (stop < 1000)
        same_answers(table, plain, queries, 20)
    for each in (table, plain):
        each.add(np.array([7, 9]), codes[2990:2992])  # in between: every row moves
    same_answers(table, plain, queries, 20)
    for each in (table, plain):
        each.delete(np.arange(0, 400, 2))
    same_answers(table, plain, queries, 20)


def test_tables_are_made_once_for_many_searches(monkeypatch):
    monkeypatch.setattr(code_table, "WORTH_TABLES", 100)
    built = []
    build = MultiIndex.build
    monkeypatch.setattr(MultiIndex, "build", lambda codes: built.append(len(codes)) or build(codes))
    table = CodeTable(64)
    table.use_multi_index()
    table.add(np.arange(1600), random_codes(1600, 64))
    for number in range(1600, 1800, 10):
        table.add(np.arange(number, number + 10), random_codes(10, 64, number))
        table.view()
    assert built == [1610, 1720]  # once more when a sixteenth has come


def test_only_codes_of_64_bits_have_tables():
    with pytest.raises(InputError, match=r"64 bits. Got 32"):
        CodeTable(32).use_multi_index()
