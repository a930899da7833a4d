"""Precision-recall curves against a walk over every rank."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corrhash.metrics.precision_recall import precision_at_recall, within_radius
from corrhash.metrics.tied_groups import TiedGroups
from tests.metrics.slow_rankings import expected_hits, slow_precision_at_recall
from tests.metrics.test_average_precision import groups_of, tied_rankings


@given(tied_rankings)
def test_the_curve_along_the_ranking_equals_a_walk_over_every_rank(ranking):
    distances, relevant = ranking
    curve = precision_at_recall(groups_of(distances, relevant))[0]
    if not any(relevant):
        assert np.isnan(curve).all()
        return
    slow = slow_precision_at_recall(expected_hits(distances, relevant))
    np.testing.assert_allclose(curve, slow, atol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), min_size=1, max_size=120))
def test_long_rankings_with_many_ties_follow_evenly_growing_hits(items):
    distances, relevant = map(np.array, zip(*items, strict=True))
    if not relevant.any():
        return
    groups = groups_of(distances, relevant)
    hits = []
    for n, r in zip(groups.items[0], groups.relevant[0], strict=True):
        start = hits[-1] if hits else 0.0
        hits += [start + (i + 1) * r / n for i in range(n)]
    curve = precision_at_recall(groups)[0]
    np.testing.assert_allclose(curve, slow_precision_at_recall(hits), atol=1e-9)


def test_precision_never_rises_with_recall():
    rng = np.random.default_rng(0)
    items = rng.integers(0, 9, (50, 17))
    items[:, 0] += 1
    groups = TiedGroups(items, np.minimum(items, rng.integers(0, 9, (50, 17))))
    curves = precision_at_recall(groups)
    assert np.all(np.diff(curves[groups.n_relevant > 0], axis=1) <= 1e-12)


def test_a_radius_that_retrieves_nothing_has_precision_zero_and_is_said():
    # One item at distance 1 (relevant), two at distance 3 (one relevant).
    groups = TiedGroups(np.array([[0, 1, 0, 2]]), np.array([[0, 1, 0, 1]]))
    precision, recall, nothing = within_radius(groups)[0]
    np.testing.assert_allclose(precision, [0, 1, 1, 2 / 3])
    np.testing.assert_allclose(recall, [0, 0.5, 0.5, 1])
    np.testing.assert_allclose(nothing, [1, 0, 0, 0])
