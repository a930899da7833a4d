"""Average precision against hand-worked rankings and against all orders of tied items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrhash.errors import InputError
from corrhash.metrics.average_precision import READINGS, Reading, average_precision
from corrhash.metrics.tied_groups import TiedGroups
from tests.metrics.slow_rankings import mean_over_orders, slow_average_precision


def groups_of(distances, relevant):
    distances, relevant = np.array(distances), np.array(relevant)
    n_groups = distances.max() + 1
    return TiedGroups(
        items=np.bincount(distances, minlength=n_groups)[None],
        relevant=np.bincount(distances[relevant > 0], minlength=n_groups)[None],
    )


def ap(distances, relevant, reading):
    return average_precision(groups_of(distances, relevant), Reading.parse(reading))[0]


tied_rankings = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=6
).map(lambda items: tuple(zip(*items, strict=True)))


def test_relevant_irrelevant_relevant_scores_five_sixths():
    assert ap([0, 1, 2], [1, 0, 1], "all") == pytest.approx((1 + 2 / 3) / 2, abs=1e-15)


def test_a_cut_at_two_sees_only_the_first_relevant_item():
    assert ap([0, 1, 2], [1, 0, 1], "hashnet@2") == 1
    assert ap([0, 1, 2], [1, 0, 1], "trec@2") == 0.5
    assert ap([0, 1, 2], [1, 0, 1], "possible@2") == 0.5
    assert ap([0, 1, 2], [1, 0, 1], "first@2") == pytest.approx((1 + 2 / 3) / 2)


def test_a_perfect_ranking_scores_one_in_every_reading():
    for name in READINGS:
        reading = name if name in ("all", "dcmh") else f"{name}@2"
        assert ap([0, 1, 2, 3], [1, 1, 0, 0], reading) == 1


def test_a_query_without_a_relevant_item_is_left_out_except_by_dcmh():
    for reading in ("all", "hashnet@2", "first@2", "possible@2", "trec@2"):
        assert np.isnan(ap([0, 1, 2], [0, 0, 0], reading))
    assert ap([0, 1, 2], [0, 0, 0], "dcmh") == 0


def test_identical_codes_score_the_closed_form_of_a_constant_ranking():
    n, r = 1000, 123
    harmonic = np.sum(1 / np.arange(1, n + 1))
    b = (r - 1) / (n - 1)
    value = ap([0] * n, [1] * r + [0] * (n - r), "all")
    assert value == pytest.approx(b + (1 - b) * harmonic / n, abs=1e-12)


@given(tied_rankings)
def test_the_whole_ranking_equals_the_mean_over_all_orders_of_ties(ranking):
    distances, relevant = ranking
    slow = mean_over_orders(distances, relevant, lambda o: slow_average_precision(o, "all"))
    np.testing.assert_allclose(ap(distances, relevant, "all"), slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["hashnet", "possible", "trec"])
@given(ranking=tied_rankings, depth=st.integers(1, 8))
def test_a_cut_through_ties_equals_the_mean_over_all_orders(name, ranking, depth):
    distances, relevant = ranking
    slow = mean_over_orders(distances, relevant, lambda o: slow_average_precision(o, name, depth))
    fast = ap(distances, relevant, f"{name}@{depth}")
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("relevant_first", [True, False])
@given(ranking=tied_rankings, depth=st.integers(1, 8))
def test_the_bounds_over_ties_are_the_best_and_the_worst_order(relevant_first, ranking, depth):
    distances, relevant = ranking
    groups = groups_of(distances, relevant).purified(relevant_first)
    sign = -1 if relevant_first else 1
    order = sorted(range(len(relevant)), key=lambda i: (distances[i], sign * relevant[i]))
    ranked = [relevant[i] for i in order]
    for name in READINGS:
        reading = Reading(name) if name in ("all", "dcmh") else Reading(name, depth)
        slow = slow_average_precision(ranked, name, reading.depth)
        np.testing.assert_allclose(average_precision(groups, reading)[0], slow, atol=1e-12)


@pytest.mark.parametrize("text", ["map", "all@5", "hashnet", "first@0", "trec@-1", "hashnet@1.5"])
def test_an_unknown_reading_is_refused_with_the_list_of_names(text):
    with pytest.raises(InputError, match=r"There is no reading .*hashnet@R"):
        Reading.parse(text)
