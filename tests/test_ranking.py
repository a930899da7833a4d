"""Ranking: nearest first, ties in order of row, never changed."""

import numpy as np
import pytest

from corrhash import InputError, Ranking


def test_one_query_of_a_ranking_is_a_ranking():
    ranking = Ranking([[3, 1], [0, 2]], [[0, 5], [1, 1]])
    assert len(ranking) == 2
    assert ranking.k == 2
    np.testing.assert_array_equal(ranking[1].rows, [[0, 2]])


def test_a_ranking_cannot_be_changed():
    ranking = Ranking([[3, 1]], [[0, 5]])
    with pytest.raises(ValueError, match="read-only"):
        ranking.rows[0, 0] = 9


@pytest.mark.parametrize(
    ("rows", "distances", "message"),
    [
        ([[1, 2]], [[0]], r"Got \(1, 2\) and \(1, 1\)"),
        ([1, 2], [0, 1], r"Got \(2,\)"),
        ([[1, 2]], [[4, 3]], "nearest to farthest"),
        ([[2, 1]], [[3, 3]], "ascending order of row"),
    ],
)
def test_a_wrong_order_or_shape_is_refused(rows, distances, message):
    with pytest.raises(InputError, match=message):
        Ranking(rows, distances)


def test_within_a_radius_queries_may_have_different_numbers_of_answers():
    ranking = Ranking([[4, 1, 7], [1, 7, 4], [7, 1, 4]], [[0, 2, 2], [3, 3, 4], [1, 2, 3]])
    near = ranking.within(2)
    assert near.rows.tolist() == [[4, 1, 7], [-1, -1, -1], [7, 1, -1]]
    assert near.distances.tolist() == [[0, 2, 2], [-1, -1, -1], [1, 2, -1]]
    assert near[1].rows.tolist() == [[-1, -1, -1]]
    assert ranking.within(0).rows.tolist() == [[4], [-1], [-1]]
    assert ranking[1:2].within(1).rows.shape == (1, 0)
    assert ranking.within(None) is ranking
