"""Cross-modality similarity-sensitive hashing: bits as weak classifiers of pairs, by boosting.

A bit of an image and a bit of a text predict "similar" if they are equal. Each pair of bits is
chosen to be correct on the pairs that the previous bits got wrong: its projections are singular
vectors, its thresholds the best of a grid.

Symbols of the paper: (x, y, s) is a pair and its similarity ±1, w its weight; p and q are the
projections, a and b the thresholds, ξ(x) = sign(p·x - a) and η(y) = sign(q·y - b) the bits, C the
weighted covariance, r the correlation of ξη with s and α the weight of a weak classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
import scipy.sparse as sp

from corrhash._progress import report
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods._linear_algebra import (
    LinearHasher,
    check_varying,
    column_means,
    covariance,
    leading_singular_vectors,
    project,
    regularized_cholesky,
)
from corrhash.methods._validation import check_count, feature_rows
from corrhash.similarity import Similarity
from corrhash.training.batches import training_similarity

QUANTILES = np.linspace(0.1, 0.9, 17)
"""Quantiles of the training projections at which thresholds are tried."""

LARGEST_R = 0.999
"""Upper limit of r, since a perfect bit would have infinite weight."""

WEAK = 0.01
"""After a bit with a smaller r the sample is exhausted, and a new one is drawn."""

DIGITS = 9
"""Projections that agree to this many digits of their scale are ties."""

LARGEST_SHARE = 0.999
"""Upper limit of the share of similar pairs; rejection sampling of dissimilar ones slows beyond."""


class CMSSH(LinearHasher):
    """Cross-modality similarity-sensitive hashing, supervised and linear (Bronstein et al., 2010).

    Learns from labels, from relevance judgments of images and texts, which need not be aligned, or
    from the pairing alone. Bits are not weighted, and later ones resemble early ones: longer codes
    gain little. Time is O(d³ + n_bits (n d² + n_pairs d)) and memory O(n d + d² + n_pairs) for d
    features; ``image_pca`` reduces d.

    Parameters
    ----------
    n_bits : code length.
    n_pairs : number of similar and of dissimilar pairs to sample. With fewer pairs, later bits
        overfit. Try 20_000, 100_000, 400_000.
    ridge : whitens both modalities first, with this ridge relative to the mean eigenvalue of their
        covariances; None does not whiten, as in the paper. Small values amplify noise. Try None,
        1, 3, 10.
    image_pca : number of principal components of the images to keep, for speed; None keeps all.
    seed : of the sampled pairs.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) column means of the training data.
    image_projection_, text_projection_ : (d, n_bits), p and q.
    image_threshold_, text_threshold_ : (n_bits,), a and b.
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
    learns_from_pairs = True

    image_threshold_: np.ndarray
    text_threshold_: np.ndarray
    correlations_: np.ndarray

    grid: ClassVar = {"ridge": (None, 0.3, 1.0, 3.0), "n_pairs": (20_000, 100_000)}

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_pairs: int = 20_000,
        ridge: float | None = None,
        image_pca: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_pairs = n_pairs
        self.ridge = ridge
        self.image_pca = image_pca
        self.seed = seed

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        self._check_params()
        relation = training_similarity(pairs)
        images = feature_rows(pairs.images, "images")
        texts = feature_rows(pairs.texts, "texts")
        image_basis = whitening_basis(images, self.ridge, self.image_pca)  # (d_image, k)
        text_basis = whitening_basis(texts, self.ridge, None)
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

    def _check_params(self) -> None:
        check_count("n_pairs", self.n_pairs)
        check_count("seed", self.seed, least=0)
        if self.image_pca is not None:
            check_count("image_pca", self.image_pca)

    def _embed_image(self, images: Any) -> np.ndarray:
        return super()._embed_image(images) - self.image_threshold_

    def _embed_text(self, texts: Any) -> np.ndarray:
        return super()._embed_text(texts) - self.text_threshold_


def whitening_basis(table: Any, ridge: float | None, n_components: int | None) -> np.ndarray:
    """Return the (d, k) matrix that maps centred rows to principal components and whitens them.

    Both steps are optional: None keeps all components, or does not whiten.
    """
    spread = covariance(table, table)
    check_varying(spread)
    basis, size = np.eye(len(spread)), len(spread)
    if n_components is not None:
        if n_components > size:
            raise InputError(
                f"image_pca must be at most {size}, the number of image features, "
                f"got {n_components}."
            )
        variances, basis = scipy.linalg.eigh(
            spread, subset_by_index=[size - n_components, size - 1]
        )
        spread = np.diag(variances)
    if ridge is None:
        return basis
    return scipy.linalg.solve_triangular(regularized_cholesky(spread, ridge), basis.T, lower=True).T


@dataclass(frozen=True, eq=False)
class Bit:
    """A weak classifier of pairs: a direction and a threshold per modality, and its correlation."""

    image_direction: np.ndarray  # p, (k_image,)
    text_direction: np.ndarray  # q, (k_text,)
    image_threshold: float  # a
    text_threshold: float  # b
    correlation: float  # r

    def predict(self, images: np.ndarray, texts: np.ndarray, sample: PairSample) -> np.ndarray:
        """Return (n_pairs,) ξη: +1 for pairs predicted to be similar, -1 for the others."""
        image_bits = signs(images @ self.image_direction, self.image_threshold)
        text_bits = signs(texts @ self.text_direction, self.text_threshold)
        return image_bits[sample.images] * text_bits[sample.texts]


def boost(
    images: np.ndarray, texts: np.ndarray, draw: Callable[[], PairSample], n_bits: int
) -> list[Bit]:
    """Learn bits one by one, each on pairs reweighted by the errors of the previous bits."""
    bits: list[Bit] = []
    for number in range(n_bits):
        if not bits or bits[-1].correlation <= WEAK:
            sample = draw()
            weights = np.full(len(sample), 1 / len(sample))
        bit = best_bit(images, texts, sample.matrix(weights * sample.similarity))
        correct = sample.similarity * bit.predict(images, texts, sample)
        weights = reweighted(weights, correct, bit.correlation)
        bits.append(bit)
        report("Learning bits", number + 1, n_bits)
    return bits


def best_bit(images: np.ndarray, texts: np.ndarray, weighted: sp.csr_array) -> Bit:
    """Return the bit with the largest r; ``weighted`` is w s, (n_images, n_texts) and sparse."""
    p, q = leading_singular_vectors(images.T, weighted, texts)  # of C = sum w s x y^T
    along_p, along_q = images @ p, texts @ q
    a, b = thresholds(along_p), thresholds(along_q)
    r = signs(along_p[:, None], a).T @ (weighted @ signs(along_q[:, None], b))  # for all a and b
    i, j = np.unravel_index(abs(r).argmax(), r.shape)
    turn = -1 if r[i, j] < 0 else 1  # negate one modality of a bit that is mostly wrong
    return Bit(p, turn * q, float(a[i]), turn * float(b[j]), abs(float(r[i, j])))


def signs(projections: np.ndarray, threshold: Any) -> np.ndarray:
    """Return +1 above the threshold, else -1."""
    return np.where(projections > threshold, 1.0, -1.0)


def thresholds(projections: np.ndarray) -> np.ndarray:
    """Return candidate thresholds at ``QUANTILES``, halfway between two values that occur.

    No training item lies on a threshold, where rounding errors would decide its bit.
    """
    scale = abs(projections).max() or 1.0
    values, counts = np.unique(np.round(projections / scale, DIGITS), return_counts=True)
    below = np.searchsorted(np.cumsum(counts), QUANTILES * len(projections))
    below = below.clip(max=len(values) - 2)
    return scale * (values[below] + values[below + 1]) / 2


def reweighted(weights: np.ndarray, correct: np.ndarray, correlation: float) -> np.ndarray:
    """Return the pair weights for the next bit; ``correct`` is s ξη, +1 where a bit was right."""
    r = min(correlation, LARGEST_R)
    alpha = 0.5 * np.log((1 + r) / (1 - r))  # α
    weights = weights * np.exp(-alpha * correct)
    return weights / weights.sum()


@dataclass(frozen=True, eq=False)
class PairSample:
    """Sampled pairs (i, j, s): image i, text j, s = +1 or -1.

    Parameters
    ----------
    images, texts : (n_pairs,) rows.
    similarity : (n_pairs,) of +1 and -1.
    shape : number of images and of texts in the dataset.
    """

    images: np.ndarray
    texts: np.ndarray
    similarity: np.ndarray
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.similarity)

    def matrix(self, values: np.ndarray) -> sp.csr_array:
        """Return a sparse (n_images, n_texts) matrix with the values of the pairs."""
        return sp.csr_array((values, (self.images, self.texts)), shape=self.shape)


def draw_pairs(relation: Similarity, n_each: int, rng: np.random.Generator) -> PairSample:
    """Draw ``n_each`` similar and ``n_each`` dissimilar pairs, each uniformly among its kind."""
    if relation.judgments is not None:
        similar, dissimilar = (_draw_judged(relation.judgments, s, n_each, rng) for s in (1, -1))
    else:
        _check_share(relation.share_similar)
        similar = _until_enough(_similar_pairs(relation, n_each, rng), n_each)
        dissimilar = _until_enough(_dissimilar_pairs(relation, n_each, rng), n_each)
    images, texts = np.hstack([similar, dissimilar])
    return PairSample(images, texts, np.repeat([1.0, -1.0], n_each), relation.shape)


def _draw_judged(
    judgments: sp.csr_array, sign: int, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Return (2, n) rows and columns of judgments with this sign."""
    known = judgments.tocoo()
    chosen = rng.choice(np.flatnonzero(known.data == sign), n)
    return np.stack([known.row[chosen], known.col[chosen]])


def _check_share(share: float) -> None:
    if share > LARGEST_SHARE:
        raise InputError(
            f"{share:.3%} of the pairs are similar, which leaves too few dissimilar pairs to learn "
            "from. Remove labels that nearly every item has."
        )


def _similar_pairs(
    relation: Similarity, n: int, rng: np.random.Generator
) -> Callable[[], np.ndarray]:
    """Draw a label and two items that have it.

    A pair that shares k labels can be drawn by each of them, so it is kept with probability 1/k.
    """
    assert relation.row_labels is not None
    assert relation.column_labels is not None
    rows, columns = relation.row_labels.tocsc(), relation.column_labels.tocsc()
    n_rows, n_columns = np.diff(rows.indptr), np.diff(columns.indptr)
    n_pairs = n_rows.astype(np.float64) * n_columns
    probabilities = n_pairs / n_pairs.sum()

    def draw() -> np.ndarray:
        label = rng.choice(len(probabilities), n, p=probabilities)
        i = rows.indices[rows.indptr[label] + rng.integers(n_rows[label])]
        j = columns.indices[columns.indptr[label] + rng.integers(n_columns[label])]
        kept = rng.random(n) * _n_shared(relation, i, j) < 1
        return np.stack([i[kept], j[kept]])

    return draw


def _dissimilar_pairs(
    relation: Similarity, n: int, rng: np.random.Generator
) -> Callable[[], np.ndarray]:
    """Draw any image and any text, and keep the pair if they share no label."""

    def draw() -> np.ndarray:
        i, j = (rng.integers(size, size=n) for size in relation.shape)
        kept = _n_shared(relation, i, j) == 0
        return np.stack([i[kept], j[kept]])

    return draw


def _n_shared(relation: Similarity, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Return (n,) numbers of labels that images i and texts j share."""
    assert relation.row_labels is not None
    assert relation.column_labels is not None
    both = relation.row_labels[i].multiply(relation.column_labels[j])
    return np.asarray(both.sum(axis=1)).ravel()


def _until_enough(draw: Callable[[], np.ndarray], n: int) -> np.ndarray:
    """Repeat ``draw`` and return the first n pairs, (2, n)."""
    parts = [draw()]
    while sum(part.shape[1] for part in parts) < n:
        parts.append(draw())
    return np.hstack(parts)[:, :n]
