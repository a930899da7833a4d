"""Cross-view hashing: linear projections in which the two sides of a pair agree.

With the pairing alone as similarity, the relaxed problem of the paper is canonical correlation
analysis: among directions of unit variance, find those in which images and texts correlate most.

In the paper's letters: X images and Y texts, centred, n pairs; C the covariances, A_x and A_y the
projections, rho the correlations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky, solve_triangular, svd

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.base import Hasher, feature_rows


class CVH(Hasher):
    """Cross-view hashing, unsupervised and linear (Kumar & Udupa, IJCAI 2011).

    Needs aligned pairs of feature vectors and tag occurrences; labels are not used. Relatives: IMH
    adds neighbourhoods within each side, SCM puts labels in place of the pairing. Later canonical
    directions are mostly noise yet weigh as much as early ones, so codes get worse beyond some 16
    bits.

    Costs O(n d^2 + d^3) time and O(d^2) memory for d columns; sparse texts stay sparse.

    Parameters
    ----------
    n_bits : length of the codes; at most the smaller number of (varying) columns.
    eps : ridge on both covariances, relative to their mean eigenvalue. Grid: 1e-3, 1e-2, 0.1, 1.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) means of the training columns.
    image_projection_, text_projection_ : (d, n_bits), the paper's A_x and A_y.
    correlations_ : (n_bits,) canonical correlations on the training pairs, largest first.

    References
    ----------
    Shaishav Kumar and Raghavendra Udupa. Learning hash functions for cross-view similarity search.
    IJCAI 2011.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(600)
    >>> hasher = CVH(n_bits=16).fit(pairs)
    >>> hasher.encode_text(pairs.texts)
    Codes(600 codes of 16 bits)
    """

    needs_labels = False

    image_mean_: np.ndarray
    text_mean_: np.ndarray
    image_projection_: np.ndarray
    text_projection_: np.ndarray
    correlations_: np.ndarray

    def __init__(self, n_bits: int = 16, *, eps: float = 0.1) -> None:
        self.n_bits = n_bits
        self.eps = eps

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        images = feature_rows(pairs.images, "images")
        texts = feature_rows(pairs.texts, "texts")
        self._check_size(images, texts)
        self.image_mean_, self.text_mean_ = column_means(images), column_means(texts)
        image_root = regularised_root(covariance(images, images), self.eps)  # C_xx = R_x R_x^T
        text_root = regularised_root(covariance(texts, texts), self.eps)  # C_yy = R_y R_y^T
        # T = R_x^-1 C_xy R_y^-T: the cross-covariance of whitened images and texts.
        half = solve_triangular(image_root, covariance(images, texts), lower=True)
        whitened = solve_triangular(text_root, half.T, lower=True).T
        left, rho, right = svd(whitened, full_matrices=False)  # both signs from one SVD
        bits = slice(None, self.n_bits)
        self.correlations_ = rho[bits]
        self.image_projection_ = solve_triangular(image_root.T, left[:, bits])  # A_x
        self.text_projection_ = solve_triangular(text_root.T, right.T[:, bits])  # A_y

    def _check_size(self, images: Any, texts: Any) -> None:
        most = min(images.shape[0] - 1, images.shape[1], texts.shape[1])
        if self.n_bits > most:
            raise InputError(
                f"CVH finds at most {most} bits in {images.shape[0]} pairs of {images.shape[1]} "
                f"and {texts.shape[1]} columns. Got n_bits={self.n_bits}. Reduce n_bits."
            )
        if not isinstance(self.eps, (int, float, np.number)) or not 0 < self.eps < np.inf:
            raise InputError(f"eps must be a number above 0. Got {self.eps!r}. The default is 0.1.")

    def _score_image(self, images: Any) -> np.ndarray:
        images = feature_rows(images, "images", len(self.image_mean_))
        return project(images, self.image_mean_, self.image_projection_)

    def _score_text(self, texts: Any) -> np.ndarray:
        texts = feature_rows(texts, "texts", len(self.text_mean_))
        return project(texts, self.text_mean_, self.text_projection_)


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
    size = len(matrix)
    mean = np.trace(matrix) / size
    if mean <= 0:
        raise InputError("All columns are constant, so there is nothing to learn. Check the data.")
    return cholesky(matrix + eps * mean * np.eye(size), lower=True)


def project(table: Any, mean: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """(n, n_bits) projections of the centred rows."""
    return np.asarray(table @ projection) - mean @ projection
