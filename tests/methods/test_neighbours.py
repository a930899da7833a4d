"""Neighbour graphs and votes against loops over items."""

import numpy as np
import pytest
import scipy.sparse as sp

from corrhash import InputError
from corrhash.methods.neighbours import neighbour_laplacian, neighbour_vote, unit_rows


def test_rows_of_length_one_have_cosines_as_inner_products():
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


def test_a_row_that_is_the_mean_stays_zero():
    np.testing.assert_array_equal(unit_rows(np.ones((2, 3)), np.ones(3)), np.zeros((2, 3)))


def test_the_laplacian_sums_squared_differences_over_the_edges():
    """z^T L z is the sum over edges of weight times squared difference, over k."""
    rng = np.random.default_rng(1)
    rows, values, k = rng.standard_normal((30, 3)), rng.standard_normal(30), 4
    distances = np.linalg.norm(rows[:, None] - rows, axis=2)
    np.fill_diagonal(distances, np.inf)
    expected = 0.0
    for i in range(30):
        for j in np.argsort(distances[i])[:k]:
            expected += 0.5 * (values[i] - values[j]) ** 2 / k  # once from each end that names it
    graph = neighbour_laplacian(rows, k)
    assert values @ (graph @ values) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(graph @ np.ones(30), 0, atol=1e-12)
    assert graph.nnz <= 30 * (2 * k + 1)


def test_items_that_coincide_are_neighbours_but_nobody_is_his_own():
    graph = neighbour_laplacian(np.array([[0.0], [0.0], [5.0], [5.0]]), 1).toarray()
    expected = np.array([[1, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]])
    np.testing.assert_allclose(graph, expected)


def test_more_neighbours_than_other_items_are_refused():
    with pytest.raises(InputError, match="below the number of pairs, 5. Got 5"):
        neighbour_laplacian(np.eye(5), 5)


def test_a_vote_is_the_sum_over_the_nearest_voters():
    rng = np.random.default_rng(2)
    voters, rows = (unit_rows(rng.standard_normal((n, 6)), np.zeros(6)) for n in (40, 9))
    codes = np.sign(rng.standard_normal((40, 5)))
    votes = neighbour_vote(rows, voters, codes, 7)
    for row, vote in zip(rows, votes, strict=True):
        expected = np.zeros(5)
        for j in np.argsort(-(voters @ row))[:7]:
            expected += max(voters[j] @ row, 0.001) * codes[j]
        np.testing.assert_allclose(vote, expected, atol=1e-8)


def test_voters_that_tie_for_the_last_place_share_it():
    """Two places: the first voter has one, the next two have half of the other each."""
    voters = np.array([[1.0, 0.0], [0.6, 0.8], [0.6, 0.8], [0.0, 1.0]])
    codes = np.array([[1, 1], [1, -1], [-1, -1], [1, 1]])
    votes = neighbour_vote(np.array([[1.0, 0.0]]), voters, codes, 2)
    np.testing.assert_allclose(votes, [[1 + 0.3 - 0.3, 1 - 0.3 - 0.3]])


def test_fewer_items_than_voters_all_vote():
    codes = np.array([[1, 1], [1, -1]])
    votes = neighbour_vote(np.array([[1.0, 0.0]]), np.array([[0.6, 0.8], [0.8, 0.6]]), codes, 30)
    np.testing.assert_allclose(votes, [[1.4, -0.2]])


def test_many_rows_vote_as_each_alone():
    rng = np.random.default_rng(3)
    tags = (rng.random((1200, 8)) > 0.6).astype(float)  # many ties
    rows = unit_rows(tags, tags.mean(axis=0))
    codes = np.sign(rng.standard_normal((1200, 4)))
    together = neighbour_vote(rows, rows, codes, 10)
    for i in (0, 511, 512, 1199):
        np.testing.assert_array_equal(neighbour_vote(rows[[i]], rows, codes, 10)[0], together[i])
