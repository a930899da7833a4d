"""Kernel logistic regression on a few centres: many yes-or-no questions asked of one table.

The answer to question k about a row x is the sign of sum_m k(x, c_m) w_mk, with a Gaussian kernel
k and centres c_m that k-means finds among the training rows; no more centres than that are ever
compared, however many rows there are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import normalize

from corrhash.errors import InputError
from corrhash.progress import report

ITERATIONS = 100
"""Steps of L-BFGS; twice as many changed no MAP by more than .001."""

ROWS_AT_ONCE = 4096
"""Rows are compared with the centres in blocks, so that little is held beside the answers."""

FLAT = 1e-8
"""Directions of the centres' kernel below this share of its largest carry rounding errors only."""


@dataclass(frozen=True, eq=False)
class CentreKernel:
    """Gaussian kernel values between rows and centres.

    Parameters
    ----------
    centres : (m, d) points in the space of the rows.
    width : the squared distance at which the kernel has fallen to 1/e.
    unit_rows : whether rows are first scaled to length 1.
    """

    centres: np.ndarray
    width: float
    unit_rows: bool

    @classmethod
    def learn(cls, rows: Any, n_centres: int, *, unit_rows: bool, seed: int) -> CentreKernel:
        """Centres by k-means; the width is the mean squared distance between two rows."""
        rows = _prepared(rows, unit_rows)
        squares = rows.multiply(rows) if sp.issparse(rows) else np.square(rows)
        mean = np.asarray(rows.mean(axis=0)).ravel()
        width = 2 * float(squares.sum() / rows.shape[0] - mean @ mean)
        if width <= 1e-12 * squares.sum() / rows.shape[0]:
            raise InputError("All rows are alike, so there is nothing to learn. Check the data.")
        return cls(_k_means(rows, n_centres, seed), width, unit_rows)

    def between(self, rows: Any) -> np.ndarray:
        """(n, m) kernel values of rows and centres."""
        return rbf_kernel(_prepared(rows, self.unit_rows), self.centres, gamma=1 / self.width)

    def coordinates(self) -> np.ndarray:
        """(m, r) map T after which w' K0 w is a plain sum of squares: w = T v and T' K0 T = I."""
        values, vectors = eigh(rbf_kernel(self.centres, gamma=1 / self.width))  # K0
        kept = values > FLAT * values[-1]
        return vectors[:, kept] / np.sqrt(values[kept])

    def answers(self, rows: Any, weights: np.ndarray) -> np.ndarray:
        """(n, n_questions) log-odds of yes, computed in blocks."""
        n = rows.shape[0]
        answers = np.empty((n, weights.shape[1]))
        for start in range(0, n, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            answers[part] = self.between(rows[part]) @ weights
        return answers


def logistic_weights(
    features: np.ndarray, signs: np.ndarray, ridge: float, task: str
) -> np.ndarray:
    """(r, n_questions) the v_k that minimise sum_i ln(1 + exp(-s_ik f_i v_k)) + ridge |v_k|^2.

    All questions are solved together by L-BFGS; ``task`` names the work in progress reports.
    """
    shape = features.shape[1], signs.shape[1]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        v = flat.reshape(shape)
        margins = signs * (features @ v)  # (n, n_questions)
        slopes = features.T @ (signs * -expit(-margins)) + 2 * ridge * v
        return np.logaddexp(0, -margins).sum() + ridge * np.square(v).sum(), slopes.ravel()

    done = 0

    def after_step(_: np.ndarray) -> None:
        nonlocal done
        done += 1
        report(task, done, ITERATIONS)

    start = np.zeros(shape).ravel()
    options = {"maxiter": ITERATIONS}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", callback=after_step, options=options)
    report(task, ITERATIONS, ITERATIONS)
    return found.x.reshape(shape)


def check_regression(n_centres: Any, ridge: Any) -> None:
    """Refuse settings with which no regression could be made."""
    if not isinstance(n_centres, (int, np.integer)) or n_centres < 1:
        raise InputError(f"n_centres must be a whole number above 0. Got {n_centres!r}.")
    if not isinstance(ridge, (int, float, np.number)) or not 0 < ridge < np.inf:
        raise InputError(f"ridge must be a number above 0. Got {ridge!r}. Try 0.03.")


def _k_means(rows: Any, n_centres: int, seed: int) -> np.ndarray:
    """(m, d) centres; the rows themselves where there are no more of them."""
    if n_centres >= rows.shape[0]:
        return rows.toarray() if sp.issparse(rows) else rows
    with warnings.catch_warnings():
        # Rows that occur often leave centres without a cluster of their own: these do no harm.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(n_centres, n_init=1, random_state=seed).fit(rows).cluster_centers_


def _prepared(rows: Any, unit_rows: bool) -> Any:
    """Rows as scikit-learn takes them, scaled to length 1 where that is wanted."""
    if sp.issparse(rows):
        rows = sp.csr_array(rows)
        indices, starts = (part.astype(np.int32) for part in (rows.indices, rows.indptr))
        rows = sp.csr_array((rows.data, indices, starts), shape=rows.shape)
    return normalize(rows) if unit_rows else rows
