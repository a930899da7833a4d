"""Average precision against hand-worked rankings and against all orders of tied items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrhash.errors import InputError
from corrhash.metrics.average_precision import MAP_DEFINITIONS, MapDefinition, average_precision
from corrhash.metrics.tied_groups import TiedGroups
from tests.metrics.slow_rankings import mean_over_orders, slow_average_precision


def groups_of(distances, relevant):
    distances, relevant = np.array(distances), np.array(relevant)
    n_groups = distances.max() + 1
    return TiedGroups(
        items=np.bincount(distances, minlength=n_groups)[None],
        relevant=np.bincount(distances[relevant > 0], minlength=n_groups)[None],
    )


def ap(distances, relevant, definition):
    return average_precision(groups_of(distances, relevant), MapDefinition.parse(definition))[0]


tied_rankings = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=6
).map(lambda items: tuple(zip(*items, strict=True)))


def test_relevant_irrelevant_relevant_scores_five_sixths():
    assert ap([0, 1, 2], [1, 0, 1], "all") == pytest.approx((1 + 2 / 3) / 2, abs=1e-15)


def test_definitions_differ_at_a_cut_off():
    assert ap([0, 1, 2], [1, 0, 1], "hashnet@2") == 1
    assert ap([0, 1, 2], [1, 0, 1], "trec@2") == 0.5
    assert ap([0, 1, 2], [1, 0, 1], "possible@2") == 0.5
    assert ap([0, 1, 2], [1, 0, 1], "first@2") == pytest.approx((1 + 2 / 3) / 2)


def test_a_perfect_ranking_scores_one():
    for name in MAP_DEFINITIONS:
        definition = name if name in ("all", "dcmh") else f"{name}@2"
        assert ap([0, 1, 2, 3], [1, 1, 0, 0], definition) == 1


def test_only_dcmh_includes_queries_without_relevant_items():
    for definition in ("all", "hashnet@2", "first@2", "possible@2", "trec@2"):
        assert np.isnan(ap([0, 1, 2], [0, 0, 0], definition))
    assert ap([0, 1, 2], [0, 0, 0], "dcmh") == 0


def test_identical_codes_score_the_closed_form():
    n, r = 1000, 123
    harmonic = np.sum(1 / np.arange(1, n + 1))
    b = (r - 1) / (n - 1)
    value = ap([0] * n, [1] * r + [0] * (n - r), "all")
    assert value == pytest.approx(b + (1 - b) * harmonic / n, abs=1e-12)


@given(tied_rankings)
def test_ties_score_the_mean_over_all_orders(ranking):
    distances, relevant = ranking
    slow = mean_over_orders(distances, relevant, lambda o: slow_average_precision(o, "all"))
    np.testing.assert_allclose(ap(distances, relevant, "all"), slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["hashnet", "possible", "trec"])
@given(ranking=tied_rankings, depth=st.integers(1, 8))
def test_a_cut_through_ties_scores_the_mean_over_orders(name, ranking, depth):
    distances, relevant = ranking
    slow = mean_over_orders(distances, relevant, lambda o: slow_average_precision(o, name, depth))
    fast = ap(distances, relevant, f"{name}@{depth}")
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("relevant_first", [True, False])
@given(ranking=tied_rankings, depth=st.integers(1, 8))
def test_bounds_are_the_best_and_the_worst_order(relevant_first, ranking, depth):
    distances, relevant = ranking
    groups = groups_of(distances, relevant).split_ties(relevant_first)
    sign = -1 if relevant_first else 1
    order = sorted(range(len(relevant)), key=lambda i: (distances[i], sign * relevant[i]))
    ranked = [relevant[i] for i in order]
    for name in MAP_DEFINITIONS:
        definition = MapDefinition(name) if name in ("all", "dcmh") else MapDefinition(name, depth)
        slow = slow_average_precision(ranked, name, definition.depth)
        np.testing.assert_allclose(average_precision(groups, definition)[0], slow, atol=1e-12)


@pytest.mark.parametrize("text", ["map", "all@5", "hashnet", "first@0", "trec@-1", "hashnet@1.5"])
def test_an_unknown_definition_raises(text):
    with pytest.raises(InputError, match=r"Unknown mAP definition .*hashnet@R"):
        MapDefinition.parse(text)
