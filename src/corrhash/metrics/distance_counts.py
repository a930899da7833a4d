"""How far apart relevant and other pairs lie: the counts of their Hamming distances."""

from __future__ import annotations

import numpy as np

from corrhash.codes import Codes
from corrhash.metrics.gains import Gains
from corrhash.metrics.hamming_groups import rank_by_distance
from corrhash.metrics.tied_groups import Counts
from corrhash.relevance import Labels, Similarity


def distance_counts(
    queries: Codes,
    database: Codes,
    query_labels: Labels,
    database_labels: Labels,
    threads: int | None = None,
) -> Counts:
    """(2, n_bits + 1) pairs at each distance: those that share a label, then the others.

    >>> codes = Codes.from_signs([[1, 1], [1, -1]])
    >>> distance_counts(codes, codes, [[1, 0], [0, 1]], [[1, 0], [0, 1]])
    array([[2, 0, 0],
           [0, 2, 0]])
    """
    gains = Gains(Similarity.from_labels(query_labels, database_labels))
    counts = np.zeros((2, queries.n_bits + 1), dtype=np.int64)
    for ranked in rank_by_distance(queries, database, gains, graded=False, threads=threads):
        relevant = ranked.groups.relevant.sum(axis=0)
        counts += np.stack([relevant, ranked.groups.items.sum(axis=0) - relevant])
    return counts
