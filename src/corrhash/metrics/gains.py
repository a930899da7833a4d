"""Gains: what each database item is worth to each query, in the form that is cheapest to count."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from corrhash.kernels.histograms import shared_labels
from corrhash.metrics.tied_groups import Counts
from corrhash.relevance import Similarity, label_masks

Masks = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""Labels of queries and database, (n_label_words, n) each."""

MASK_CLASSES = 1024
"""Up to so many classes labels are compared as bit masks; beyond, relevant rows are listed."""


class Gains:
    """The number of labels that a query and a database item share, 1 for a pair judged similar.

    ``masks`` holds the labels of queries and database as bit masks where that pays, else None.
    """

    def __init__(self, similarity: Similarity) -> None:
        self.similarity = similarity
        self.masks: Masks | None = None
        queries, database = similarity.row_labels, similarity.column_labels
        if queries is not None and database is not None and queries.shape[1] <= MASK_CLASSES:
            self.masks = label_masks(queries), label_masks(database)

    @property
    def most(self) -> int:
        """The largest gain that can occur."""
        labels = self.similarity.row_labels
        return 1 if labels is None else max(1, int(np.diff(labels.indptr).max(initial=0)))

    def listed(self, queries: slice) -> sp.csr_array:
        """(n_queries, n_database), sparse, for a slice of the queries."""
        return self.similarity.take(rows=queries).gains()

    def dense(self, queries: slice) -> Counts:
        """(n_queries, n_database) for a slice of the queries: keep it short."""
        if self.masks is None:
            return np.asarray(self.listed(queries).toarray(), dtype=np.int64)
        of_queries, of_database = self.masks
        numbers = range(*queries.indices(of_queries.shape[1]))
        rows = [shared_labels(of_queries, query, of_database) for query in numbers]
        return np.stack(rows).astype(np.int64)
