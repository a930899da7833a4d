"""Votes: what training items say of the code of a query.

Rounding turns a score of nearly 0 into a bit by chance. Where an item is in doubt between several
meanings, chance mixes the bits of their codes into one that is near to none of them. Training items
whose scores are like those of the query have settled codes, and vote bit by bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.methods.neighbours import neighbour_vote, unit_rows

VOTERS = "voters"
"""Their name among the arrays of a model."""

MOST_VOTERS = 20_000
"""So many training items vote at most, images and texts together."""

OWN_SAY = 1e-10
"""What the bit of the query itself weighs: it decides where the others are of two minds."""


def choose_voters(image_scores: NDArray, text_scores: NDArray) -> NDArray[np.float32]:
    """(n, b) scores of training items of both sides; of very many, every so manieth."""
    both = np.concatenate([image_scores, text_scores])
    step = -(-len(both) // MOST_VOTERS)
    return both[::step].astype(np.float32)


def voted_codes(scores: NDArray, voters: NDArray, n_votes: int) -> Codes:
    """Each bit as most of the ``n_votes`` nearest voters have it, weighed by the cosine of scores.

    >>> voters = np.array([[0.9, 0.8], [0.8, 0.9], [-0.9, -0.9]])
    >>> voted_codes(np.array([[0.7, -0.1]]), voters, n_votes=2).signs()
    array([[1, 1]], dtype=int8)
    """
    centre = np.zeros(scores.shape[1])
    signs = np.where(voters > 0, 1.0, -1.0)  # (n_voters, b)
    votes = neighbour_vote(unit_rows(scores, centre), unit_rows(voters, centre), signs, n_votes)
    return Codes.from_scores(votes + OWN_SAY * np.where(scores > 0, 1, -1))
