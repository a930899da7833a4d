"""Curves, NDCG and paired ranks against loops over every rank and order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corrhash import Codes
from corrhash.metrics.curves import (
    distance_counts,
    ideal_groups,
    ndcg,
    paired_rank,
    precision_at_recall,
    radius_curves,
)
from corrhash.metrics.tied_groups import TiedGroups
from tests.metrics.slow_rankings import (
    expected_hits,
    mean_over_orders,
    slow_ndcg,
    slow_precision_at_recall,
)
from tests.metrics.test_average_precision import groups_of, tied_rankings


@given(tied_rankings)
def test_the_pr_curve_equals_a_loop_over_ranks(ranking):
    distances, relevant = ranking
    curve = precision_at_recall(groups_of(distances, relevant))[0]
    if not any(relevant):
        assert np.isnan(curve).all()
        return
    slow = slow_precision_at_recall(expected_hits(distances, relevant))
    np.testing.assert_allclose(curve, slow, atol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), min_size=1, max_size=120))
def test_hits_grow_linearly_inside_tied_groups(items):
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


def test_an_empty_lookup_has_precision_zero():
    # One item at distance 1 (relevant), two at distance 3 (one relevant).
    groups = TiedGroups(np.array([[0, 1, 0, 2]]), np.array([[0, 1, 0, 1]]))
    precision, recall, empty = radius_curves(groups)[0]
    np.testing.assert_allclose(precision, [0, 1, 1, 2 / 3])
    np.testing.assert_allclose(recall, [0, 0.5, 0.5, 1])
    np.testing.assert_allclose(empty, [1, 0, 0, 0])


graded_rankings = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6
).map(lambda items: tuple(zip(*items, strict=True)))


@given(graded_rankings, st.integers(1, 8))
def test_ndcg_of_ties_is_the_mean_over_all_orders(ranking, depth):
    distances, gains = map(np.array, ranking)
    groups = TiedGroups(
        items=np.bincount(distances)[None],
        relevant=np.bincount(distances, weights=gains > 0).astype(int)[None],
        gains=np.bincount(distances, weights=gains).astype(int)[None],
    )
    value = ndcg(groups, ideal_groups(np.bincount(gains)[None]), depth)[0]
    if not gains.any():
        assert np.isnan(value)
        return
    slow = mean_over_orders(ranking[0], ranking[1], lambda order: slow_ndcg(order, depth))
    np.testing.assert_allclose(value, slow, atol=1e-12)


@given(st.lists(st.integers(0, 2), min_size=2, max_size=6), st.data())
def test_paired_recall_and_rank_are_means_over_orders(distances, data):
    paired = data.draw(st.integers(0, len(distances) - 1))
    relevant = [int(i == paired) for i in range(len(distances))]
    groups = groups_of(distances, relevant)
    for k in range(1, len(distances) + 1):
        slow = mean_over_orders(distances, relevant, lambda order, k=k: float(1 in order[:k]))
        np.testing.assert_allclose(groups.hits_within(np.array([k]))[0, 0], slow, atol=1e-12)
    slow = mean_over_orders(distances, relevant, lambda order: order.index(1) + 1)
    np.testing.assert_allclose(paired_rank(groups)[0], slow, atol=1e-12)


def test_pairs_are_counted_by_distance_and_relevance():
    rng = np.random.default_rng(0)
    codes = Codes.from_continuous(rng.normal(size=(70, 9)))
    labels = (rng.random((70, 4)) < 0.3).astype(int)
    queries, database = codes[:20], codes[20:]
    expected = np.zeros((2, 10), dtype=int)
    for i, distances in enumerate(queries.hamming(database)):
        for j, distance in enumerate(distances):
            shares = bool(labels[i] @ labels[20 + j])
            expected[0 if shares else 1, distance] += 1
    np.testing.assert_array_equal(
        distance_counts(queries, database, labels[:20], labels[20:]), expected
    )
