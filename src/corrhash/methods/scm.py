"""Semantic correlation maximization: linear bits whose inner products approximate label similarity.

The similarity of two items is the cosine of their label vectors, mapped to [-1, 1]. Inner products
of codes approximate it, times a factor. SCM learns bit by bit on the residual of the previous bits;
SCM-orth learns all bits at once, as uncorrelated projections.

Symbols of the paper: X and Y are the centred and whitened images and texts of n pairs, L~ the
labels with rows of length 1, S~ = 2 L~ L~^T - 1 1^T the similarity, h_t and g_t bit t of all images
and all texts, R_t the residual, w_x and w_y the projections.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy
import scipy.sparse as sp

from corrhash._progress import report
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods._linear_algebra import (
    LinearHasher,
    Whitened,
    check_n_directions,
    cross_covariance,
    leading_singular_vectors,
)
from corrhash.methods._validation import check_number, feature_rows
from corrhash.similarity import Labels

FIRST_TARGET = 6.0
"""Initial value of the growing target: about how many bits one direction can take at once."""

NEGLIGIBLE = 1e-10
"""Singular values below this share of the largest are rounding errors."""


class SCM(LinearHasher):
    """Semantic correlation maximization, supervised and linear (Zhang & Li, AAAI 2014).

    The strongest linear method here; quality increases with the code length. Time is
    O(n d² + d³ + n_bits (n d + d²)) and memory O(d²) for d features. The (n, n) similarity is never
    formed, and sparse texts stay sparse.

    Parameters
    ----------
    n_bits : code length.
    ridge : added to both covariances, relative to their mean eigenvalue. Try 0.1, 0.3, 1.
    target_growth : 0 uses the target of the paper: inner products of codes equal to n_bits times
        the similarity, from the first bit on, which makes the first bits nearly equal. Otherwise
        the target of bit t is 6 + target_growth * t times the similarity. Try 0, 0.6.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) column means of the training data.
    image_projection_, text_projection_ : (d, n_bits), W_x and W_y.

    References
    ----------
    Dongqing Zhang and Wu-Jun Li. Large-scale supervised multimodal hashing with semantic
    correlation maximization. AAAI 2014.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(600)
    >>> hasher = SCM(n_bits=16).fit(pairs)
    >>> hasher.encode_text(pairs.texts)
    Codes(600 codes of 16 bits)
    """

    grid: ClassVar = {"ridge": (0.1, 0.3, 1.0, 3.0), "target_growth": (0.0, 0.6)}

    def __init__(self, n_bits: int = 64, *, ridge: float = 0.1, target_growth: float = 0.0) -> None:
        self.n_bits = n_bits
        self.ridge = ridge
        self.target_growth = target_growth

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_number("target_growth", self.target_growth, zero=True)
        labels = unit_labels(pairs.labels)
        image = Whitened(feature_rows(pairs.images, "images"), self.ridge)
        text = Whitened(feature_rows(pairs.texts, "texts"), self.ridge)
        left, right = self._directions(image, text, labels)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_ = image.projection(left)
        self.text_projection_ = text.projection(right)

    def _directions(
        self, image: Whitened, text: Whitened, labels: sp.csr_array
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (d_image, n_bits) and (d_text, n_bits) directions, learned bit by bit."""
        semantic = semantic_covariance(image, text, labels)  # X^T S~ Y
        explained = np.zeros_like(semantic)  # sum of X^T h_k g_k^T Y over the bits k < t
        left, right = np.empty((len(image.mean), 0)), np.empty((len(text.mean), 0))
        for bit in range(self.n_bits):
            # w_x, w_y: the leading singular vectors of X^T R_t Y
            w_x, w_y = leading_singular_vectors(self._target(bit) * semantic - explained)
            left, right = np.c_[left, w_x], np.c_[right, w_y]
            h, g = image.signs(w_x), text.signs(w_y)  # h_t, g_t: (n, 1)
            explained += image.covariance(h) @ text.covariance(g).T
            report("Learning bits", bit + 1, self.n_bits)
        return left, right

    def _target(self, bit: int) -> float:
        """Return the factor between similarity and inner products of codes."""
        if self.target_growth == 0:
            return self.n_bits
        return FIRST_TARGET + self.target_growth * bit


class SCMOrth(SCM):
    """SCM-orth: uncorrelated projections, learned all at once (Zhang & Li, AAAI 2014).

    The label similarity has as many directions as there are classes. Further bits are canonical
    directions as in CVH, orthogonal to these, and quality decreases beyond about 16 bits.
    Parameters are those of SCM; ``n_bits`` is at most the smaller number of features, and
    ``target_growth`` has no effect.
    """

    grid: ClassVar = {"ridge": (0.1, 0.3, 1.0, 3.0, 10.0)}

    def _directions(
        self, image: Whitened, text: Whitened, labels: sp.csr_array
    ) -> tuple[np.ndarray, np.ndarray]:
        check_n_directions("SCM-orth", self.n_bits, image.table, text.table)
        left, values, right = scipy.linalg.svd(
            semantic_covariance(image, text, labels), full_matrices=False
        )
        rank = min(self.n_bits, int(np.sum(values > NEGLIGIBLE * values[0])))
        left, right = left[:, :rank], right[:rank].T
        # Beyond the rank, take the orthogonal directions in which pairs correlate most.
        rest = cross_covariance(image, text)
        rest -= left @ (left.T @ rest)
        rest -= (rest @ right) @ right.T
        more_left, _, more_right = scipy.linalg.svd(rest, full_matrices=False)
        more = slice(None, self.n_bits - rank)
        return np.c_[left, more_left[:, more]], np.c_[right, more_right[more].T]


def unit_labels(labels: Labels) -> sp.csr_array:
    """Return L~, (n, n_classes): label rows of length 1, whose inner products are cosines."""
    labels = sp.csr_array(labels, dtype=np.float64)
    lengths = np.sqrt(labels.sum(axis=1))
    unit = sp.csr_array(labels / np.where(lengths > 0, lengths, 1)[:, None])
    if (unit.max(axis=0) - unit.min(axis=0)).nnz == 0:
        raise InputError(
            f"All {unit.shape[0]:,} items have the same labels, so there is nothing to learn. "
            "Pass items of at least two classes."
        )
    return unit


def semantic_covariance(image: Whitened, text: Whitened, labels: sp.csr_array) -> np.ndarray:
    """Return the (d_image, d_text) matrix X^T S~ Y / n² = 2 (X^T L~) (Y^T L~)^T / n².

    The term 1 1^T of S~ vanishes because X and Y are centred.
    """
    return 2 * image.covariance(labels) @ text.covariance(labels).T
