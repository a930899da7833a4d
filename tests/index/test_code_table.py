"""CodeTable: order of ids, growth, and immutable views."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrhash import Codes, InputError
from corrhash.index import code_table
from corrhash.index.code_table import CodeTable, CodeTables, rows_of
from corrhash.kernels.multi_index import MultiIndex


def random_codes(n, n_bits, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([8, 64, 130]),
    st.lists(st.lists(st.integers(0, 60), unique=True, max_size=8), max_size=8),
)
def test_table_equals_a_dictionary(n_bits, steps):
    """Each step adds the new ids, replaces every third existing one and deletes the others."""
    table, expected = CodeTable(n_bits), {}
    for step, ids in enumerate(steps):
        new = np.array([i for i in ids if i not in expected or i % 3 == 0], dtype=np.int64)
        old = np.array([i for i in ids if i in expected and i % 3], dtype=np.int64)
        codes = random_codes(len(new), n_bits, step)
        table.delete(old)
        table.upsert(new, codes)
        for number in old.tolist():
            del expected[number]
        expected |= {number: codes[row].packed for row, number in enumerate(new.tolist())}
        view = table.view()
        assert view.ids.tolist() == sorted(expected)
        for number in expected:
            rows, codes = view.codes(np.array([99, number]))
            assert rows.tolist() == [1]
            np.testing.assert_array_equal(codes.packed, expected[number])


def test_appending_copies_each_code_a_few_times(monkeypatch):
    copied = []
    grow = np.empty
    table, codes = CodeTable(64), random_codes(1, 64)
    monkeypatch.setattr(
        np, "empty", lambda shape, dtype=float: copied.append(shape) or grow(shape, dtype)
    )
    for number in range(2000):
        table.upsert(np.array([number]), codes)
    assert sum(copied) < 2 * 4 * 2000  # two arrays


@pytest.mark.parametrize("n_bits", [64, 128])
def test_view_does_not_change(n_bits):
    table = CodeTable(n_bits)
    table.upsert(np.arange(10), random_codes(10, n_bits))
    view = table.view()
    before = view.ids.copy(), view.planes.copy()
    table.upsert(np.array([3]), random_codes(1, n_bits, 4))
    table.upsert(np.arange(10, 30), random_codes(20, n_bits, 1))
    table.upsert(np.array([40]), random_codes(1, n_bits, 2))
    table.upsert(np.array([35]), random_codes(1, n_bits, 3))
    table.delete(np.array([0, 5, 40]))
    np.testing.assert_array_equal(view.ids, before[0])
    np.testing.assert_array_equal(view.planes, before[1])
    assert len(table) == 29


@pytest.mark.parametrize(
    ("known", "rows", "exists"),
    [
        ([2, 5, 9], [2, 0], [True, False, True, False]),
        ([2, 3, 4], [1, 0], [False, True, True, False]),  # no gaps
        ([], [], [False] * 4),
    ],
)
def test_rows_of_finds_known_ids(known, rows, exists):
    found = rows_of(np.array(known, dtype=np.int64), np.array([9, 3, 2, 10]))
    assert [array.tolist() for array in found] == [rows, exists]


def test_ids_are_those_of_either_modality():
    tables, codes = CodeTables(16), random_codes(3, 16)
    for modality, ids in (("image", [1, 4]), ("text", [1, 4]), ("text", [2])):
        tables.tables[modality].upsert(np.array(ids), codes[: len(ids)])
        assert tables.ids().tolist() == sorted({1, 4, *ids})
    tables.delete(np.array([1, 4]))
    assert tables.ids().tolist() == [2]


def assert_same_rankings(table, expected, queries, k):
    ours, theirs = table.view().nearest(queries, k), expected.view().nearest(queries, k)
    np.testing.assert_array_equal(ours.rows, theirs.rows)
    np.testing.assert_array_equal(ours.distances, theirs.distances)


def test_multi_index_stays_exact_after_changes(monkeypatch):
    monkeypatch.setattr(code_table, "MULTI_INDEX_CODES", 1000)
    table, plain = CodeTable(64), CodeTable(64)
    table.use_multi_index()
    queries = random_codes(3, 64, seed=9)
    centres = queries.signs()[np.arange(3000) % 3]
    codes = Codes.from_continuous(
        centres + 0.8 * np.random.default_rng(0).standard_normal((3000, 64))
    )
    steps = [(0, 500), (500, 1500), (1500, 1550), (1550, 2900)]  # none, built, scanned, rebuilt
    for start, stop in steps:
        for each in (table, plain):
            each.upsert(np.arange(start, stop) * 2, codes[start:stop])
        assert (table.view().multi_index is None) == (stop < 1000)
        assert_same_rankings(table, plain, queries, 20)
    for each in (table, plain):
        each.upsert(np.array([7, 9]), codes[2990:2992])  # in between: every row moves
    assert_same_rankings(table, plain, queries, 20)
    for each in (table, plain):
        each.delete(np.arange(0, 400, 2))
    assert_same_rankings(table, plain, queries, 20)


def test_multi_index_is_built_once_for_many_searches(monkeypatch):
    monkeypatch.setattr(code_table, "MULTI_INDEX_CODES", 100)
    built = []
    build = MultiIndex.build
    monkeypatch.setattr(MultiIndex, "build", lambda codes: built.append(len(codes)) or build(codes))
    table = CodeTable(64)
    table.use_multi_index()
    table.upsert(np.arange(1600), random_codes(1600, 64))
    for number in range(1600, 1800, 10):
        table.upsert(np.arange(number, number + 10), random_codes(10, 64, number))
        table.view()
    assert built == [1610, 1720]  # again after a sixteenth was appended


def test_multi_index_needs_64_bits():
    with pytest.raises(InputError, match="64 bits, got 32"):
        CodeTable(32).use_multi_index()


def test_replace_deletes_what_is_not_given():
    tables, codes = CodeTables(16), random_codes(6, 16)
    ids = np.arange(6)
    tables.replace(ids, {"image": (ids, codes), "text": (ids[:3], codes[:3])})
    tables.replace(np.array([1, 2, 5]), {"text": (np.array([2, 5]), codes[4:])})
    assert tables.tables["image"].ids.tolist() == [0, 3, 4]
    assert tables.tables["text"].ids.tolist() == [0, 2, 5]
    assert tables.ids().tolist() == [0, 2, 3, 4, 5]
    assert tables.within(np.array([[2, 3], [5, 9]])).tolist() == [2, 3, 5]
    np.testing.assert_array_equal(
        tables.tables["text"].view().codes(np.array([5]))[1].packed, codes[5:].packed
    )
