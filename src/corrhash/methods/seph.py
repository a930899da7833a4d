"""Semantics-preserving hashing: codes that keep the labels' affinities, then functions onto them.

First every training pair gets a code: as in t-SNE, affinities of labels and affinities of codes
are two distributions over pairs of items, and the codes make the second like the first. Then
kernel logistic regression learns, for images and for texts, to predict each bit.

In the paper's letters: P the affinities of labels, Q those of codes, H the relaxed codes, d their
halved distances (Hamming distances, for codes of ±1), Psi what is minimised, alpha the weight of
its quantization term.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import logit
from sklearn.preprocessing import normalize

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.kernel_hasher import KernelHasher
from corrhash.methods.kernel_logistic import check_regression, logistic_weights
from corrhash.progress import report

ITERATIONS = 100
START = 1e-4  # deviation of the first H
MOMENTUM = 0.5
STEP = 500.0
STEP_PAIRS = 4000  # gradients shrink as 1/n, so that the step is STEP at so many pairs
SMALLEST_GAIN = 0.01

ROWS_AT_ONCE = 256
"""Rows of the n x n affinities that are held at a time."""


class SePH(KernelHasher):
    """Semantics-preserving hashing, supervised, with kernels (Lin et al., CVPR 2015).

    Needs labels and aligned pairs of feature vectors and tag occurrences; pairs without any label
    are left out. Relatives: SCM fits inner products of linear codes to the same label cosines; the
    classifier code asks the same regression for labels in place of learned bits. A query and an
    item of the database are encoded from one side each; the paper's codes of items whose image and
    text are both at hand are :meth:`encode_both`.

    Costs O(n^2 (n_bits + n_classes)) time and O(n) memory for the codes (affinities are computed
    in blocks, never held), then O(n n_centres (d + n_bits)) time and O(n (d + n_centres)) memory
    for the functions: at 10,500 pairs of 4,096 and 1,000 columns some minutes and 2 GB. Beyond
    some 20,000 pairs set ``max_pairs``.

    Parameters
    ----------
    n_bits : length of the codes.
    alpha : weight of the quantization term. Try: 1e-3, 1e-2, 0.1; published: 0.01.
    n_centres : centres of the kernel regression, found by k-means. Try: 300, 500, 1000.
    ridge : weight of the penalty of the regression. Try: 0.01, 0.03, 0.1.
    unit_rows : beyond the paper, scale features and tags to length 1 before they are compared.
    max_pairs : learn from so many pairs at most, drawn at random; None takes all.
    seed : of the first codes, of k-means and of the draw.

    Attributes
    ----------
    objective_ : (101,) what the codes minimise, Psi up to a constant, at each iterate.
    shares_ : (n_bits,) share of +1 in each bit of the training codes. A bit near 0 or 1 is
        predicted as constant.
    image_centres_, text_centres_ : (n_centres, d).
    image_width_, text_width_ : () squared distance at which the kernel has fallen to 1/e.
    image_weights_, text_weights_ : (n_centres, n_bits).

    References
    ----------
    Zijia Lin, Guiguang Ding, Mingqing Hu and Jianmin Wang. Semantics-preserving hashing for
    cross-view retrieval. CVPR 2015.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> hasher = SePH(n_bits=16, n_centres=50).fit(pairs)
    >>> hasher.encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    >>> hasher.encode_both(pairs.images, pairs.texts)
    Codes(300 codes of 16 bits)
    """

    grid: ClassVar = {
        "ridge": (0.01, 0.1),
        "n_centres": (500, 1000),
        "unit_rows": (False, True),
    }

    objective_: np.ndarray
    shares_: np.ndarray

    def __init__(
        self,
        n_bits: int = 64,
        *,
        alpha: float = 0.01,
        n_centres: int = 500,
        ridge: float = 0.01,
        unit_rows: bool = False,
        max_pairs: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.alpha = alpha
        self.n_centres = n_centres
        self.ridge = ridge
        self.unit_rows = unit_rows
        self.max_pairs = max_pairs
        self.seed = seed

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        self._check_settings()
        pairs = self._chosen(pairs)
        h, self.objective_ = learn_codes(
            unit_labels(pairs.labels), self.n_bits, self.alpha, self.seed
        )
        bits = np.where(h > 0, 1.0, -1.0)  # (n, n_bits)
        self.shares_ = (bits > 0).mean(axis=0)
        self.image_weights_ = self._regress(pairs.images, bits, "image")
        self.text_weights_ = self._regress(pairs.texts, bits, "text")

    def _check_settings(self) -> None:
        check_regression(self.n_centres, self.ridge)
        if not 0 <= self.alpha < np.inf:
            raise InputError(f"alpha must be 0 or more. Got {self.alpha}. The default is 0.01.")
        if self.max_pairs is not None and self.max_pairs < 2:
            raise InputError(f"max_pairs must be at least 2. Got {self.max_pairs}. None takes all.")

    def _chosen(self, pairs: PairedDataset) -> PairedDataset:
        """The pairs that carry a label, ``max_pairs`` of them at most."""
        assert pairs.labels is not None
        rows = np.flatnonzero(pairs.labels.sum(axis=1))
        if len(rows) == 0:
            raise InputError("SePH learns from labels, and none of these pairs carries one.")
        if self.max_pairs is not None and len(rows) > self.max_pairs:
            rng = np.random.default_rng(self.seed)
            rows = np.sort(rng.choice(rows, self.max_pairs, replace=False))
        return pairs if len(rows) == len(pairs) else pairs.take(rows)

    def _regress(self, values: Any, bits: np.ndarray, side: str) -> np.ndarray:
        """w_k = argmin sum_i ln(1 + exp(-h_ik K_i w)) + ridge w' K0 w, for every bit k."""
        features, to_weights = self._learn_kernel(values, side)
        v = logistic_weights(features, bits, self.ridge, f"Learning functions of {side}s")
        return to_weights @ v

    def _score_image(self, images: Any) -> np.ndarray:
        return self._answers(images, "image")

    def _score_text(self, texts: Any) -> np.ndarray:
        return self._answers(texts, "text")

    def score_both(self, images: Any, texts: Any) -> np.ndarray:
        """(n, n_bits) scores of items by their image and their text together.

        Numbers from such codes are a measurement of their own: the other methods see one side.
        """
        image_scores, text_scores = self.score_image(images), self.score_text(texts)
        if len(image_scores) != len(text_scores):
            raise InputError(
                f"Row i of images and texts is one item. Got {len(image_scores)} images and "
                f"{len(text_scores)} texts. Give as many of each."
            )
        return fused(image_scores, text_scores, self.shares_)

    def encode_both(self, images: Any, texts: Any) -> Codes:
        """The codes of items by their image and their text together."""
        return Codes.from_scores(self.score_both(images, texts))


def fused(image_scores: np.ndarray, text_scores: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """l_x + l_y - ln(pi / (1 - pi)): log-odds of a bit whose two sides speak independently.

    A side that knows nothing says ln(pi / (1 - pi)), the odds before it was asked, and leaves the
    other as it is. Shares of 0 and 1 are drawn in, since no side could answer infinite odds.
    """
    shares = np.clip(shares, 1e-6, 1 - 1e-6)  # pi
    return image_scores + text_scores - logit(shares)


def unit_labels(labels: Any) -> np.ndarray:
    """(n, n_classes) label rows of length 1: their products are the cosines of label vectors."""
    return normalize(labels.toarray().astype(np.float32))


def learn_codes(
    labels: np.ndarray, n_bits: int, alpha: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(n, n_bits) the best H by its objective, and the objectives of all iterates.

    Gradient descent with momentum and a gain for each entry. The objective hardly moves for the
    first 20 to 30 steps, since H = 0 is a saddle, and its last value need not be its best.
    """
    n = len(labels)
    h = START * np.random.default_rng(seed).standard_normal((n, n_bits)).astype(np.float32)
    increment, gains = np.zeros_like(h), np.ones_like(h)
    step = np.float32(STEP * n / STEP_PAIRS)
    best = h
    objectives: list[float] = []
    for iteration in range(ITERATIONS + 1):
        objective, gradient = divergence(h, labels, alpha)
        if objective < min(objectives, default=np.inf):
            best = h
        objectives.append(objective)
        report("Learning codes", iteration, ITERATIONS, objective=objective)
        turned = np.sign(gradient) != np.sign(increment)
        gains = np.maximum(np.where(turned, gains + 0.2, gains * 0.8), SMALLEST_GAIN)
        increment = MOMENTUM * increment - step * gains * gradient
        h = h + increment
        h -= h.mean(axis=0)
    return best, np.array(objectives)


def divergence(h: np.ndarray, labels: np.ndarray, alpha: float) -> tuple[float, np.ndarray]:
    """Psi without sum P ln P, which no code changes, and its gradient; in the precision of ``h``.

    With t = 1 / (1 + d) and its sum T over all pairs, Q = t / T and Z = (P - Q) t = P t - t^2 / T.
    So one pass over blocks of rows gives everything: T, sum P ln(1 + d) and the two products with
    H. No logarithm of Q or P is taken that could meet a zero.
    """
    n, n_bits = h.shape
    total = np.square(labels.sum(axis=0, dtype=np.float64)).sum() - n  # sum of cosines, i ≠ j
    if total <= 1e-6 * n:
        raise InputError("No two pairs share a label, so SePH has nothing to learn from.")
    extended = np.hstack([h, np.ones((n, 1), dtype=h.dtype)])  # the last column sums rows
    pull, push = np.empty_like(extended), np.empty_like(extended)  # (P t) H and (t^2) H
    attraction = mass = 0.0  # sum P ln(1 + d) and T
    for start in range(0, n, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, n))
        itself = np.arange(rows.stop - start), np.arange(start, rows.stop)
        p = labels[rows] @ labels.T / h.dtype.type(total)  # (rows, n)
        p[itself] = 0
        apart = one_plus_distances(h, rows)
        attraction += float(np.vdot(p, np.log(apart)))
        t = np.reciprocal(apart, out=apart)
        t[itself] = 0
        mass += float(t.sum(dtype=np.float64))
        pull[rows] = np.multiply(p, t, out=p) @ extended
        push[rows] = np.square(t, out=t) @ extended
    z = pull - push / h.dtype.type(mass)
    excess = np.abs(h) - 1
    gradient = z[:, -1:] * h - z[:, :-1] + (2 * alpha / (n * n_bits)) * excess * np.sign(h)
    quantization = alpha / (n * n_bits) * float(np.square(excess).sum(dtype=np.float64))
    return attraction + np.log(mass) + quantization, gradient


def one_plus_distances(h: np.ndarray, rows: slice) -> np.ndarray:
    """(rows, n) 1 + |h_i - h_j|^2 / 4, made in place: such blocks are what memory goes into."""
    halves = h / 2
    squares = np.square(halves).sum(axis=1)
    apart = halves[rows] @ (-2 * halves.T)
    apart += squares
    apart += squares[rows, None]
    np.maximum(apart, 0, out=apart)  # rounding can leave a little less than nothing
    apart += 1
    return apart
