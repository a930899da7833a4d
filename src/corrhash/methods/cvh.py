"""Cross-view hashing: linear projections in which the two sides of a pair agree.

With the pairing alone as similarity, the relaxed problem of the paper is canonical correlation
analysis: among directions of unit variance, find those in which images and texts correlate most.

In the paper's letters: X images and Y texts, centred, n pairs; C the covariances, A_x and A_y the
projections, rho the correlations.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.linalg import svd

from corrhash.datasets.base import PairedDataset
from corrhash.methods.base import feature_rows
from corrhash.methods.linear_hasher import LinearHasher
from corrhash.methods.whitened import Whitened, check_n_directions, cross_covariance


class CVH(LinearHasher):
    """Cross-view hashing, unsupervised and linear (Kumar & Udupa, IJCAI 2011).

    Needs aligned pairs of feature vectors and tag occurrences; labels are not used. Relatives: IMH
    adds neighbourhoods within each side, SCM puts labels in place of the pairing. Later canonical
    directions are mostly noise yet weigh as much as early ones, so codes get worse beyond some 16
    bits.

    Costs O(n d^2 + d^3) time and O(d^2) memory for d columns; sparse texts stay sparse.

    Parameters
    ----------
    n_bits : length of the codes; at most the smaller number of (varying) columns.
    eps : ridge on both covariances, relative to their mean eigenvalue. Try: 1e-3, 1e-2, 0.1, 1.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) means of the training columns.
    image_projection_, text_projection_ : (d, n_bits), the paper's A_x and A_y.
    correlations_ : (n_bits,) canonical correlations on the training pairs, largest first.

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
    grid: ClassVar = {"eps": (1e-3, 1e-2, 0.1, 1.0, 10.0)}

    correlations_: np.ndarray

    def __init__(self, n_bits: int = 16, *, eps: float = 0.1) -> None:
        self.n_bits = n_bits
        self.eps = eps

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        images = feature_rows(pairs.images, "images")
        texts = feature_rows(pairs.texts, "texts")
        check_n_directions("CVH", self.n_bits, images, texts)
        image, text = Whitened(images, self.eps), Whitened(texts, self.eps)
        # T = R_x^-1 C_xy R_y^-T; both signs from one SVD.
        left, rho, right = svd(cross_covariance(image, text), full_matrices=False)
        bits = slice(None, self.n_bits)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_ = image.projection(left[:, bits])  # A_x
        self.text_projection_ = text.projection(right.T[:, bits])  # A_y
        self.correlations_ = rho[bits]
