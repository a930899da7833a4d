"""NDCG against the textbook sum over ranks, averaged over all orders of ties."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corrhash.metrics.ndcg import ideal_groups, ndcg
from corrhash.metrics.tied_groups import TiedGroups
from tests.metrics.slow_rankings import mean_over_orders, slow_ndcg

graded_rankings = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6
).map(lambda items: tuple(zip(*items, strict=True)))


@given(graded_rankings, st.integers(1, 8))
def test_tied_items_receive_the_mean_gain_of_all_orders(ranking, depth):
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
