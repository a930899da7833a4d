"""Whitened: one side of the training pairs, at unit variance in all directions.

No whitened copy of the table is made, so that sparse tables stay sparse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from corrhash.errors import InputError
from corrhash.methods.covariance import column_means, covariance, project, regularised_root


class Whitened:
    """The images or the texts of the training pairs, centred and whitened with a ridge.

    In letters: X the centred table of n rows, R R^T = X^T X / n plus the ridge; the whitened table
    is X R^-T.

    Parameters
    ----------
    table : (n, d) features, dense or sparse.
    eps : the ridge, relative to the mean eigenvalue of the covariance.
    """

    def __init__(self, table: Any, eps: float) -> None:
        self.table = table
        self.mean = column_means(table)
        self.root = regularised_root(covariance(table, table), eps)  # R

    def covariance(self, values: Any) -> np.ndarray:
        """(d, k) covariance of the whitened table with the columns of ``values``, (n, k)."""
        return solve_triangular(self.root, covariance(self.table, values), lower=True)

    def projection(self, directions: np.ndarray) -> np.ndarray:
        """(d, k) projections of raw columns that give those of whitened ones: R^-T U."""
        return solve_triangular(self.root.T, directions)

    def signs(self, direction: np.ndarray) -> np.ndarray:
        """(n, 1) the bit +1 or -1 of each training item along a direction, (d,)."""
        scores = project(self.table, self.mean, self.projection(direction[:, None]))
        return np.where(scores > 0, 1.0, -1.0)


def cross_covariance(image: Whitened, text: Whitened) -> np.ndarray:
    """(d_image, d_text) R_x^-1 C_xy R_y^-T: the covariance of whitened images and texts."""
    half = image.covariance(text.table)
    return solve_triangular(text.root, half.T, lower=True).T


def check_n_directions(method: str, n_bits: int, images: Any, texts: Any) -> None:
    """Directions that are orthogonal on both sides are limited in number."""
    most = min(images.shape[0] - 1, images.shape[1], texts.shape[1])
    if n_bits > most:
        raise InputError(
            f"{method} finds at most {most} bits in {images.shape[0]} pairs of {images.shape[1]} "
            f"and {texts.shape[1]} columns. Got n_bits={n_bits}. Reduce n_bits."
        )
