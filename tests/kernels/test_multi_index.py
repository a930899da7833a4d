"""Multi-index hashing equals a stable sort of all distances, for any codes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrhash.kernels import multi_index
from corrhash.kernels.multi_index import PIECES, MultiIndex
from tests.kernels.test_scan import brute_force, random_planes


@pytest.fixture
def no_scan(monkeypatch):
    """Make the tables find every result, without falling back to the scan."""
    monkeypatch.setattr(MultiIndex, "_nearest_known", from_tables_alone)


def from_tables_alone(tables, query, k):
    found = np.empty(2 * k + multi_index.ROOM, np.uint64)
    # The rows pretend that the tables are larger, so that their share is never used up.
    rows = np.zeros((PIECES, 100 * len(tables)), np.uint32)
    rows[:, : len(tables)] = tables.rows
    arrays = tables.begins, tables.codes, rows, multi_index._BY_COUNT, multi_index._BEGIN
    n_found = multi_index._search(*arrays, multi_index.read_only(query), k, found)
    assert n_found >= k
    best = np.sort(found[:n_found])[None, :k]
    return (best & np.uint64(2**32 - 1)).astype(np.int64), (best >> 32).astype(np.int32)


def near(planes, n, n_flips, seed):
    """Return (1, n) codes that differ in up to ``n_flips`` bits from one of the given ones."""
    generator = np.random.default_rng(seed)
    codes = planes[:, generator.integers(planes.shape[1], size=n)]
    for _ in range(n_flips):
        codes = codes ^ (np.uint64(1) << generator.integers(64, size=n, dtype=np.uint64))
    return codes


def assert_exact(tables, queries, database, k):
    rows, distances = tables.nearest(queries, database, k, threads=1)
    expected_rows, expected_distances = brute_force(queries, database, k)
    np.testing.assert_array_equal(distances, expected_distances)
    np.testing.assert_array_equal(rows, expected_rows)
    assert (rows.dtype, distances.dtype) == (np.int64, np.int32)


@pytest.mark.usefixtures("no_scan")
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 2000),
    n_centres=st.sampled_from([1, 3, 1000]),
    n_flips=st.integers(0, 30),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_tables_alone_equal_a_stable_sort(n, n_centres, n_flips, share, seed):
    database = near(random_planes(n_centres, 64, seed), n, n_flips, seed + 1)
    queries = np.concatenate([database[:, :2], random_planes(2, 64, seed + 2)], axis=1)
    assert_exact(MultiIndex.build(database[0], 1), queries, database, max(1, round(share * n)))


@pytest.mark.parametrize("room", [4, 5000, 20_000])
def test_first_rows_of_many_equal_codes_are_found(room, monkeypatch):
    """The tables find them if all ties fit into the room, otherwise the scan does."""
    monkeypatch.setattr(multi_index, "ROOM", room)
    equal = np.full((1, 20_000), 12345, np.uint64)
    equal[0, ::2] ^= np.uint64(1) << np.uint64(40)  # half of them differ in one bit
    database = np.concatenate([random_planes(300_000, 64), equal], axis=1)
    for k in (1, 10, 9_999, 10_001):
        assert_exact(MultiIndex.build(database[0], 1), equal[:, 1:2], database, k)


@pytest.mark.parametrize("n_known", [1, 4000, 4999, 5000])
def test_rows_appended_after_the_build_are_found(n_known):
    database = near(random_planes(20, 64), 5000, 3, seed=1)
    tables = MultiIndex.build(database[0, :n_known], 1)
    assert len(tables) == n_known
    assert_exact(tables, near(database, 5, 2, seed=2), database, k=50)


def test_distant_query_falls_back_to_the_scan(monkeypatch):
    scanned = []
    scan = multi_index.scan.nearest
    monkeypatch.setattr(
        multi_index.scan, "nearest", lambda *args: scanned.append(args) or scan(*args)
    )
    database = near(random_planes(1000, 64), 50_000, 2, seed=1)
    tables = MultiIndex.build(database[0], 1)
    assert_exact(tables, database[:, :1], database, k=10)
    assert not scanned
    assert_exact(tables, ~database[:, :1], database, k=10)
    assert len(scanned) == 1


def test_shared_piece_falls_back_to_the_scan():
    database = random_planes(50_000, 64, seed=3) & np.uint64(2**48 - 1)
    assert_exact(MultiIndex.build(database[0], 1), database[:, 7:9], database, k=20)


def test_tables_are_independent_of_threads():
    codes = random_planes(3000, 64, seed=4)[0]
    alone, together = MultiIndex.build(codes, 1), MultiIndex.build(codes, 3)
    for name in ("begins", "codes", "rows"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(together, name))
