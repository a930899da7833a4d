"""Recall of partners against all orders of ties."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corrhash.metrics.partner_recall import partner_found, partner_rank
from tests.metrics.slow_rankings import mean_over_orders
from tests.metrics.test_average_precision import groups_of


@given(st.lists(st.integers(0, 2), min_size=2, max_size=6), st.data())
def test_the_partner_is_found_as_often_as_over_all_orders(distances, data):
    partner = data.draw(st.integers(0, len(distances) - 1))
    relevant = [int(i == partner) for i in range(len(distances))]
    groups = groups_of(distances, relevant)
    for k in range(1, len(distances) + 1):
        slow = mean_over_orders(distances, relevant, lambda order, k=k: float(1 in order[:k]))
        np.testing.assert_allclose(partner_found(groups, np.array([k]))[0, 0], slow, atol=1e-12)
    slow = mean_over_orders(distances, relevant, lambda order: order.index(1) + 1)
    np.testing.assert_allclose(partner_rank(groups)[0], slow, atol=1e-12)
