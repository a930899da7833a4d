"""Counts of distances, against a loop over all pairs."""

import numpy as np

from corrhash import Codes
from corrhash.metrics.distance_counts import distance_counts


def test_pairs_are_counted_by_distance_and_relevance():
    rng = np.random.default_rng(0)
    codes = Codes.from_scores(rng.normal(size=(70, 9)))
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
