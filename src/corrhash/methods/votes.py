"""Votes: what training items say of the code of a query.

Rounding turns a score of nearly 0 into a bit by chance. Where an item is in doubt between several
meanings, chance mixes the bits of their codes into one that is near to none of them. Training items
whose scores are like those of the query have settled codes, and vote bit by bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes

VOTERS = "voters"
"""Their name among the arrays of a model."""

MOST_VOTERS = 20_000
"""So many training items vote at most, images and texts together."""

ROWS_AT_ONCE = 256


def choose_voters(image_scores: NDArray, text_scores: NDArray) -> NDArray[np.float32]:
    """(n, b) scores of training items of both sides; of very many, every so manieth."""
    both = np.concatenate([image_scores, text_scores])
    step = -(-len(both) // MOST_VOTERS)
    return both[::step].astype(np.float32)


def voted_codes(scores: NDArray, voters: NDArray, n_votes: int) -> Codes:
    """Each bit as most of the ``n_votes`` nearest voters have it, by the cosine of the scores.

    The query's own bit decides where they are of two minds.

    >>> voters = np.array([[0.9, 0.8], [0.8, 0.9], [-0.9, -0.9]])
    >>> voted_codes(np.array([[0.7, -0.1]]), voters, n_votes=2).signs()
    array([[1, 1]], dtype=int8)
    """
    signs = np.where(voters > 0, 1, -1).astype(np.int32)  # (n_voters, b)
    n_votes = min(n_votes, len(voters))
    across = _unit_rows(voters).T  # (b, n_voters)
    votes = np.empty(scores.shape, dtype=np.float64)
    for start in range(0, len(scores), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        cosines = _unit_rows(scores[rows]) @ across  # (rows, n_voters)
        nearest = np.argpartition(-cosines, n_votes - 1, axis=1)[:, :n_votes]
        votes[rows] = signs[nearest].sum(axis=1)
    own = np.where(scores > 0, 0.5, -0.5)
    return Codes.from_scores(votes + own)


def _unit_rows(values: NDArray) -> NDArray:
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.maximum(lengths, np.finfo(np.float32).tiny)
