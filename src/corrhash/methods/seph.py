"""Semantics-preserving hashing: codes that preserve label affinities, then functions onto them.

First every training pair gets a code. As in t-SNE, affinities of labels and affinities of codes are
two probability distributions over pairs of items, and the codes minimize their divergence. Then
kernel logistic regression learns to predict each bit from images and from texts.

Symbols of the paper: P are the affinities of labels, Q those of codes, H the relaxed codes, d their
halved squared distances (Hamming distances for codes of ±1), Ψ the objective and α the weight of
its quantization term; π is the share of +1 in a bit.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy

from corrhash._progress import report
from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods._kernel_regression import KernelHasher, check_regression, logistic_weights
from corrhash.methods._validation import check_count, check_number

ITERATIONS = 100
INITIAL_DEVIATION = 1e-4
MOMENTUM = 0.5
STEP = 500.0
STEP_PAIRS = 4000
"""Number of pairs for which the step is ``STEP``; it grows with n, as gradients shrink with 1/n."""
SMALLEST_GAIN = 0.01

BLOCK_SIZE = 256
"""Rows of the (n, n) affinities that are in memory at a time."""


class SePH(KernelHasher):
    """Semantics-preserving hashing, supervised with kernels (Lin et al., CVPR 2015).

    Pairs without labels are skipped. ``encode_image`` and ``encode_text`` use one modality each;
    :meth:`encode_both` implements the paper's codes of items whose image and text are both known.

    Learning the codes takes O(n² (n_bits + n_classes)) time and O(n) memory, since affinities are
    computed in blocks. Learning the functions takes O(n n_centres (d + n_bits)) time and
    O(n (d + n_centres)) memory: several minutes and 2 GB for 10,500 pairs with 4,096 image and
    1,000 text features. Set ``max_pairs`` beyond about 20,000 pairs.

    Parameters
    ----------
    n_bits : code length.
    quantization_weight : α. Try 1e-3, 1e-2, 0.1; the paper uses 0.01.
    n_centres : number of k-means centres of the kernel regression. Try 300, 500, 1000.
    ridge : weight of the regression penalty. Try 0.01, 0.03, 0.1.
    normalize_rows : whether features are scaled to length 1 before they are compared; not in the
        paper.
    max_pairs : upper limit on the training pairs, drawn at random; None uses all.
    seed : of the initial codes, of k-means and of the draw.

    Attributes
    ----------
    objective_ : (101,) Ψ up to a constant, at each iterate.
    shares_ : (n_bits,) share π of +1 in each bit of the training codes. Bits near 0 or 1 are
        predicted as constants.
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
        "normalize_rows": (False, True),
    }

    objective_: np.ndarray
    shares_: np.ndarray

    def __init__(
        self,
        n_bits: int = 64,
        *,
        quantization_weight: float = 0.01,
        n_centres: int = 500,
        ridge: float = 0.01,
        normalize_rows: bool = False,
        max_pairs: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.quantization_weight = quantization_weight
        self.n_centres = n_centres
        self.ridge = ridge
        self.normalize_rows = normalize_rows
        self.max_pairs = max_pairs
        self.seed = seed

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        self._check_params()
        pairs = self._select_pairs(pairs)
        h, self.objective_ = learn_codes(
            unit_labels(pairs.labels), self.n_bits, self.quantization_weight, self.seed
        )
        bits = np.where(h > 0, 1.0, -1.0)  # (n, n_bits)
        self.shares_ = (bits > 0).mean(axis=0)
        self.image_weights_ = self._regress(pairs.images, bits, "image")
        self.text_weights_ = self._regress(pairs.texts, bits, "text")

    def _check_params(self) -> None:
        check_regression(self.n_centres, self.ridge)
        check_number("quantization_weight", self.quantization_weight, zero=True)
        if self.max_pairs is not None:
            check_count("max_pairs", self.max_pairs, least=2)

    def _select_pairs(self, pairs: PairedDataset) -> PairedDataset:
        """Return the pairs that have a label, at most ``max_pairs`` of them."""
        assert pairs.labels is not None
        rows = np.flatnonzero(pairs.labels.sum(axis=1))
        if len(rows) == 0:
            raise InputError("SePH needs labels, and none of these pairs has one.")
        if self.max_pairs is not None and len(rows) > self.max_pairs:
            rng = np.random.default_rng(self.seed)
            rows = np.sort(rng.choice(rows, self.max_pairs, replace=False))
        return pairs if len(rows) == len(pairs) else pairs.take(rows)

    def _regress(self, values: Any, bits: np.ndarray, modality: str) -> np.ndarray:
        """Return w_k = argmin sum_i ln(1 + exp(-h_ik K_i w)) + ridge w' K0 w for every bit k."""
        features, to_weights = self._fit_kernel(values, modality)
        v = logistic_weights(features, bits, self.ridge, f"Fitting the regression of {modality}s")
        return to_weights @ v

    def _embed_image(self, images: Any) -> np.ndarray:
        return self._logits(images, "image")

    def _embed_text(self, texts: Any) -> np.ndarray:
        return self._logits(texts, "text")

    def embed_both(self, images: Any, texts: Any) -> np.ndarray:
        """Return (n, n_bits) continuous codes of items from their image and text together.

        Report results with such codes separately: the other methods see one modality per item.
        """
        image_logits, text_logits = self.embed_image(images), self.embed_text(texts)
        if len(image_logits) != len(text_logits):
            raise InputError(
                f"Row i of images and texts must be one item, got {len(image_logits)} images and "
                f"{len(text_logits)} texts."
            )
        return fuse(image_logits, text_logits, self.shares_)

    def encode_both(self, images: Any, texts: Any) -> Codes:
        """Return the binary codes of items from their image and text together."""
        return Codes.from_continuous(self.embed_both(images, texts))


def learn_codes(
    labels: np.ndarray, n_bits: int, alpha: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the (n, n_bits) iterate H with the lowest objective, and the objectives of all.

    Gradient descent with momentum and a gain for each entry. The objective hardly changes in the
    first 20 to 30 steps, since H = 0 is a saddle point, and the last iterate need not be the best.
    """
    n = len(labels)
    h = INITIAL_DEVIATION * np.random.default_rng(seed).standard_normal((n, n_bits)).astype(
        np.float32
    )
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
    """Return Ψ without its constant sum P ln P, and its gradient, in the precision of ``h``.

    With t = 1 / (1 + d) and its sum T over all pairs, Q = t / T and Z = (P - Q) t = P t - t² / T.
    One pass over blocks of rows therefore gives T, sum P ln(1 + d) and the two products with H. No
    logarithm is taken of P or Q, which can be 0.
    """
    n, n_bits = h.shape
    total = np.square(labels.sum(axis=0, dtype=np.float64)).sum() - n  # sum of cosines, i ≠ j
    if total <= 1e-6 * n:
        raise InputError("No two pairs share a label, so SePH has nothing to learn from.")
    extended = np.hstack([h, np.ones((n, 1), dtype=h.dtype)])  # the last column sums rows
    pull, push = np.empty_like(extended), np.empty_like(extended)  # (P t) H and (t²) H
    attraction = mass = 0.0  # sum P ln(1 + d) and T
    for start in range(0, n, BLOCK_SIZE):
        rows = slice(start, min(start + BLOCK_SIZE, n))
        diagonal = np.arange(rows.stop - start), np.arange(start, rows.stop)
        p = labels[rows] @ labels.T / h.dtype.type(total)  # (rows, n)
        p[diagonal] = 0
        one_plus_d = one_plus_distances(h, rows)
        attraction += float(np.vdot(p, np.log(one_plus_d)))
        t = np.reciprocal(one_plus_d, out=one_plus_d)
        t[diagonal] = 0
        mass += float(t.sum(dtype=np.float64))
        pull[rows] = np.multiply(p, t, out=p) @ extended
        push[rows] = np.square(t, out=t) @ extended
    z = pull - push / h.dtype.type(mass)
    excess = np.abs(h) - 1
    gradient = z[:, -1:] * h - z[:, :-1] + (2 * alpha / (n * n_bits)) * excess * np.sign(h)
    quantization = alpha / (n * n_bits) * float(np.square(excess).sum(dtype=np.float64))
    return attraction + np.log(mass) + quantization, gradient


def one_plus_distances(h: np.ndarray, rows: slice) -> np.ndarray:
    """Return (rows, n) values 1 + |h_i - h_j|² / 4, computed in place to save memory."""
    halves = h / 2
    squares = np.square(halves).sum(axis=1)
    distances = halves[rows] @ (-2 * halves.T)
    distances += squares
    distances += squares[rows, None]
    np.maximum(distances, 0, out=distances)  # rounding errors can make them negative
    distances += 1
    return distances


def unit_labels(labels: Any) -> np.ndarray:
    """Return (n, n_classes) label rows of length 1, whose inner products are cosines."""
    rows = labels.toarray().astype(np.float32)
    lengths = np.sqrt(rows.sum(axis=1, keepdims=True))  # labels are 0 or 1
    return rows / np.maximum(lengths, 1)


def fuse(image_logits: np.ndarray, text_logits: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return l_x + l_y - ln(π / (1 - π)), the logits given two independent modalities.

    ln(π / (1 - π)) is the prior logit of a bit: a modality without information has exactly this
    logit and leaves the other unchanged. Shares of 0 and 1 are clipped to keep it finite.
    """
    shares = np.clip(shares, 1e-6, 1 - 1e-6)  # π
    return image_logits + text_logits - scipy.special.logit(shares)
