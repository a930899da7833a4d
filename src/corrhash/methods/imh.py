"""Inter-media hashing: codes shared by a pair, smooth among neighbours and linearly predictable.

Every training pair gets one continuous code. It varies little between neighbours in either
modality, and a linear map predicts it from either modality. The optimal codes are eigenvectors; the
maps that predict them are the hash functions.

Symbols of the paper: X_v are the centred images or texts, F the codes of the training pairs, W_v
the maps, L_v the Laplacians of the neighbour graphs, λ the weight of smoothness and β the ridge.
The paper gives each modality its own codes F_x and F_y, tied by a weight that its experiments set
so high that both are equal; this file solves that limit exactly.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from corrhash._progress import report
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods._linear_algebra import (
    LinearHasher,
    RidgeRegression,
    neighbour_laplacian,
    unit_rows,
)
from corrhash.methods._validation import check_number, feature_rows

TASK, N_STEPS = "Fitting IMH", 4
TOLERANCE = 1e-6
"""Relative tolerance of the eigenvalues."""

DENSE = 5_000
"""Most training pairs for which the (n, n) matrix is formed, of 200 MB."""


class IMH(LinearHasher):
    """Inter-media hashing, unsupervised and linear (Song et al., SIGMOD 2013).

    Without smoothness and ridge it is CVH. Later directions carry less information, but every bit
    has the same weight: more than about 16 bits gain little. Time is O(n² d) for the neighbours
    and O(n d² + d³) for the rest, memory O(n d + d²) for d features.

    Parameters
    ----------
    n_bits : code length.
    smoothness : λ, weight of the neighbour graphs. Try 0.01, 0.1, 1, 10.
    ridge : β, relative to the mean eigenvalue of each modality's scatter matrix. Try 0.01, 0.1, 1,
        10.
    n_neighbours : number of nearest items of the same modality that an item is joined to. Try 5,
        10, 20.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) column means of the training data.
    image_projection_, text_projection_ : (d, n_bits), W_v.
    image_threshold_, text_threshold_ : (n_bits,) medians of the training projections.

    References
    ----------
    Jingkuan Song, Yang Yang, Yi Yang, Zi Huang and Heng Tao Shen. Inter-media hashing for
    large-scale retrieval from heterogeneous data sources. SIGMOD 2013.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(600)
    >>> hasher = IMH(n_bits=16).fit(pairs)
    >>> hasher.encode_text(pairs.texts)
    Codes(600 codes of 16 bits)
    """

    needs_labels = False

    grid: ClassVar = {"smoothness": (0.1, 10.0), "ridge": (0.01, 0.1, 1.0, 10.0)}

    image_threshold_: np.ndarray
    text_threshold_: np.ndarray

    def __init__(
        self,
        n_bits: int = 16,
        *,
        smoothness: float = 0.1,
        ridge: float = 1.0,
        n_neighbours: int = 10,
    ) -> None:
        self.n_bits = n_bits
        self.smoothness = smoothness
        self.ridge = ridge
        self.n_neighbours = n_neighbours

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        self._check_params(len(pairs))
        image = RidgeRegression(feature_rows(pairs.images, "images"), self.ridge)
        text = RidgeRegression(feature_rows(pairs.texts, "texts"), self.ridge)
        codes = shared_codes(image, text, self._graphs(image, text), self.n_bits)  # F
        report(TASK, 3, N_STEPS)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_, self.text_projection_ = image.weights(codes), text.weights(codes)
        self.image_threshold_ = np.median(image.predict(codes), axis=0)
        self.text_threshold_ = np.median(text.predict(codes), axis=0)
        report(TASK, 4, N_STEPS)

    def _check_params(self, n: int) -> None:
        check_number("smoothness", self.smoothness, zero=True)
        check_number("ridge", self.ridge, zero=False)
        if self.n_bits >= n:
            raise InputError(
                f"IMH finds at most {n - 1} bits in {n} pairs, got n_bits={self.n_bits}. "
                "Reduce n_bits or add pairs."
            )

    def _graphs(self, image: RidgeRegression, text: RidgeRegression) -> sp.csr_array:
        """Return λ (L_x + L_y)."""
        laplacians = []
        for step, modality in enumerate((image, text), start=1):
            rows = unit_rows(modality.table, modality.mean)
            laplacians.append(neighbour_laplacian(rows, self.n_neighbours))
            report(TASK, step, N_STEPS)
        return self.smoothness * (laplacians[0] + laplacians[1])

    def _embed_image(self, images: Any) -> np.ndarray:
        return super()._embed_image(images) - self.image_threshold_

    def _embed_text(self, texts: Any) -> np.ndarray:
        return super()._embed_text(texts) - self.text_threshold_


def shared_codes(
    image: RidgeRegression, text: RidgeRegression, graphs: sp.csr_array, n_bits: int
) -> np.ndarray:
    """Return F, the (n, n_bits) leading eigenvectors of M = P_x + P_y - λ (L_x + L_y).

    P_v maps codes to their predictions from modality v. Lanczos iterations need only products with
    M, so that no (n, n) matrix is formed, but they converge slowly if eigenvalues are close to one
    another. A matrix of moderate size is formed and decomposed instead.
    """
    n = graphs.shape[0]
    # The constant vector has eigenvalue 0 but carries no information. It is shifted below the
    # spectrum of M, whose smallest eigenvalue is at least minus twice the largest degree.
    shift = 1 + 2 * graphs.diagonal().max()

    def product(codes: np.ndarray) -> np.ndarray:
        predicted = image.predict(codes) + text.predict(codes)
        return predicted - graphs @ codes - shift * codes.mean(axis=0)

    if n <= DENSE:
        import scipy.linalg  # not needed to encode

        matrix = product(np.eye(n))
        matrix = (matrix + matrix.T) / 2
        _, codes = scipy.linalg.eigh(
            matrix, subset_by_index=(n - n_bits, n - 1), overwrite_a=True, check_finite=False
        )
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(n)
        _, codes = eigsh(operator, n_bits, which="LA", v0=start, tol=TOLERANCE)
    return codes[:, ::-1]
