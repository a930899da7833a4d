"""stable_sums equals sums over sorted rankings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrhash.kernels.stable_sums import TILE, stable_sums
from tests.kernels.test_histograms import Case

STEPS = 20


def slow_sums(distances, relevant, ranks, cut):
    """Sort one query's items, and read everything at every rank."""
    ranked = relevant[np.argsort(distances, kind="stable")]
    hits, places = np.cumsum(ranked), np.arange(1, len(ranked) + 1)
    precision = hits / places
    summed = ranked & (places <= cut[0]) & (hits <= cut[1])
    n_relevant = ranked.sum()
    levels = [
        max(precision[hits * STEPS >= level * n_relevant], default=0) if n_relevant else 0
        for level in range(STEPS + 1)
    ]
    return precision[summed].sum(), hits[ranks - 1], levels


def check(case, ranks, cut, threads=1):
    sums = stable_sums(case.codes, case.n_bits, case.masks, ranks, cut, STEPS, threads)
    np.testing.assert_array_equal(sums.counts, case.counts(2))
    for query in range(len(case.queries)):
        relevant = case.shared[query] > 0
        total, hits, levels = slow_sums(case.distances[query], relevant, ranks, cut)
        np.testing.assert_allclose(sums.precisions[query], total, rtol=1e-12)
        np.testing.assert_array_equal(sums.hits[query], hits)
        np.testing.assert_array_equal(sums.curves[query], levels)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    n=st.integers(1, 1500),
    n_bits=st.sampled_from([1, 16, 64, 100, 128]),
    data=st.data(),
)
def test_any_cutoff_and_ranks_equal_a_sorted_ranking(seed, n, n_bits, data):
    places = st.integers(1, n)
    ranks = np.unique(np.array(data.draw(st.lists(places, max_size=5)), dtype=np.int64))
    check(Case(seed, n, n_bits), ranks, cut=(data.draw(places), data.draw(places)))


@pytest.mark.parametrize("n", [TILE - 1, TILE, TILE + 1, 3 * TILE + 7])
def test_sizes_around_tiles_are_exact(n):
    check(Case(0, n, 32), np.array([1, 50, n]), cut=(n, n))


def test_sums_are_independent_of_threads():
    case = Case(1, 3000, 64, n_queries=23)
    for threads in (2, 3, None):
        check(case, np.array([1, 100]), cut=(500, 3000), threads=threads)
