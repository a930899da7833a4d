"""Kernel logistic regression on k-means centres: many binary targets, one Gaussian kernel.

The logit of target k for a row x is sum_m k(x, c_m) w_mk, with a Gaussian kernel k and centres c_m
that k-means finds among the training rows. The cost of a prediction depends on the number of
centres, not on the number of training rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp

from corrhash._progress import report
from corrhash.errors import InputError, optional_packages
from corrhash.methods._validation import check_count, check_number, feature_rows
from corrhash.methods.base import Hasher

ITERATIONS = 100
"""Iterations of L-BFGS; twice as many change mAP by at most 0.001."""

BLOCK_SIZE = 4096
"""Rows compared with the centres at a time, to bound memory."""

FLAT = 1e-8
"""Eigenvalues of the kernel between centres below this share of the largest are rounding errors."""


class KernelHasher(Hasher):
    """A method that predicts binary targets of images and texts by kernel logistic regression.

    Attributes
    ----------
    image_centres_, text_centres_ : (n_centres, d) centres of the kernel.
    image_width_, text_width_ : () squared distance at which the kernel has fallen to 1/e.
    image_weights_, text_weights_ : (n_centres, n_targets).
    """

    n_centres: int
    normalize_rows: bool
    seed: int

    image_centres_: np.ndarray
    image_width_: np.ndarray
    image_weights_: np.ndarray
    text_centres_: np.ndarray
    text_width_: np.ndarray
    text_weights_: np.ndarray

    def _fit_kernel(self, values: Any, modality: str) -> tuple[np.ndarray, np.ndarray]:
        """Learn the kernel of one modality and return its (n, r) features F and the map T.

        The penalty w' K0 w of weights w = T v is the sum of squares of v.
        """
        rows = feature_rows(values, f"{modality}s")
        kernel = CentreKernel.fit(
            rows, self.n_centres, normalize_rows=self.normalize_rows, seed=self.seed
        )
        setattr(self, f"{modality}_centres_", kernel.centres)
        setattr(self, f"{modality}_width_", np.array(kernel.width))
        to_weights = kernel.coordinates()
        return kernel.between(rows) @ to_weights, to_weights

    def _logits(self, values: Any, modality: str) -> np.ndarray:
        """Return (n, n_targets) logits."""
        centres, width, weights = (
            getattr(self, f"{modality}_{part}_") for part in ("centres", "width", "weights")
        )
        rows = feature_rows(values, f"{modality}s", centres.shape[1])
        return CentreKernel(centres, float(width), self.normalize_rows).logits(rows, weights)


@dataclass(frozen=True, eq=False)
class CentreKernel:
    """A Gaussian kernel between rows and centres.

    Parameters
    ----------
    centres : (m, d) centres.
    width : squared distance at which the kernel has fallen to 1/e.
    normalize_rows : whether rows are scaled to length 1 first.
    """

    centres: np.ndarray
    width: float
    normalize_rows: bool

    @classmethod
    def fit(cls, rows: Any, n_centres: int, *, normalize_rows: bool, seed: int) -> CentreKernel:
        """Find centres by k-means; the width is the mean squared distance between two rows."""
        rows = _prepare(rows, normalize_rows)
        squares = rows.multiply(rows) if sp.issparse(rows) else np.square(rows)
        mean = np.asarray(rows.mean(axis=0)).ravel()
        width = 2 * float(squares.sum() / rows.shape[0] - mean @ mean)
        if width <= 1e-12 * squares.sum() / rows.shape[0]:
            raise InputError("All rows are equal, so there is nothing to learn. Check the data.")
        return cls(_k_means(rows, n_centres, seed), width, normalize_rows)

    def between(self, rows: Any) -> np.ndarray:
        """Return (n, m) kernel values between rows and centres."""
        return _gaussian(_prepare(rows, self.normalize_rows), self.centres, self.width)

    def coordinates(self) -> np.ndarray:
        """Return the (m, r) map T with T' K0 T = I, for the kernel K0 between centres.

        For weights w = T v, the penalty w' K0 w is the sum of squares of v.
        """
        values, vectors = scipy.linalg.eigh(_gaussian(self.centres, self.centres, self.width))  # K0
        kept = values > FLAT * values[-1]
        return vectors[:, kept] / np.sqrt(values[kept])

    def logits(self, rows: Any, weights: np.ndarray) -> np.ndarray:
        """Return (n, n_targets) logits, computed in blocks of rows."""
        n = rows.shape[0]
        logits = np.empty((n, weights.shape[1]))
        for start in range(0, n, BLOCK_SIZE):
            block = slice(start, start + BLOCK_SIZE)
            logits[block] = self.between(rows[block]) @ weights
        return logits


def logistic_weights(
    features: np.ndarray, signs: np.ndarray, ridge: float, task: str
) -> np.ndarray:
    """Return the (r, n_targets) minimizers v_k of sum_i ln(1 + exp(-s_ik f_i v_k)) + ridge |v_k|².

    L-BFGS solves all targets together; ``task`` is the title of its progress bar.
    """
    shape = features.shape[1], signs.shape[1]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        v = flat.reshape(shape)
        margins = signs * (features @ v)  # (n, n_targets)
        gradient = features.T @ (signs * -scipy.special.expit(-margins)) + 2 * ridge * v
        return np.logaddexp(0, -margins).sum() + ridge * np.square(v).sum(), gradient.ravel()

    done = 0

    def after_step(_: np.ndarray) -> None:
        nonlocal done
        done += 1
        report(task, done, ITERATIONS)

    start = np.zeros(shape).ravel()
    options = {"maxiter": ITERATIONS}
    found = scipy.optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", callback=after_step, options=options
    )
    report(task, ITERATIONS, ITERATIONS)
    return found.x.reshape(shape)


def check_regression(n_centres: Any, ridge: Any) -> None:
    """Raise an error if the parameters of a kernel regression are invalid."""
    check_count("n_centres", n_centres)
    check_number("ridge", ridge, zero=False)


def _k_means(rows: Any, n_centres: int, seed: int) -> np.ndarray:
    """Return (m, d) centres, or all rows if there are no more rows than centres."""
    if n_centres >= rows.shape[0]:
        return rows.toarray() if sp.issparse(rows) else rows
    with optional_packages("Finding the centres"):
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    with warnings.catch_warnings():
        # Duplicate rows can leave centres without a cluster, which is harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(n_centres, n_init=1, random_state=seed).fit(rows).cluster_centers_


def _prepare(rows: Any, normalize_rows: bool) -> Any:
    """Return rows with the 32-bit indices that scikit-learn needs, scaled if requested."""
    if sp.issparse(rows):
        rows = sp.csr_array(rows)
        indices, starts = (part.astype(np.int32) for part in (rows.indices, rows.indptr))
        rows = sp.csr_array((rows.data, indices, starts), shape=rows.shape)
    if not normalize_rows:
        return rows
    lengths = np.sqrt(_squares(rows))
    lengths[lengths == 0] = 1
    if sp.issparse(rows):
        return sp.csr_array(sp.diags_array(1 / lengths) @ rows)
    return rows / lengths[:, None]


def _gaussian(rows: Any, centres: np.ndarray, width: float) -> np.ndarray:
    """Return (n, m) values exp(-|x - c|² / width) for rows x and centres c."""
    distances = _squares(rows)[:, None] - 2 * (rows @ centres.T) + _squares(centres)
    np.maximum(distances, 0, out=distances)  # rounding errors can make them negative
    return np.exp(distances / -width)


def _squares(rows: Any) -> np.ndarray:
    """Return the (n,) squared lengths of rows."""
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)
