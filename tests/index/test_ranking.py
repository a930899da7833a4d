"""Ranking: nearest first, ties in row order, immutable."""

import numpy as np
import pytest

from corrhash import InputError, Ranking


def test_one_query_of_a_ranking_is_a_ranking():
    ranking = Ranking([[3, 1], [0, 2]], [[0, 5], [1, 1]])
    assert len(ranking) == 2
    assert ranking.k == 2
    np.testing.assert_array_equal(ranking[1].rows, [[0, 2]])


def test_a_ranking_is_read_only():
    ranking = Ranking([[3, 1]], [[0, 5]])
    with pytest.raises(ValueError, match="read-only"):
        ranking.rows[0, 0] = 9


@pytest.mark.parametrize(
    ("rows", "distances", "message"),
    [
        ([[1, 2]], [[0]], r"got \(1, 2\) and \(1, 1\)"),
        ([1, 2], [0, 1], r"got \(2,\)"),
        ([[1, 2]], [[4, 3]], "must not decrease"),
        ([[2, 1]], [[3, 3]], "in ascending order"),
    ],
)
def test_wrong_order_or_shape_raises(rows, distances, message):
    with pytest.raises(InputError, match=message):
        Ranking(rows, distances)


def test_within_radius_pads_queries_with_fewer_results():
    ranking = Ranking([[4, 1, 7], [1, 7, 4], [7, 1, 4]], [[0, 2, 2], [3, 3, 4], [1, 2, 3]])
    near = ranking.within_radius(2)
    assert near.rows.tolist() == [[4, 1, 7], [-1, -1, -1], [7, 1, -1]]
    assert near.distances.tolist() == [[0, 2, 2], [-1, -1, -1], [1, 2, -1]]
    assert near[1].rows.tolist() == [[-1, -1, -1]]
    assert ranking.within_radius(0).rows.tolist() == [[4], [-1], [-1]]
    assert ranking[1:2].within_radius(1).rows.shape == (1, 0)
    assert ranking.within_radius(None) is ranking


def test_within_radius_does_not_count_padding():
    padded = Ranking([[4, 1, 7], [1, -1, -1]], [[0, 2, 2], [3, -1, -1]])
    near = padded.within_radius(1)
    assert near.rows.tolist() == [[4], [-1]]
    assert near.distances.tolist() == [[0], [-1]]


def test_ranking_of_a_scan_cannot_be_changed():
    ranking = Ranking.in_order(np.array([[4, 1]]), np.array([[0, 2]], dtype=np.int32))
    assert ranking.k == 2
    for array in (ranking.rows, ranking.distances):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 7
