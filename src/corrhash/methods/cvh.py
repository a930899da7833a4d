"""Cross-view hashing: linear projections in which images and texts of a pair correlate.

With the pairing alone as similarity, the relaxed problem of the paper is canonical correlation
analysis: find directions of unit variance in which images and texts correlate most.

Symbols of the paper: X and Y are the centred images and texts of n pairs, C_xy their covariance,
A_x and A_y the projections and ρ the canonical correlations.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy

from corrhash.datasets.base import PairedDataset
from corrhash.methods._linear_algebra import (
    LinearHasher,
    Whitened,
    check_n_directions,
    cross_covariance,
)
from corrhash.methods._validation import feature_rows


class CVH(LinearHasher):
    """Cross-view hashing, unsupervised and linear (Kumar & Udupa, IJCAI 2011).

    Later canonical directions are mostly noise, but every bit has the same weight: quality
    decreases beyond about 16 bits. Time is O(n d² + d³) and memory O(d²) for d features; sparse
    texts stay sparse.

    Parameters
    ----------
    n_bits : code length, at most the smaller number of varying features.
    ridge : added to both covariances, relative to their mean eigenvalue. Try 1e-3, 1e-2, 0.1, 1.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) column means of the training data.
    image_projection_, text_projection_ : (d, n_bits), A_x and A_y.
    correlations_ : (n_bits,) canonical correlations ρ on the training pairs, largest first.

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
    grid: ClassVar = {"ridge": (1e-3, 1e-2, 0.1, 1.0, 10.0)}

    correlations_: np.ndarray

    def __init__(self, n_bits: int = 16, *, ridge: float = 0.1) -> None:
        self.n_bits = n_bits
        self.ridge = ridge

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        images = feature_rows(pairs.images, "images")
        texts = feature_rows(pairs.texts, "texts")
        check_n_directions("CVH", self.n_bits, images, texts)
        image, text = Whitened(images, self.ridge), Whitened(texts, self.ridge)
        # R_x^-1 C_xy R_y^-T = U diag(ρ) V^T; A_x = R_x^-T U, A_y = R_y^-T V
        left, rho, right = scipy.linalg.svd(cross_covariance(image, text), full_matrices=False)
        bits = slice(None, self.n_bits)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_ = image.projection(left[:, bits])  # A_x
        self.text_projection_ = text.projection(right.T[:, bits])  # A_y
        self.correlations_ = rho[bits]
