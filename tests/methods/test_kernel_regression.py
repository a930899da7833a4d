"""Kernel logistic regression: compared with scikit-learn and slow sums, and edge cases."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from corrhash import InputError
from corrhash.methods._kernel_regression import CentreKernel, logistic_weights


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((200, 5))


def test_kernel_values_follow_the_formula(rows):
    kernel = CentreKernel(rows[:3], 4.0, normalize_rows=False)
    for i in range(10):
        for m in range(3):
            expected = np.exp(-np.sum((rows[i] - rows[m]) ** 2) / 4.0)
            assert kernel.between(rows[i : i + 1])[0, m] == pytest.approx(expected, abs=1e-12)


def test_width_is_the_mean_squared_distance(rows):
    distances = np.square(rows[:, None] - rows[None]).sum(axis=2)
    kernel = CentreKernel.fit(rows, 10, normalize_rows=False, seed=0)
    assert kernel.width == pytest.approx(distances.mean())


def test_normalized_rows_do_not_depend_on_length(rows):
    kernel = CentreKernel.fit(rows, 10, normalize_rows=True, seed=0)
    np.testing.assert_allclose(kernel.between(7 * rows), kernel.between(rows), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(kernel.centres, axis=1) <= 1, True)


def test_few_rows_are_all_centres(rows):
    kernel = CentreKernel.fit(rows[:20], 500, normalize_rows=False, seed=0)
    np.testing.assert_array_equal(kernel.centres, rows[:20])


def test_sparse_and_dense_rows_give_the_same_kernel():
    tags = (np.random.default_rng(1).random((120, 30)) < 0.2).astype(float)
    sparse = sp.csr_array(tags)
    wide = sp.csr_array(
        (sparse.data, sparse.indices.astype(np.int64), sparse.indptr.astype(np.int64)),
        shape=sparse.shape,
    )
    assert wide.indices.dtype == np.int64
    for n_centres in (8, 500):
        kernel, same = (
            CentreKernel.fit(t, n_centres, normalize_rows=True, seed=0) for t in (sparse, wide)
        )
        np.testing.assert_array_equal(kernel.centres, same.centres)
        np.testing.assert_array_equal(kernel.between(sparse), same.between(wide))
        np.testing.assert_allclose(kernel.between(tags), kernel.between(sparse), atol=1e-12)


def test_duplicate_rows_are_handled():
    tags = np.eye(4)[np.arange(100) % 4]
    kernel = CentreKernel.fit(sp.csr_array(tags), 30, normalize_rows=True, seed=0)
    coordinates = kernel.coordinates()
    assert np.isfinite(coordinates).all()
    assert coordinates.shape[1] == 4  # the number of distinct rows


def test_equal_rows_are_refused():
    with pytest.raises(InputError, match="All rows are equal"):
        CentreKernel.fit(np.full((50, 6), 0.1), 5, normalize_rows=True, seed=0)


def test_coordinates_give_a_sum_of_squares_penalty(rows):
    kernel = CentreKernel.fit(rows, 12, normalize_rows=False, seed=0)
    t = kernel.coordinates()
    v = np.random.default_rng(1).standard_normal(t.shape[1])
    between_centres = kernel.between(kernel.centres)  # K0
    assert (t @ v) @ between_centres @ (t @ v) == pytest.approx(v @ v)


def test_weights_equal_scikit_learn(rows):
    rng = np.random.default_rng(2)
    signs = np.sign(rows @ rng.standard_normal((5, 3)) + rng.standard_normal((200, 3)))
    ours = logistic_weights(rows, signs, 0.5, "Testing")
    for bit in range(3):
        # The penalty is |v|² / (2 C) there and ridge |v|² here.
        theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
        theirs.fit(rows, signs[:, bit])
        np.testing.assert_allclose(ours[:, bit], theirs.coef_[0], atol=1e-4)


def test_logits_do_not_depend_on_the_block_size(rows, monkeypatch):
    kernel = CentreKernel.fit(rows, 12, normalize_rows=False, seed=0)
    weights = np.random.default_rng(3).standard_normal((12, 4))
    monkeypatch.setattr("corrhash.methods._kernel_regression.BLOCK_SIZE", 64)
    np.testing.assert_allclose(
        kernel.logits(rows, weights), kernel.between(rows) @ weights, atol=1e-12
    )
