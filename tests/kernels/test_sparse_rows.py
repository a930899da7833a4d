"""dense_rows equals SciPy, for empty rows, repeated rows and no rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from corrhash.kernels.sparse_rows import dense_rows


@pytest.mark.parametrize("dtype", [np.float64, np.uint8, np.bool_])
@pytest.mark.parametrize("rows", [[3, 0, 3, 11], [], [5], range(12)])
def test_rows_equal_scipy(rows, dtype):
    rng = np.random.default_rng(0)
    matrix = sp.random_array((12, 7), density=0.2, format="csr", rng=rng)
    matrix = (10 * matrix).astype(dtype)
    assert (np.diff(matrix.indptr) == 0).any()  # some rows are empty
    rows = np.array(rows, dtype=np.int64)
    found = dense_rows(matrix, rows)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, matrix.toarray()[rows].astype(np.float32))


def test_duplicate_entries_are_summed():
    twice = sp.csr_array((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    np.testing.assert_array_equal(dense_rows(twice, np.arange(2)), [[0, 2], [1, 0]])
