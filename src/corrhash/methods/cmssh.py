"""Cross-modality similarity-sensitive hashing: bits as weak classifiers, boosted one by one.

A bit of an image and a bit of a text say "similar" when they are equal. Each pair of bits is chosen
to be right on pairs that the bits before got wrong: the projections are singular vectors, the
thresholds the best of a grid.

In the paper's letters: (x, y, s) a pair and its similarity, w its weight; p and q the projections,
a and b the thresholds, ξ(x) = sign(p x - a) and η(y) = sign(q y - b) the bits, C the weighted
covariance, r the correlation of ξη with s, α the weight of a weak classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh, solve_triangular

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.base import feature_rows
from corrhash.methods.batches import supervision
from corrhash.methods.covariance import (
    check_varying,
    column_means,
    covariance,
    project,
    regularised_root,
)
from corrhash.methods.leading_pair import leading_pair
from corrhash.methods.linear_hasher import LinearHasher
from corrhash.methods.pair_sample import PairSample, draw_pairs
from corrhash.methods.setting_checks import check_count
from corrhash.progress import report

QUANTILES = np.linspace(0.1, 0.9, 17)
"""Where thresholds are tried, among the training projections."""

LARGEST_R = 0.999
"""Perfect bits would have weight infinity."""

WEAK = 0.01
"""After a bit with a smaller r, the sample is exhausted and another one is drawn."""

DIGITS = 9
"""Projections that agree to so many digits of their scale are ties."""


class CMSSH(LinearHasher):
    """Cross-modality similarity-sensitive hashing, supervised and linear (Bronstein et al., 2010).

    Needs labels, or judged pairs of images and texts, which need not be aligned, or the pairing
    alone; items are feature vectors and tag occurrences. Relatives: SCM, which learns bit after bit
    as well, from all pairs at once. Bits are unweighted once they are learned, and later ones
    resemble early ones, so codes gain little from more bits.

    Costs O(d^3 + n_bits (n d^2 + n_pairs d)) time and O(n d + d^2 + n_pairs) memory for d columns;
    ``image_pca`` makes d small.

    Parameters
    ----------
    n_bits : length of the codes.
    n_pairs : how many similar and how many dissimilar pairs are learned from; with fewer, later
        bits fit the sample and not the data. Try: 20,000, 100,000, 400,000.
    eps : ridge with which both sides are whitened first, relative to the mean eigenvalue of their
        covariances; None leaves them as they are, as in the paper. A small ridge makes noise as
        loud as the rest. Try: None, 1, 3, 10.
    image_pca : keep so many principal directions of the images, for speed; None keeps all.
    seed : of the sample of pairs.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) means of the training columns.
    image_projection_, text_projection_ : (d, n_bits), the paper's p and q.
    image_threshold_, text_threshold_ : (n_bits,), the paper's a and b.
    correlations_ : (n_bits,) r of each bit on its weighted pairs.

    References
    ----------
    Michael M. Bronstein, Alexander M. Bronstein, Fabrice Michel and Nikos Paragios. Data fusion
    through cross-modality metric learning using similarity-sensitive hashing. CVPR 2010.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(600)
    >>> hasher = CMSSH(n_bits=8, n_pairs=5000).fit(pairs)
    >>> hasher.encode_text(pairs.texts)
    Codes(600 codes of 8 bits)
    """

    needs_alignment = False
    learns_from_partners = True

    image_threshold_: np.ndarray
    text_threshold_: np.ndarray
    correlations_: np.ndarray

    grid: ClassVar = {"eps": (None, 0.3, 1.0, 3.0), "n_pairs": (20_000, 100_000)}

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_pairs: int = 20_000,
        eps: float | None = None,
        image_pca: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_pairs = n_pairs
        self.eps = eps
        self.image_pca = image_pca
        self.seed = seed

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        self._check()
        relation = supervision(pairs)
        images = feature_rows(pairs.images, "images")
        texts = feature_rows(pairs.texts, "texts")
        image_basis = whitening_basis(images, self.eps, self.image_pca)  # (d_image, k)
        text_basis = whitening_basis(texts, self.eps, None)
        self.image_mean_, self.text_mean_ = column_means(images), column_means(texts)
        images = project(images, self.image_mean_, image_basis)  # (n_images, k)
        texts = project(texts, self.text_mean_, text_basis)
        rng = np.random.default_rng(self.seed)
        bits = boost(images, texts, lambda: draw_pairs(relation, self.n_pairs, rng), self.n_bits)
        self.image_projection_ = image_basis @ np.stack([b.image_direction for b in bits], axis=1)
        self.text_projection_ = text_basis @ np.stack([b.text_direction for b in bits], axis=1)
        self.image_threshold_ = np.array([bit.image_threshold for bit in bits])
        self.text_threshold_ = np.array([bit.text_threshold for bit in bits])
        self.correlations_ = np.array([bit.correlation for bit in bits])

    def _check(self) -> None:
        check_count("n_pairs", self.n_pairs)
        check_count("seed", self.seed, least=0)
        if self.image_pca is not None:
            check_count("image_pca", self.image_pca)

    def _score_image(self, images: Any) -> np.ndarray:
        return super()._score_image(images) - self.image_threshold_

    def _score_text(self, texts: Any) -> np.ndarray:
        return super()._score_text(texts) - self.text_threshold_


@dataclass(frozen=True, eq=False)
class Bit:
    """A weak classifier of pairs: a direction and a threshold a side, and how right it is."""

    image_direction: np.ndarray  # p, (k_image,)
    text_direction: np.ndarray  # q, (k_text,)
    image_threshold: float  # a
    text_threshold: float  # b
    correlation: float  # r

    def says(self, images: np.ndarray, texts: np.ndarray, sample: PairSample) -> np.ndarray:
        """(n_pairs,) ξη: +1 for the pairs that it takes to be similar, -1 for the others."""
        image_bits = signs(images @ self.image_direction, self.image_threshold)
        text_bits = signs(texts @ self.text_direction, self.text_threshold)
        return image_bits[sample.images] * text_bits[sample.texts]


def whitening_basis(table: Any, eps: float | None, n_directions: int | None) -> np.ndarray:
    """(d, k) what centred rows are multiplied with before bits are learned from them.

    The principal directions, if only some are kept, and then the inverse root of the covariance, if
    there is a ridge.
    """
    spread = covariance(table, table)
    check_varying(spread)
    basis, size = np.eye(len(spread)), len(spread)
    if n_directions is not None:
        if n_directions > size:
            raise InputError(
                f"image_pca must be at most {size}, the columns of the images. Got {n_directions}."
            )
        variances, basis = eigh(spread, subset_by_index=[size - n_directions, size - 1])
        spread = np.diag(variances)
    if eps is None:
        return basis
    return solve_triangular(regularised_root(spread, eps), basis.T, lower=True).T


def boost(
    images: np.ndarray, texts: np.ndarray, draw: Callable[[], PairSample], n_bits: int
) -> list[Bit]:
    """One bit after another, each for the pairs that those before got wrong."""
    bits: list[Bit] = []
    for number in range(n_bits):
        if not bits or bits[-1].correlation <= WEAK:
            sample = draw()
            weights = np.full(len(sample), 1 / len(sample))
        bit = best_bit(images, texts, sample.matrix(weights * sample.similarity))
        right = sample.similarity * bit.says(images, texts, sample)
        weights = reweighted(weights, right, bit.correlation)
        bits.append(bit)
        report("Learning bits", number + 1, n_bits)
    return bits


def best_bit(images: np.ndarray, texts: np.ndarray, weighted: sp.csr_array) -> Bit:
    """The bit that is right most often; ``weighted`` holds w s, (n_images, n_texts) and sparse."""
    p, q = leading_pair(images.T @ (weighted @ texts))  # of C, the sum of w s x y^T
    along_p, along_q = images @ p, texts @ q
    a, b = thresholds(along_p), thresholds(along_q)
    r = signs(along_p[:, None], a).T @ (weighted @ signs(along_q[:, None], b))  # each a with each b
    i, j = np.unravel_index(abs(r).argmax(), r.shape)
    turn = -1 if r[i, j] < 0 else 1  # a bit that is mostly wrong is right with one side turned
    return Bit(p, turn * q, float(a[i]), turn * float(b[j]), abs(float(r[i, j])))


def signs(projections: np.ndarray, threshold: Any) -> np.ndarray:
    """+1 above the threshold, else -1."""
    return np.where(projections > threshold, 1.0, -1.0)


def thresholds(projections: np.ndarray) -> np.ndarray:
    """Candidates at quantiles, halfway between two values that occur.

    So no training item lies on a threshold, where rounding would decide its bit.
    """
    scale = abs(projections).max() or 1.0
    values, counts = np.unique(np.round(projections / scale, DIGITS), return_counts=True)
    below = np.searchsorted(np.cumsum(counts), QUANTILES * len(projections))
    below = below.clip(max=len(values) - 2)
    return scale * (values[below] + values[below + 1]) / 2


def reweighted(weights: np.ndarray, right: np.ndarray, correlation: float) -> np.ndarray:
    """Weights of the pairs for the next bit; ``right`` is s ξη, +1 where a bit was right."""
    r = min(correlation, LARGEST_R)
    alpha = 0.5 * np.log((1 + r) / (1 - r))
    weights = weights * np.exp(-alpha * right)
    return weights / weights.sum()
