"""Kernel logistic regression against scikit-learn, against written-out sums, and on hard inputs."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from corrhash import InputError
from corrhash.methods.kernel_logistic import CentreKernel, logistic_weights


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((200, 5))


def test_kernel_values_are_those_of_the_formula(rows):
    kernel = CentreKernel(rows[:3], 4.0, unit_rows=False)
    for i in range(10):
        for m in range(3):
            expected = np.exp(-np.sum((rows[i] - rows[m]) ** 2) / 4.0)
            assert kernel.between(rows[i : i + 1])[0, m] == pytest.approx(expected, abs=1e-12)


def test_the_width_is_the_mean_squared_distance_of_two_rows(rows):
    distances = np.square(rows[:, None] - rows[None]).sum(axis=2)
    kernel = CentreKernel.learn(rows, 10, unit_rows=False, seed=0)
    assert kernel.width == pytest.approx(distances.mean())


def test_rows_of_any_length_are_alike_once_they_are_scaled_to_length_one(rows):
    kernel = CentreKernel.learn(rows, 10, unit_rows=True, seed=0)
    np.testing.assert_allclose(kernel.between(7 * rows), kernel.between(rows), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(kernel.centres, axis=1) <= 1, True)


def test_every_row_is_a_centre_where_there_are_no_more_of_them(rows):
    kernel = CentreKernel.learn(rows[:20], 500, unit_rows=False, seed=0)
    np.testing.assert_array_equal(kernel.centres, rows[:20])


def test_sparse_rows_with_wide_indices_give_what_dense_ones_give():
    tags = (np.random.default_rng(1).random((120, 30)) < 0.2).astype(float)
    sparse = sp.csr_array(tags)
    wide = sp.csr_array(
        (sparse.data, sparse.indices.astype(np.int64), sparse.indptr.astype(np.int64)),
        shape=sparse.shape,
    )
    assert wide.indices.dtype == np.int64
    for n_centres in (8, 500):
        kernel, same = (
            CentreKernel.learn(t, n_centres, unit_rows=True, seed=0) for t in (sparse, wide)
        )
        np.testing.assert_array_equal(kernel.centres, same.centres)
        np.testing.assert_array_equal(kernel.between(sparse), same.between(wide))
        np.testing.assert_allclose(kernel.between(tags), kernel.between(sparse), atol=1e-12)


def test_rows_that_occur_many_times_are_no_obstacle():
    tags = np.eye(4)[np.arange(100) % 4]
    kernel = CentreKernel.learn(sp.csr_array(tags), 30, unit_rows=True, seed=0)
    coordinates = kernel.coordinates()
    assert np.isfinite(coordinates).all()
    assert coordinates.shape[1] == 4  # as many directions as there are different rows


def test_rows_that_are_all_alike_are_refused():
    with pytest.raises(InputError, match="All rows are alike"):
        CentreKernel.learn(np.full((50, 6), 0.1), 5, unit_rows=True, seed=0)


def test_coordinates_turn_the_penalty_into_a_sum_of_squares(rows):
    kernel = CentreKernel.learn(rows, 12, unit_rows=False, seed=0)
    t = kernel.coordinates()
    v = np.random.default_rng(1).standard_normal(t.shape[1])
    between_centres = kernel.between(kernel.centres)  # K0
    assert (t @ v) @ between_centres @ (t @ v) == pytest.approx(v @ v)


def test_weights_are_those_of_logistic_regression_in_scikit_learn(rows):
    rng = np.random.default_rng(2)
    signs = np.sign(rows @ rng.standard_normal((5, 3)) + rng.standard_normal((200, 3)))
    ours = logistic_weights(rows, signs, 0.5, "Testing")
    for bit in range(3):
        # Its penalty is |v|^2 / (2 C), ours ridge |v|^2.
        theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
        theirs.fit(rows, signs[:, bit])
        np.testing.assert_allclose(ours[:, bit], theirs.coef_[0], atol=1e-4)


def test_answers_in_blocks_are_the_answers_at_once(rows, monkeypatch):
    kernel = CentreKernel.learn(rows, 12, unit_rows=False, seed=0)
    weights = np.random.default_rng(3).standard_normal((12, 4))
    monkeypatch.setattr("corrhash.methods.kernel_logistic.ROWS_AT_ONCE", 64)
    np.testing.assert_allclose(
        kernel.answers(rows, weights), kernel.between(rows) @ weights, atol=1e-12
    )
