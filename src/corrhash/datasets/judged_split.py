"""Judged pairs of a whole dataset, dealt out to its training and to its validation items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corrhash.datasets.base import RetrievalSplit
from corrhash.relevance import Similarity


@dataclass(frozen=True, eq=False)
class JudgedSplit:
    """Who is similar to whom among the items of each part; what crosses parts is left out.

    Parameters
    ----------
    train, validation : judged pairs of two training or of two validation items, in rows of these.
    n_of_queries : how many judged pairs touch a query.
    n_across : how many others are neither of two training nor of two validation items.
    """

    train: Similarity
    validation: Similarity
    n_of_queries: int
    n_across: int


def deal_out(triples: np.ndarray, split: RetrievalSplit) -> JudgedSplit:
    """Deal out (n, 3) triples of image row, text row and 1 or -1, in rows of ``split.pairs``."""
    items = triples[:, :2]
    of_query = np.isin(items, split.query_rows).any(axis=1)
    inside = [
        np.isin(items, rows).all(axis=1) for rows in (split.train_rows, split.validation_rows)
    ]
    return JudgedSplit(
        train=_among(triples[inside[0]], split.train_rows),
        validation=_among(triples[inside[1]], split.validation_rows),
        n_of_queries=int(of_query.sum()),
        n_across=int(np.sum(~(of_query | inside[0] | inside[1]))),
    )


def _among(triples: np.ndarray, rows: np.ndarray) -> Similarity:
    """Judged pairs of some items, told in places among ``rows`` instead of rows of the dataset."""
    order = np.argsort(rows)
    places = order[np.searchsorted(rows, triples[:, :2], sorter=order)]
    return Similarity.from_pairs(np.column_stack([places, triples[:, 2]]), (len(rows), len(rows)))
