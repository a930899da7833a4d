"""The scan equals a stable sort of all distances, for every size and shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrhash.codes import Codes
from corrhash.kernels import scan


def random_planes(n, n_bits, seed=0, n_distinct=None):
    """(n_words, n) random codes, with at most ``n_distinct`` different ones."""
    generator = np.random.default_rng(seed)
    n_words = (n_bits + 63) // 64
    planes = generator.integers(0, 2**64, (n_words, n_distinct or n), dtype=np.uint64)
    if n_bits % 64:
        planes[-1] &= np.uint64((1 << n_bits % 64) - 1)
    if n_distinct:
        planes = np.ascontiguousarray(planes[:, generator.integers(0, n_distinct, n)])
    return planes


def brute_force(query_planes, database_planes, k):
    distances = np.zeros((query_planes.shape[1], database_planes.shape[1]), dtype=np.int32)
    for queries, database in zip(query_planes, database_planes, strict=True):
        distances += np.bitwise_count(queries[:, None] ^ database[None, :])
    rows = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return rows, np.take_along_axis(distances, rows, axis=1)


def assert_exact(query_planes, database_planes, n_bits, k, threads=1):
    rows, distances = scan.nearest(query_planes, database_planes, n_bits, k, threads)
    expected_rows, expected_distances = brute_force(query_planes, database_planes, k)
    assert rows.dtype == np.int64
    assert distances.dtype == np.int32
    np.testing.assert_array_equal(distances, expected_distances)
    np.testing.assert_array_equal(rows, expected_rows)


@settings(max_examples=150)
@given(
    n_bits=st.integers(1, 1024),
    n=st.integers(1, 3000),
    n_queries=st.integers(1, 20),
    share=st.floats(0, 1),
    n_distinct=st.sampled_from([None, 1, 2, 50]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_size_equals_a_stable_sort(n_bits, n, n_queries, share, n_distinct, threads, seed):
    queries = random_planes(n_queries, n_bits, seed)
    database = random_planes(n, n_bits, seed + 1, n_distinct)
    assert_exact(queries, database, n_bits, k=max(1, round(share * n)), threads=threads)


@pytest.mark.parametrize("n_queries", [1, scan.FEW])
@pytest.mark.parametrize("n_words", range(1, 17))
def test_any_number_of_words_is_exact(n_words, n_queries):
    for n_bits in (64 * n_words - 63, 64 * n_words - 1, 64 * n_words):
        queries = random_planes(n_queries, n_bits, seed=1)
        assert_exact(queries, random_planes(2100, n_bits, seed=2), n_bits, k=40)


@pytest.mark.parametrize("n_bits", [63, 65, 66, 67, 127, 131, 132, 133, 990, 991])
def test_code_lengths_around_a_chunk_are_exact(n_bits):
    queries = random_planes(scan.FEW, n_bits, seed=3)
    assert_exact(queries, random_planes(500, n_bits, seed=4), n_bits, k=500)


@pytest.mark.parametrize("n_queries", [1, scan.FEW])
@pytest.mark.parametrize("edge", [64, 256, 512, 1024, 2048, 4096])
def test_sizes_around_blocks_and_tiles_are_exact(edge, n_queries):
    queries = random_planes(n_queries, 64, seed=5)
    for n in (edge - 1, edge, edge + 1, edge + 63, edge + 65):
        database = random_planes(n, 64, seed=n)
        for k in (1, 50, n):
            assert_exact(queries, database, 64, k)


@pytest.mark.parametrize("n_queries", [1, 2, scan.FEW - 1, scan.FEW, scan.BATCH, scan.BATCH + 1])
def test_any_number_of_queries_is_exact(n_queries):
    assert_exact(random_planes(n_queries, 32), random_planes(700, 32, seed=1), 32, k=9)


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_no_queries_give_an_empty_result(threads):
    rows, distances = scan.nearest(
        random_planes(0, 64), random_planes(10, 64, seed=1), 64, 3, threads
    )
    assert rows.shape == distances.shape == (0, 3)


@pytest.mark.parametrize("n_queries", [1, 20])
def test_ties_come_out_in_row_order(n_queries):
    queries = random_planes(n_queries, 64, seed=6)
    database = random_planes(5000, 64, seed=7, n_distinct=4)
    for k in (1, 1249, 2500, 5000):
        assert_exact(queries, database, 64, k)


@pytest.mark.parametrize("n_queries", [1, 20])
def test_constant_database_returns_the_first_rows(n_queries):
    rows, distances = scan.nearest(
        random_planes(n_queries, 64), np.zeros((1, 6000), np.uint64), 64, 1500
    )
    np.testing.assert_array_equal(rows, np.tile(np.arange(1500), (n_queries, 1)))
    assert (distances == distances[:, :1]).all()


@pytest.mark.parametrize("n_bits", [64, 1024])
@pytest.mark.parametrize("n_queries", [1, 20])
def test_largest_distance_is_counted(n_bits, n_queries):
    queries = np.zeros((n_bits // 64, n_queries), np.uint64)
    rows, distances = scan.nearest(queries, ~np.zeros((n_bits // 64, 100), np.uint64), n_bits, 100)
    assert (distances == n_bits).all()
    np.testing.assert_array_equal(rows[-1], np.arange(100))


@pytest.mark.parametrize("n_queries", [1, 20])
def test_database_sorted_from_far_to_near_is_exact(n_queries):
    """Each row is nearer than all before, so candidates overflow and are compacted often."""
    queries = np.zeros((1, n_queries), np.uint64)
    differing = np.sort(np.random.default_rng(8).integers(0, 65, 20_000))[::-1]
    database = np.array([[(1 << int(count)) - 1 for count in differing]], np.uint64)
    for k in (1, 10, 1000):
        assert_exact(queries, database, 64, k)


@pytest.mark.parametrize("n_queries", [1, 3, 7, 8, 17, 50])
def test_result_is_independent_of_threads(n_queries):
    queries = random_planes(n_queries, 128, seed=9)
    database = random_planes(5000, 128, seed=10, n_distinct=300)
    alone = scan.nearest(queries, database, 128, 100, threads=1)
    for threads in (2, 3, None):
        together = scan.nearest(queries, database, 128, 100, threads)
        np.testing.assert_array_equal(together[0], alone[0])
        np.testing.assert_array_equal(together[1], alone[1])


@pytest.mark.parametrize("n_queries", [1, 2, 9, 40])
@pytest.mark.parametrize(("n_bits", "n"), [(64, 300_001), (128, 270_000)])
def test_splitting_rows_over_threads_is_exact(n_queries, n_bits, n):
    queries = random_planes(n_queries, n_bits, seed=14)
    database = random_planes(n, n_bits, seed=15, n_distinct=5000)  # with ties between the parts
    for k in (1, 100, 500):
        alone = scan.nearest(queries, database, n_bits, k, threads=1)
        for threads in (2, 3, 5):
            assert len(scan._parts_of_rows(n_queries, database, k, threads)) > 1
            together = scan.nearest(queries, database, n_bits, k, threads)
            np.testing.assert_array_equal(together[0], alone[0])
            np.testing.assert_array_equal(together[1], alone[1])


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("n", [64, 1000, 127_681, 262_144, 262_145, 1_000_003])
def test_parts_cover_each_row_once_in_order(threads, n):
    for n_queries in (1, 5, 31, 3000):
        parts = scan._parts_of_rows(n_queries, np.empty((1, n), np.uint64), 10, threads)
        assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
        assert parts[-1][1] == n
        assert len(parts) <= threads
        assert all(stop - start >= 10 for start, stop in parts)


def test_threads_split_rows_only_for_few_queries():
    database = np.empty((1, 1_000_000), np.uint64)
    assert len(scan._parts_of_rows(1, database, 100, 2)) == 2
    assert len(scan._parts_of_rows(64, database, 100, 2)) == 1
    assert len(scan._parts_of_rows(1, database, 10_000, 2)) == 1  # merging would cost more
    assert (
        len(scan._parts_of_rows(1, database[:, :10_000], 1, 2)) == 1
    )  # waking a thread would cost more


def test_read_only_and_strided_planes_are_accepted():
    codes = Codes.from_continuous(np.random.default_rng(11).normal(size=(3000, 64)))
    planes = codes.planes()
    assert not planes.flags.writeable
    assert_exact(planes[:, ::100], planes, 64, k=5)
    assert_exact(planes[:, :1], planes[:, ::3], 64, k=5)


def test_large_database_is_exact():
    database = random_planes(300_000, 64, seed=12)
    for n_queries in (2, 12):
        assert_exact(random_planes(n_queries, 64, seed=13), database, 64, k=1000)
