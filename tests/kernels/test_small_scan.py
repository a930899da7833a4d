"""The NumPy scan returns what the compiled scan returns, ties included."""

import numpy as np
import pytest

from corrhash import Codes
from corrhash.index.code_table import CodeTable
from corrhash.kernels.scan import nearest
from corrhash.kernels.small_scan import SMALL, nearest_in_numpy


def random_codes(n, n_bits, seed):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


@pytest.mark.parametrize("n_bits", [1, 5, 64, 65, 200])
@pytest.mark.parametrize("n", [1, 63, 700])
def test_results_equal_those_of_the_compiled_scan(n_bits, n):
    database, queries = random_codes(n, n_bits, 0).planes(), random_codes(5, n_bits, 1).planes()
    for k in {1, min(n, 20), n}:
        expected = nearest(queries, database, n_bits, k)
        found = nearest_in_numpy(queries, database, k)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


@pytest.mark.parametrize("more", [0, 1])
def test_tables_of_both_sizes_rank_alike(more):
    """The largest table that NumPy scans, and one of a code more."""
    table, codes = CodeTable(8), random_codes(SMALL + more, 8, 0)
    table.upsert(np.arange(SMALL + more) * 2, codes)
    found = table.view().nearest(codes[[7]], 30)
    distances = (codes.signs() != codes.signs()[7]).sum(axis=1)
    order = np.argsort(distances, kind="stable")[:30]
    np.testing.assert_array_equal(found.rows[0], order * 2)
    np.testing.assert_array_equal(found.distances[0], distances[order])
