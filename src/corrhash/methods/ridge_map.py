"""RidgeMap: the linear map that predicts codes from one side of the training pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from corrhash.methods.covariance import column_means, covariance, project, regularised_root


class RidgeMap:
    """Ridge regression from centred columns to codes, factored once for all codes.

    In letters: X the centred table of n rows, β the ridge, W the weights, F the codes.

    Parameters
    ----------
    table : (n, d) features, dense or sparse; sparse ones stay sparse.
    ridge : β relative to the mean eigenvalue of X^T X.
    """

    def __init__(self, table: Any, ridge: float) -> None:
        self.table = table
        self.mean = column_means(table)
        self._root = regularised_root(covariance(table, table), ridge)  # R R^T = (X^T X + β I) / n

    def weights(self, codes: np.ndarray) -> np.ndarray:
        """W = (X^T X + β I)^-1 X^T F, for (n, n_bits) codes or a single (n,) bit."""
        products = self.table.T @ codes - np.multiply.outer(self.mean, codes.sum(axis=0))
        return cho_solve((self._root, True), products) / len(codes)

    def predict(self, codes: np.ndarray) -> np.ndarray:
        """X W: the codes as far as this side can tell them."""
        return project(self.table, self.mean, self.weights(codes))
