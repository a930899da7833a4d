"""The leading singular vectors of a matrix, without its whole decomposition."""

from __future__ import annotations

import numpy as np
from scipy.linalg import svd
from scipy.sparse.linalg import svds

SMALL = 8
"""Matrices with so few rows or columns are decomposed as a whole: Lanczos needs some more."""


def leading_pair(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The left and the right singular vector of the largest singular value.

    Of the two signs that such a pair may have, that which makes the largest entry of the left one
    positive.
    """
    size = min(matrix.shape)
    if size <= SMALL or not matrix.any():
        left, _, right = svd(matrix, full_matrices=False)
    else:
        start = np.random.default_rng(0).standard_normal(size)  # the same answer every time
        left, _, right = svds(matrix, k=1, v0=start)
    u, v = left[:, 0], right[0]
    sign = np.sign(u[abs(u).argmax()])
    return sign * u, sign * v
