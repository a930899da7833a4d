"""Linear algebra: compared with full decompositions, scikit-learn and slow loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import svd
from sklearn.linear_model import Ridge

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.methods._linear_algebra import (
    RidgeRegression,
    Whitened,
    check_n_directions,
    cross_covariance,
    leading_singular_vectors,
    neighbour_laplacian,
    neighbour_sums,
    unit_rows,
)


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (5, 2), (30, 50), (60, 20)])
def test_leading_singular_vectors_equal_a_full_svd(shape):
    matrix = np.random.default_rng(0).standard_normal(shape)
    u, v = leading_singular_vectors(matrix)
    left, values, right = svd(matrix)
    assert u @ matrix @ v == pytest.approx(values[0])
    assert abs(u @ left[:, 0]) == pytest.approx(1)
    assert abs(v @ right[0]) == pytest.approx(1)
    assert u[abs(u).argmax()] > 0


@pytest.mark.parametrize("shape", [(6, 9), (40, 30)])
def test_leading_singular_vectors_of_a_product(shape):
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((shape[0], 12)), rng.standard_normal((15, shape[1]))
    middle = sp.random_array((12, 15), density=0.4, rng=rng, format="csr")
    expected = leading_singular_vectors(left @ (middle @ right))
    found = leading_singular_vectors(left, middle, right)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-9)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-9)


def test_zero_matrix_has_singular_vectors_of_length_one():
    u, v = leading_singular_vectors(np.zeros((20, 30)))
    assert (np.linalg.norm(u), np.linalg.norm(v)) == (1, 1)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_ridge_regression_equals_scikit_learn(kind):
    rng = np.random.default_rng(0)
    table = rng.random((60, 5)) * (rng.random((60, 5)) > 0.4)
    codes = rng.standard_normal((60, 3))
    codes -= codes.mean(axis=0)
    scatter = np.sum((table - table.mean(axis=0)) ** 2) / 5  # the mean eigenvalue of X^T X
    other = Ridge(alpha=0.7 * scatter).fit(table, codes)
    ours = RidgeRegression(kind(table), ridge=0.7)
    np.testing.assert_allclose(ours.weights(codes), other.coef_.T, atol=1e-12)
    np.testing.assert_allclose(ours.predict(codes), other.predict(table), atol=1e-12)
    np.testing.assert_allclose(ours.predict(codes[:, 1]), other.predict(table)[:, 1], atol=1e-12)


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=1)


def test_whitened_table_has_unit_variance(pairs):
    modality = Whitened(pairs.images.astype(float), 1e-10)
    projected = (modality.table - modality.mean) @ modality.projection(np.eye(256))
    np.testing.assert_allclose(projected.T @ projected / 400, np.eye(256), atol=1e-4)
    values = np.random.default_rng(0).standard_normal((400, 3))
    expected = projected.T @ (values - values.mean(axis=0)) / 400
    np.testing.assert_allclose(modality.covariance(values), expected, atol=1e-6)


def test_dense_and_sparse_tables_are_whitened_equally(pairs):
    image = Whitened(pairs.images.astype(float), 0.1)
    sparse = Whitened(pairs.texts.astype(float), 0.1)
    dense = Whitened(pairs.texts.toarray().astype(float), 0.1)
    np.testing.assert_allclose(cross_covariance(image, sparse), cross_covariance(image, dense))
    direction = np.random.default_rng(0).standard_normal(400)
    np.testing.assert_array_equal(sparse.signs(direction), dense.signs(direction))


def test_more_bits_than_directions_are_refused(pairs):
    with pytest.raises(
        InputError, match=r"CVH finds at most 9 bits in 10 pairs with 256 image and 400"
    ):
        check_n_directions("CVH", 10, pairs.images[:10], pairs.texts[:10])


def test_inner_products_of_unit_rows_are_cosines():
    rng = np.random.default_rng(0)
    table = rng.random((6, 4)) * (rng.random((6, 4)) > 0.3)
    mean = table.mean(axis=0)
    rows = unit_rows(table, mean)
    for i in range(6):
        for j in range(6):
            a, b = table[i] - mean, table[j] - mean
            cosine = a @ b / np.sqrt((a @ a) * (b @ b))
            assert rows[i] @ rows[j] == pytest.approx(cosine, abs=1e-12)
    np.testing.assert_array_equal(unit_rows(sp.csr_array(table), mean), rows)


def test_unit_row_of_the_mean_is_zero():
    np.testing.assert_array_equal(unit_rows(np.ones((2, 3)), np.ones(3)), np.zeros((2, 3)))


def test_laplacian_sums_squared_differences_over_edges():
    """z^T L z is the sum over edges of weight times squared difference, divided by k."""
    rng = np.random.default_rng(1)
    rows, values, k = rng.standard_normal((30, 3)), rng.standard_normal(30), 4
    distances = np.linalg.norm(rows[:, None] - rows, axis=2)
    np.fill_diagonal(distances, np.inf)
    expected = 0.0
    for i in range(30):
        for j in np.argsort(distances[i])[:k]:
            expected += 0.5 * (values[i] - values[j]) ** 2 / k  # once per direction of an edge
    graph = neighbour_laplacian(rows, k)
    assert values @ (graph @ values) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(graph @ np.ones(30), 0, atol=1e-12)
    assert graph.nnz <= 30 * (2 * k + 1)


def test_equal_rows_are_neighbours_but_not_of_themselves():
    graph = neighbour_laplacian(np.array([[0.0], [0.0], [5.0], [5.0]]), 1).toarray()
    expected = np.array([[1, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]])
    np.testing.assert_allclose(graph, expected)


def test_too_many_neighbours_are_refused():
    with pytest.raises(InputError, match="below the number of pairs, 5, got 5"):
        neighbour_laplacian(np.eye(5), 5)


def test_neighbour_sums_equal_a_slow_loop():
    rng = np.random.default_rng(2)
    reference, rows = (unit_rows(rng.standard_normal((n, 6)), np.zeros(6)) for n in (40, 9))
    codes = np.sign(rng.standard_normal((40, 5)))
    sums = neighbour_sums(rows, reference, codes, 7)
    for row, found in zip(rows, sums, strict=True):
        expected = np.zeros(5)
        for j in np.argsort(-(reference @ row))[:7]:
            expected += max(reference[j] @ row, 0.001) * codes[j]
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_tied_neighbours_share_the_last_place():
    """Of two places, the nearest row has one and the next two share the other."""
    reference = np.array([[1.0, 0.0], [0.6, 0.8], [0.6, 0.8], [0.0, 1.0]])
    codes = np.array([[1, 1], [1, -1], [-1, -1], [1, 1]])
    sums = neighbour_sums(np.array([[1.0, 0.0]]), reference, codes, 2)
    np.testing.assert_allclose(sums, [[1 + 0.3 - 0.3, 1 - 0.3 - 0.3]])


def test_all_rows_count_if_there_are_few():
    codes = np.array([[1, 1], [1, -1]])
    sums = neighbour_sums(np.array([[1.0, 0.0]]), np.array([[0.6, 0.8], [0.8, 0.6]]), codes, 30)
    np.testing.assert_allclose(sums, [[1.4, -0.2]])


def test_neighbour_sums_do_not_depend_on_the_batch():
    rng = np.random.default_rng(3)
    tags = (rng.random((1200, 8)) > 0.6).astype(float)  # many ties
    rows = unit_rows(tags, tags.mean(axis=0))
    codes = np.sign(rng.standard_normal((1200, 4)))
    together = neighbour_sums(rows, rows, codes, 10)
    for i in (0, 511, 512, 1199):
        np.testing.assert_array_equal(neighbour_sums(rows[[i]], rows, codes, 10)[0], together[i])
