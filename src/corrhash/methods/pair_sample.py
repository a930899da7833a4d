"""PairSample: similar and dissimilar pairs of images and texts, drawn evenly from all there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from corrhash.errors import InputError
from corrhash.relevance import Similarity

LARGEST_SHARE = 0.999
"""Of similar pairs: dissimilar ones are found by trial, which takes ever longer beyond."""


@dataclass(frozen=True, eq=False)
class PairSample:
    """Pairs (i, j, s): row i of the images, row j of the texts, s = +1 or -1.

    Parameters
    ----------
    images, texts : (n,) rows.
    similarity : (n,) of +1 and -1.
    shape : number of images and of texts there are.
    """

    images: np.ndarray
    texts: np.ndarray
    similarity: np.ndarray
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.similarity)

    def matrix(self, values: np.ndarray) -> sp.csr_array:
        """(n_images, n_texts), sparse: the values of the pairs in their places."""
        return sp.csr_array((values, (self.images, self.texts)), shape=self.shape)


def draw_pairs(relation: Similarity, n_each: int, rng: np.random.Generator) -> PairSample:
    """``n_each`` similar and as many dissimilar pairs, each drawn from all of its kind."""
    if relation.judged is not None:
        similar, dissimilar = (_draw_judged(relation.judged, s, n_each, rng) for s in (1, -1))
    else:
        _check_share(relation.share_similar)
        similar = _until_enough(_similar_pairs(relation, n_each, rng), n_each)
        dissimilar = _until_enough(_dissimilar_pairs(relation, n_each, rng), n_each)
    images, texts = np.hstack([similar, dissimilar])
    return PairSample(images, texts, np.repeat([1.0, -1.0], n_each), relation.shape)


def _draw_judged(judged: sp.csr_array, sign: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """(2, n) rows and columns."""
    known = judged.tocoo()
    chosen = rng.choice(np.flatnonzero(known.data == sign), n)
    return np.stack([known.row[chosen], known.col[chosen]])


def _check_share(share: float) -> None:
    if share > LARGEST_SHARE:
        raise InputError(
            f"{share:.3%} of the pairs are similar, which leaves too few dissimilar ones to learn "
            "from. Leave out labels that nearly every item carries."
        )


def _similar_pairs(
    relation: Similarity, n: int, rng: np.random.Generator
) -> Callable[[], np.ndarray]:
    """Draws of a label and two of its carriers.

    A pair that shares several labels is drawn by each of them, so it is kept once in so many times.
    """
    assert relation.row_labels is not None
    assert relation.column_labels is not None
    rows, columns = relation.row_labels.tocsc(), relation.column_labels.tocsc()
    n_rows, n_columns = np.diff(rows.indptr), np.diff(columns.indptr)
    n_pairs = n_rows.astype(np.float64) * n_columns
    chances = n_pairs / n_pairs.sum()

    def draw() -> np.ndarray:
        label = rng.choice(len(chances), n, p=chances)
        i = rows.indices[rows.indptr[label] + rng.integers(n_rows[label])]
        j = columns.indices[columns.indptr[label] + rng.integers(n_columns[label])]
        kept = rng.random(n) * _n_shared(relation, i, j) < 1
        return np.stack([i[kept], j[kept]])

    return draw


def _dissimilar_pairs(
    relation: Similarity, n: int, rng: np.random.Generator
) -> Callable[[], np.ndarray]:
    """Draws of any two, kept if they share no label."""

    def draw() -> np.ndarray:
        i, j = (rng.integers(size, size=n) for size in relation.shape)
        kept = _n_shared(relation, i, j) == 0
        return np.stack([i[kept], j[kept]])

    return draw


def _n_shared(relation: Similarity, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """(n,) how many labels image i and text j share."""
    assert relation.row_labels is not None
    assert relation.column_labels is not None
    both = relation.row_labels[i].multiply(relation.column_labels[j])
    return np.asarray(both.sum(axis=1)).ravel()


def _until_enough(draw: Callable[[], np.ndarray], n: int) -> np.ndarray:
    """(2, n) the first n pairs of as many draws as it takes."""
    parts = [draw()]
    while sum(part.shape[1] for part in parts) < n:
        parts.append(draw())
    return np.hstack(parts)[:, :n]
