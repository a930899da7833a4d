"""RidgeMap against another library."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from corrhash.methods.ridge_map import RidgeMap


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_it_is_ridge_regression_on_centred_columns(kind):
    rng = np.random.default_rng(0)
    table = rng.random((60, 5)) * (rng.random((60, 5)) > 0.4)
    codes = rng.standard_normal((60, 3))
    codes -= codes.mean(axis=0)
    scatter = np.sum((table - table.mean(axis=0)) ** 2) / 5  # the mean eigenvalue of X^T X
    other = Ridge(alpha=0.7 * scatter).fit(table, codes)
    ours = RidgeMap(kind(table), ridge=0.7)
    np.testing.assert_allclose(ours.weights(codes), other.coef_.T, atol=1e-12)
    np.testing.assert_allclose(ours.predict(codes), other.predict(table), atol=1e-12)
    np.testing.assert_allclose(ours.predict(codes[:, 1]), other.predict(table)[:, 1], atol=1e-12)
