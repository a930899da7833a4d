"""Semantic correlation maximization: linear bits whose products rebuild the similarity of labels.

The similarity of two items is the cosine of their labels, moved to run from -1 to 1. Inner products
of codes should be that similarity, times a factor. SCM learns one bit after another on what the
bits before have left over; SCM-orth learns all at once, as uncorrelated projections.

In the paper's letters: X images and Y texts, centred, n pairs, of which the whitened tables are
meant wherever they are multiplied; L~ labels at row length 1, S~ = 2 L~ L~^T - 1 1^T the
similarity, h_t and g_t the bits of all images and all texts, R_t the residual, w_x and w_y the
projections.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import svd

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.base import feature_rows
from corrhash.methods.leading_pair import leading_pair
from corrhash.methods.linear_hasher import LinearHasher
from corrhash.methods.setting_checks import check_number
from corrhash.methods.whitened import Whitened, check_n_directions, cross_covariance
from corrhash.progress import report
from corrhash.relevance import Labels

FIRST_TARGET = 6.0
"""What the growing target starts from: about how many bits one direction may have at once."""

NEGLIGIBLE = 1e-10
"""Singular values below this share of the largest are rounding errors."""


class SCM(LinearHasher):
    """Semantic correlation maximization, supervised and linear (Zhang & Li, AAAI 2014).

    Needs labels, with aligned pairs of feature vectors and tag occurrences. Relatives: CVH, which
    has the pairing in place of labels; CMSSH, which learns bit after bit as well, by boosting. The
    strongest of the linear methods here, and it gains from more bits.

    Costs O(n d^2 + d^3 + n_bits (n d + d^2)) time and O(d^2) memory for d columns; the (n, n)
    similarity is never made, and sparse texts stay sparse.

    Parameters
    ----------
    n_bits : length of the codes.
    eps : ridge on both covariances, relative to their mean eigenvalue. Try: 0.1, 0.3, 1.
    growth : 0 is the paper's target: inner products of codes that are n_bits times the similarity,
        from the first bit on, which gives the first bits nearly one direction. Beyond the paper,
        bit t is learned for 6 + growth * t times the similarity. Try: 0, 0.6.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) means of the training columns.
    image_projection_, text_projection_ : (d, n_bits), the paper's W_x and W_y.

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

    grid: ClassVar = {"eps": (0.1, 0.3, 1.0, 3.0), "growth": (0.0, 0.6)}

    def __init__(self, n_bits: int = 64, *, eps: float = 0.1, growth: float = 0.0) -> None:
        self.n_bits = n_bits
        self.eps = eps
        self.growth = growth

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_number("growth", self.growth, zero=True)
        labels = unit_labels(pairs.labels)
        image = Whitened(feature_rows(pairs.images, "images"), self.eps)
        text = Whitened(feature_rows(pairs.texts, "texts"), self.eps)
        left, right = self._directions(image, text, labels)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_ = image.projection(left)
        self.text_projection_ = text.projection(right)

    def _directions(
        self, image: Whitened, text: Whitened, labels: sp.csr_array
    ) -> tuple[np.ndarray, np.ndarray]:
        """(d_image, n_bits) and (d_text, n_bits): one bit after another, each on the residual."""
        semantic = semantic_covariance(image, text, labels)
        explained = np.zeros_like(semantic)  # the sum of X^T h_k g_k^T Y over the bits so far
        left, right = np.empty((len(image.mean), 0)), np.empty((len(text.mean), 0))
        for bit in range(self.n_bits):
            # X^T R_t Y, of which w_x and w_y are the leading pair
            u, v = leading_pair(self._target(bit) * semantic - explained)
            left, right = np.c_[left, u], np.c_[right, v]
            h, g = image.signs(u), text.signs(v)  # (n, 1)
            explained += image.covariance(h) @ text.covariance(g).T
            report("Learning bits", bit + 1, self.n_bits)
        return left, right

    def _target(self, bit: int) -> float:
        """How many times the similarity the inner products of codes should be."""
        if self.growth == 0:
            return self.n_bits
        return FIRST_TARGET + self.growth * bit


class SCMOrth(SCM):
    """SCM-orth: uncorrelated projections, all learned at once (Zhang & Li, AAAI 2014).

    Needs what SCM needs. Relatives: CVH, with labels for the pairing. The labels give only as many
    directions as there are labels; bits beyond are canonical directions as those of CVH, orthogonal
    to them, so codes get worse beyond some 16 bits.

    Costs what CVH costs.

    Parameters
    ----------
    As those of SCM, but n_bits is at most the smaller number of columns, and ``growth`` plays no
    part.

    References
    ----------
    As for SCM.

    Examples
    --------
    >>> SCMOrth(16).n_bits
    16
    """

    grid: ClassVar = {"eps": (0.1, 0.3, 1.0, 3.0, 10.0)}

    def _directions(
        self, image: Whitened, text: Whitened, labels: sp.csr_array
    ) -> tuple[np.ndarray, np.ndarray]:
        check_n_directions("SCM-orth", self.n_bits, image.table, text.table)
        left, values, right = svd(semantic_covariance(image, text, labels), full_matrices=False)
        rank = min(self.n_bits, int(np.sum(values > NEGLIGIBLE * values[0])))
        left, right = left[:, :rank], right[:rank].T
        # Beyond the rank any orthogonal directions would do: take those in which pairs agree most.
        rest = cross_covariance(image, text)
        rest -= left @ (left.T @ rest)
        rest -= (rest @ right) @ right.T
        more_left, _, more_right = svd(rest, full_matrices=False)
        more = slice(None, self.n_bits - rank)
        return np.c_[left, more_left[:, more]], np.c_[right, more_right[more].T]


def unit_labels(labels: Labels) -> sp.csr_array:
    """(n, n_classes) sparse L~: rows of length 1, so that inner products are cosines."""
    labels = sp.csr_array(labels, dtype=np.float64)
    lengths = np.sqrt(labels.sum(axis=1))
    unit = sp.csr_array(labels / np.where(lengths > 0, lengths, 1)[:, None])
    if (unit.max(axis=0) - unit.min(axis=0)).nnz == 0:
        raise InputError(
            f"All {unit.shape[0]:,} items carry the same labels, so there is nothing to tell "
            "apart. Check the labels: items of at least two classes are needed."
        )
    return unit


def semantic_covariance(image: Whitened, text: Whitened, labels: sp.csr_array) -> np.ndarray:
    """(d_image, d_text) X^T S~ Y / n^2 = 2 (X^T L~) (Y^T L~)^T / n^2.

    The other part of S~, 1 1^T, meets centred columns and vanishes.
    """
    return 2 * image.covariance(labels) @ text.covariance(labels).T
