"""Histogram kernels equal slow numpy versions, for all sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corrhash.codes import Codes
from corrhash.kernels.histograms import (
    TILE,
    distance_gain_histograms,
    distance_histograms,
    distances_to,
    listed_distances,
    shared_labels,
    stable_order,
)

BITS = st.one_of(st.sampled_from([1, 32, 63, 64, 65, 127, 128, 129]), st.integers(1, 1024))
SIZES = st.one_of(st.sampled_from([1, 63, 64, 65, 511, 512, TILE + 1]), st.integers(1, 1500))


class Case:
    """Random codes and labels, with all distances and numbers of shared labels."""

    def __init__(self, seed, n, n_bits, n_labels=21, n_queries=3):
        random = np.random.default_rng(seed)
        spread = random.choice([0.0, 1.0, 3.0])  # 3: many duplicates and far codes
        centre = random.normal(size=n_bits) * spread
        sides = random.choice([-1, 1], size=(n, 1))
        self.n_bits = n_bits
        self.database = Codes.from_continuous(random.normal(size=(n, n_bits)) + sides * centre)
        self.queries = Codes.from_continuous(random.normal(size=(n_queries, n_bits)) + centre)
        share = random.choice([0.02, 0.3])
        self.database_labels = random.random((n, n_labels)) < share
        self.query_labels = random.random((n_queries, n_labels)) < share
        self.distances = self.queries.hamming(self.database).astype(np.int64)
        self.shared = self.query_labels.astype(np.int64) @ self.database_labels.T
        self.codes = self.queries.planes(), self.database.planes()
        self.masks = masks_of(self.query_labels), masks_of(self.database_labels)

    def kernel(self, n_gains, threads=1):
        return distance_gain_histograms(*self.codes, self.n_bits, *self.masks, n_gains, threads)

    def counts(self, n_gains):
        counts = np.zeros((len(self.queries), self.n_bits + 1, n_gains), np.int64)
        queries = np.arange(len(self.queries))[:, None]
        np.add.at(counts, (queries, self.distances, np.minimum(self.shared, n_gains - 1)), 1)
        return counts


def masks_of(labels):
    """Return labels as planes of 64-bit words, like codes."""
    n, n_labels = labels.shape
    words = np.zeros(((n_labels + 63) // 64, n), np.uint64)
    for label in range(n_labels):
        words[label // 64] |= labels[:, label].astype(np.uint64) << np.uint64(label % 64)
    return words


@settings(max_examples=80)
@given(seed=st.integers(0, 999), n=SIZES, n_bits=BITS, n_labels=st.integers(1, 200))
@example(seed=0, n=20 * TILE, n_bits=64, n_labels=21)
@example(seed=0, n=64 * TILE + 64, n_bits=64, n_labels=21)
@example(seed=0, n=64 * TILE + 127, n_bits=128, n_labels=80)
def test_relevance_is_counted_at_each_distance(seed, n, n_bits, n_labels):
    case = Case(seed, n, n_bits, n_labels)
    np.testing.assert_array_equal(case.kernel(n_gains=2), case.counts(n_gains=2))


@settings(max_examples=40)
@given(seed=st.integers(0, 999), n=SIZES, n_bits=BITS, n_labels=st.integers(2, 200))
def test_shared_labels_are_counted_at_each_distance(seed, n, n_bits, n_labels):
    case = Case(seed, n, n_bits, n_labels)
    np.testing.assert_array_equal(case.kernel(n_labels + 1), case.counts(n_labels + 1))


@settings(max_examples=40)
@given(seed=st.integers(0, 999), n=SIZES, n_bits=BITS)
def test_items_are_counted_at_each_distance(seed, n, n_bits):
    case = Case(seed, n, n_bits)
    items = distance_histograms(*case.codes, n_bits, threads=1)
    np.testing.assert_array_equal(items, case.counts(2).sum(axis=2))


@pytest.mark.parametrize("n_bits", [1, 63, 64, 127, 128, 129, 1024])
@pytest.mark.parametrize("n", [1, 64, 1000])
def test_equal_and_opposite_codes_are_the_extremes(n_bits, n):
    opposite = np.arange(n) % 3 == 1
    labels = np.arange(n)[:, None] % 2 == 0
    database = Codes.from_signs(np.where(opposite[:, None], -1, 1) * np.ones(n_bits))
    query = Codes.from_signs(np.ones((1, n_bits)))
    masks = masks_of(np.ones((1, 1), bool)), masks_of(labels)
    counts = distance_gain_histograms(query.planes(), database.planes(), n_bits, *masks, 2, 1)[0]
    assert counts.sum() == n
    assert counts[n_bits].tolist() == np.bincount(labels[opposite, 0], minlength=2).tolist()
    assert counts[0].tolist() == np.bincount(labels[~opposite, 0], minlength=2).tolist()


def test_counts_are_independent_of_threads():
    for n_bits, n_gains in [(64, 2), (128, 2), (200, 2), (64, 22)]:
        case = Case(0, 3000, n_bits, n_queries=37)
        alone = case.kernel(n_gains, threads=1)
        for threads in (2, 3, None):
            np.testing.assert_array_equal(case.kernel(n_gains, threads), alone)
        items = [distance_histograms(*case.codes, n_bits, threads) for threads in (1, 2, 3)]
        np.testing.assert_array_equal(items[0], items[1])
        np.testing.assert_array_equal(items[0], items[2])


@settings(max_examples=40)
@given(seed=st.integers(0, 999), n=SIZES, n_bits=BITS, n_labels=st.integers(1, 200))
def test_one_query_is_compared_with_all_rows(seed, n, n_bits, n_labels):
    case = Case(seed, n, n_bits, n_labels)
    for query in range(3):
        distances = distances_to(case.codes[0], query, case.codes[1])
        np.testing.assert_array_equal(distances, case.distances[query])
        shared = shared_labels(case.masks[0], query, case.masks[1])
        np.testing.assert_array_equal(shared, case.shared[query])
        order = np.argsort(case.distances[query], kind="stable")
        np.testing.assert_array_equal(stable_order(distances, n_bits), order)


@settings(max_examples=20)
@given(seed=st.integers(0, 999), n=SIZES, n_bits=BITS, n_listed=st.integers(0, 50))
def test_distances_of_listed_pairs(seed, n, n_bits, n_listed):
    case = Case(seed, n, n_bits)
    random = np.random.default_rng(seed)
    query_of = random.integers(3, size=n_listed)
    row_of = random.integers(n, size=n_listed)
    distances = listed_distances(*case.codes, query_of, row_of)
    np.testing.assert_array_equal(distances, case.distances[query_of, row_of])
