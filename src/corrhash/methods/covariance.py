"""Means, covariances and their roots, of dense and of sparse tables, which stay sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky

from corrhash.errors import InputError
from corrhash.methods.setting_checks import check_number


def column_means(table: Any) -> np.ndarray:
    """(d,) the means of the columns of a dense or sparse table."""
    return np.asarray(table.mean(axis=0), dtype=np.float64).ravel()


def covariance(left: Any, right: Any) -> np.ndarray:
    """(d_left, d_right) covariance of two tables with n rows each; sparse ones stay sparse."""
    n = left.shape[0]
    product = left.T @ right
    product = product.toarray() if sp.issparse(product) else np.asarray(product)
    return product / n - np.outer(column_means(left), column_means(right))


def regularised_root(matrix: np.ndarray, eps: float) -> np.ndarray:
    """The lower Cholesky factor of ``matrix + eps * (mean eigenvalue) * I``."""
    check_number("eps", eps, zero=False)
    check_varying(matrix)
    mean = np.trace(matrix) / len(matrix)
    return cholesky(matrix + eps * mean * np.eye(len(matrix)), lower=True)


def check_varying(matrix: np.ndarray) -> None:
    """A covariance of columns that are all constant teaches nothing."""
    if np.trace(matrix) <= 0:
        raise InputError("All columns are constant, so there is nothing to learn. Check the data.")


def project(table: Any, mean: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """(n, k) projections of the centred rows."""
    return np.asarray(table @ projection) - mean @ projection
