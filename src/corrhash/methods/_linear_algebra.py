"""Linear algebra that methods share: projections, ridge regression, whitening and neighbour graphs.

Tables of features are dense or sparse (n, d) matrices. They are centred implicitly, so that sparse
ones stay sparse.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp

from corrhash.errors import InputError, optional_packages
from corrhash.methods._validation import check_count, check_number, feature_rows
from corrhash.methods.base import Hasher

SMALL = 8
"""Matrices with at most this many rows or columns get a full SVD, which Lanczos cannot handle."""

DIGITS = 9
"""Cosines that agree to this many digits are ties, so that results do not depend on the batch."""

BLOCK_SIZE = 512
"""Rows compared with all reference rows at a time, to bound memory."""


class LinearHasher(Hasher):
    """A method that learns one linear projection of images and one of texts.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) column means of the training data.
    image_projection_, text_projection_ : (d, n_bits), one column per bit.
    """

    image_mean_: np.ndarray
    text_mean_: np.ndarray
    image_projection_: np.ndarray
    text_projection_: np.ndarray

    def _embed_image(self, images: Any) -> np.ndarray:
        images = feature_rows(images, "images", len(self.image_mean_), convert=False)
        return project(images, self.image_mean_, self.image_projection_)

    def _embed_text(self, texts: Any) -> np.ndarray:
        texts = feature_rows(texts, "texts", len(self.text_mean_), convert=False)
        return project(texts, self.text_mean_, self.text_projection_)


def project(table: Any, mean: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """Return (n, k) projections of the centred rows, which a float64 projection converts."""
    return np.asarray(table @ projection) - mean @ projection


def column_means(table: Any) -> np.ndarray:
    """Return the (d,) means of the columns."""
    return np.asarray(table.mean(axis=0), dtype=np.float64).ravel()


def covariance(left: Any, right: Any) -> np.ndarray:
    """Return the (d_left, d_right) covariance of two tables with n rows each."""
    n = left.shape[0]
    product = left.T @ right
    product = product.toarray() if sp.issparse(product) else np.asarray(product)
    return product / n - np.outer(column_means(left), column_means(right))


def regularized_cholesky(matrix: np.ndarray, ridge: float) -> np.ndarray:
    """Return the lower Cholesky factor of ``matrix + ridge * (mean eigenvalue) * I``."""
    check_number("ridge", ridge, zero=False)
    check_varying(matrix)
    mean = np.trace(matrix) / len(matrix)
    return scipy.linalg.cholesky(matrix + ridge * mean * np.eye(len(matrix)), lower=True)


def check_varying(matrix: np.ndarray) -> None:
    """Raise an error if ``matrix`` is the covariance of constant columns."""
    if np.trace(matrix) <= 0:
        raise InputError("All columns are constant, so there is nothing to learn. Check the data.")


def leading_singular_vectors(*factors: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the left and the right singular vector of the largest singular value of a product.

    The product of the matrices is computed only if it is small. The common sign of the vectors
    makes the largest entry of the left one positive.
    """
    shape = factors[0].shape[0], factors[-1].shape[1]
    if min(shape) <= SMALL:
        left, _, right = scipy.linalg.svd(reduce(operator.matmul, factors), full_matrices=False)
    else:
        from scipy.sparse.linalg import LinearOperator, svds

        def times(vector: np.ndarray) -> np.ndarray:
            return reduce(lambda found, factor: factor @ found, reversed(factors), vector)

        def transposed_times(vector: np.ndarray) -> np.ndarray:
            return reduce(lambda found, factor: factor.T @ found, factors, vector)

        product = LinearOperator(shape, matvec=times, rmatvec=transposed_times, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(min(shape))  # for reproducible results
        if not product.matvec(np.resize(start, shape[1])).any():  # zero: any vectors will do
            return np.eye(1, shape[0])[0], np.eye(1, shape[1])[0]
        left, _, right = svds(product, k=1, v0=start)
    u, v = left[:, 0], right[0]
    sign = np.sign(u[abs(u).argmax()])
    return sign * u, sign * v


class RidgeRegression:
    """Ridge regression from one table to any number of targets, factorized once.

    Symbols: X the centred table, F the targets, W the weights and β the ridge.

    Parameters
    ----------
    table : (n, d) features.
    ridge : β relative to the mean eigenvalue of X^T X.
    """

    def __init__(self, table: Any, ridge: float) -> None:
        self.table = table
        self.mean = column_means(table)
        # R R^T = (X^T X + β I) / n
        self._cholesky = regularized_cholesky(covariance(table, table), ridge)

    def weights(self, targets: np.ndarray) -> np.ndarray:
        """Return W = (X^T X + β I)^-1 X^T F, for targets of shape (n, k) or (n,)."""
        products = self.table.T @ targets - np.multiply.outer(self.mean, targets.sum(axis=0))
        return scipy.linalg.cho_solve((self._cholesky, True), products) / len(targets)

    def predict(self, targets: np.ndarray) -> np.ndarray:
        """Return X W, the predictions of the targets on the training rows."""
        return project(self.table, self.mean, self.weights(targets))


class Whitened:
    """One modality of the training pairs, centred and whitened with a ridge.

    Symbols: X the centred table of n rows and R R^T = X^T X / n plus the ridge. The whitened table
    X R^-T is never formed.

    Parameters
    ----------
    table : (n, d) features.
    ridge : relative to the mean eigenvalue of the covariance.
    """

    def __init__(self, table: Any, ridge: float) -> None:
        self.table = table
        self.mean = column_means(table)
        self.cholesky = regularized_cholesky(covariance(table, table), ridge)  # R

    def covariance(self, values: Any) -> np.ndarray:
        """Return the (d, k) covariance of the whitened table with (n, k) values."""
        return scipy.linalg.solve_triangular(
            self.cholesky, covariance(self.table, values), lower=True
        )

    def projection(self, directions: np.ndarray) -> np.ndarray:
        """Return the (d, k) projection R^-T U of raw features, for (d, k) whitened directions U."""
        return scipy.linalg.solve_triangular(self.cholesky.T, directions)

    def signs(self, direction: np.ndarray) -> np.ndarray:
        """Return the (n, 1) bits, +1 or -1, of the training items along a (d,) direction."""
        projected = project(self.table, self.mean, self.projection(direction[:, None]))
        return np.where(projected > 0, 1.0, -1.0)


def cross_covariance(image: Whitened, text: Whitened) -> np.ndarray:
    """Return the (d_image, d_text) covariance of whitened images and texts, R_x^-1 C_xy R_y^-T."""
    half = image.covariance(text.table)
    return scipy.linalg.solve_triangular(text.cholesky, half.T, lower=True).T


def check_n_directions(method: str, n_bits: int, images: Any, texts: Any) -> None:
    """Raise an error if there are fewer uncorrelated directions than bits."""
    most = min(images.shape[0] - 1, images.shape[1], texts.shape[1])
    if n_bits > most:
        raise InputError(
            f"{method} finds at most {most} bits in {images.shape[0]} pairs with "
            f"{images.shape[1]} image and {texts.shape[1]} text features, got n_bits={n_bits}. "
            "Reduce n_bits."
        )


def unit_rows(table: Any, mean: np.ndarray) -> np.ndarray:
    """Return the (n, d) centred rows scaled to length 1; a row equal to the mean becomes 0."""
    rows = (table.toarray() if sp.issparse(table) else table) - mean
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.where(lengths > 0, lengths, 1)[:, None]
    return rows


def neighbour_graph(rows: np.ndarray, n_neighbours: int) -> sp.csr_array:
    """Return the (n, n) directed graph with an edge of 1 from each row to its nearest others."""
    check_count("n_neighbours", n_neighbours)
    if n_neighbours >= len(rows):
        raise InputError(
            f"n_neighbours must be below the number of pairs, {len(rows)}, got {n_neighbours}. "
            "Reduce it or add pairs."
        )
    with optional_packages("A nearest-neighbour graph"):
        from sklearn.neighbors import NearestNeighbors
    nearest = NearestNeighbors(n_neighbors=n_neighbours, algorithm="brute").fit(rows)
    return sp.csr_array(nearest.kneighbors_graph())


def neighbour_laplacian(rows: np.ndarray, n_neighbours: int) -> sp.csr_array:
    """Return the (n, n) Laplacian of the symmetrized neighbour graph.

    Mutual neighbours are joined with weight 1, others with weight 1/2. The matrix is divided by
    the number of neighbours, so that its scale does not depend on it.
    """
    from scipy.sparse.csgraph import laplacian

    graph = neighbour_graph(rows, n_neighbours)
    return sp.csr_array(laplacian((graph + graph.T) / 2)) / n_neighbours


def neighbour_sums(
    rows: np.ndarray, reference: np.ndarray, codes: np.ndarray, n_neighbours: int
) -> np.ndarray:
    """Return (n, n_bits) sums of the codes of each row's nearest neighbours, weighted by cosine.

    Parameters
    ----------
    rows : (n, d) rows of length 1.
    reference : (m, d) rows of length 1 among which neighbours are searched.
    codes : (m, n_bits) codes of the reference rows.
    n_neighbours : how many neighbours count. Neighbours that tie for the last places share them.
    """
    sums = np.empty((len(rows), codes.shape[1]))
    for start in range(0, len(rows), BLOCK_SIZE):
        block = slice(start, start + BLOCK_SIZE)
        sums[block] = _neighbour_weights(rows[block] @ reference.T, n_neighbours) @ codes
    return np.round(sums, DIGITS)  # a sum of 0 is 0 in whatever order it was added up


def _neighbour_weights(cosines: np.ndarray, n_neighbours: int) -> np.ndarray:
    """Return (n, m) weights: the cosines of the nearest neighbours, and 0 elsewhere."""
    cosines = np.round(cosines, DIGITS)
    n_neighbours = min(n_neighbours, cosines.shape[1])
    last = -np.partition(-cosines, n_neighbours - 1, axis=1)[:, n_neighbours - 1 : n_neighbours]
    nearer, tied = cosines > last, cosines == last
    left = n_neighbours - nearer.sum(axis=1, keepdims=True)  # places that tied ones share
    share = left / tied.sum(axis=1, keepdims=True)
    return (nearer + share * tied) * np.maximum(cosines, 0.001)
