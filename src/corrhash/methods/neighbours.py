"""Nearest neighbours within one side: the graph that joins them, and their vote on new items."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import laplacian
from sklearn.neighbors import NearestNeighbors

from corrhash.errors import InputError
from corrhash.methods.setting_checks import check_count

DIGITS = 9
"""Cosines that agree to so many digits are ties, however the items were batched."""

ROWS_AT_ONCE = 512
"""New items are compared with all training items in blocks, so that little memory is held."""


def unit_rows(table: Any, mean: np.ndarray) -> np.ndarray:
    """(n, d) the centred rows at length 1, so that inner products are cosines.

    A row that equals the mean stays 0. Dense and sparse tables give the same numbers.
    """
    rows = (table.toarray() if sp.issparse(table) else table) - mean
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.where(lengths > 0, lengths, 1)[:, None]
    return rows


def neighbour_names(rows: np.ndarray, n_neighbours: int) -> sp.csr_array:
    """(n, n) sparse table, 1 where a row names another one as one of its nearest, never itself."""
    check_count("n_neighbours", n_neighbours)
    if n_neighbours >= len(rows):
        raise InputError(
            f"n_neighbours must be below the number of pairs, {len(rows)}. Got {n_neighbours}. "
            "Reduce it, or give more pairs."
        )
    nearest = NearestNeighbors(n_neighbors=n_neighbours, algorithm="brute").fit(rows)
    return sp.csr_array(nearest.kneighbors_graph())


def neighbour_laplacian(rows: np.ndarray, n_neighbours: int) -> sp.csr_array:
    """(n, n) sparse Laplacian of the graph that joins each row to its nearest ones.

    An edge weighs 1 where two rows name each other and 1/2 where one names the other. The matrix is
    divided by the number of neighbours, so that its weight in a sum does not depend on it.
    """
    names = neighbour_names(rows, n_neighbours)
    return sp.csr_array(laplacian((names + names.T) / 2)) / n_neighbours


def neighbour_vote(
    rows: np.ndarray, voters: np.ndarray, codes: np.ndarray, n_voters: int
) -> np.ndarray:
    """(n, n_bits) for each row the sum of its nearest voters' codes, weighted by cosine.

    ``rows`` and ``voters`` have length 1. Voters that tie for the last places share them.
    """
    votes = np.empty((len(rows), codes.shape[1]))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        votes[block] = _weights(rows[block] @ voters.T, n_voters) @ codes
    return np.round(votes, DIGITS)  # a vote of 0 is 0, in whatever order it was added up


def _weights(cosines: np.ndarray, n_voters: int) -> np.ndarray:
    """(n, n_training) the weights of votes: cosines of the nearest, 0 for all others."""
    cosines = np.round(cosines, DIGITS)
    n_voters = min(n_voters, cosines.shape[1])
    last = -np.partition(-cosines, n_voters - 1, axis=1)[:, n_voters - 1 : n_voters]
    inside, tied = cosines > last, cosines == last
    places = (n_voters - inside.sum(axis=1, keepdims=True)) / tied.sum(axis=1, keepdims=True)
    return (inside + places * tied) * np.maximum(cosines, 0.001)
