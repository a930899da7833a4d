"""Whitened tables: unit variance, and the same numbers from dense and from sparse tables."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.methods.whitened import Whitened, check_n_directions, cross_covariance


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=1)


def test_the_whitened_table_has_unit_variance_in_all_directions(pairs):
    side = Whitened(pairs.images.astype(float), 1e-10)
    scores = (side.table - side.mean) @ side.projection(np.eye(256))
    np.testing.assert_allclose(scores.T @ scores / 400, np.eye(256), atol=1e-4)
    values = np.random.default_rng(0).standard_normal((400, 3))
    expected = scores.T @ (values - values.mean(axis=0)) / 400
    np.testing.assert_allclose(side.covariance(values), expected, atol=1e-6)


def test_dense_and_sparse_tables_give_the_same(pairs):
    image = Whitened(pairs.images.astype(float), 0.1)
    sparse = Whitened(pairs.texts.astype(float), 0.1)
    dense = Whitened(pairs.texts.toarray().astype(float), 0.1)
    np.testing.assert_allclose(cross_covariance(image, sparse), cross_covariance(image, dense))
    direction = np.random.default_rng(0).standard_normal(400)
    np.testing.assert_array_equal(sparse.signs(direction), dense.signs(direction))


def test_more_directions_than_columns_or_pairs_are_refused(pairs):
    with pytest.raises(InputError, match=r"CVH finds at most 9 bits in 10 pairs of 256 and 400"):
        check_n_directions("CVH", 10, pairs.images[:10], pairs.texts[:10])
