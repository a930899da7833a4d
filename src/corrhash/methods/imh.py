"""Inter-media hashing: codes that are smooth among neighbours, shared by a pair, and predictable.

Each pair gets one real-valued code. It should differ little between neighbours on either side, and
a linear map should be able to predict it from either side. The best such codes are eigenvectors;
the maps that predict them are the hash functions.

In the paper's letters: X_v the centred images or texts, F the codes of the training pairs, W_v the
maps, L_v the Laplacians of the neighbour graphs; λ the smoothness, β the ridge. The paper lets the
two sides of a pair have codes of their own, F_x and F_y, held together by a weight that its
experiments set so high that they are one; that limit is computed here exactly.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.base import feature_rows
from corrhash.methods.linear_hasher import LinearHasher
from corrhash.methods.neighbours import neighbour_laplacian, unit_rows
from corrhash.methods.ridge_map import RidgeMap
from corrhash.methods.setting_checks import check_number
from corrhash.progress import report

TASK, N_PARTS = "Learning IMH: two graphs, codes, maps", 4
TOLERANCE = 1e-6  # of the eigenvalues, relative


class IMH(LinearHasher):
    """Inter-media hashing, unsupervised and linear (Song et al., SIGMOD 2013).

    Needs aligned pairs of feature vectors and tag occurrences; labels are not used. Relatives: CVH,
    which it becomes without neighbours and without a ridge; RaHH, which has such neighbourhoods and
    labels. Later directions carry less than early ones yet weigh as much, so codes gain little
    beyond some 16 bits.

    Costs O(n^2 d) time for the neighbours and O(n d^2 + d^3) for the rest, with O(n d + d^2) memory
    for d columns.

    Parameters
    ----------
    n_bits : length of the codes.
    smoothness : weight of the neighbour graphs, the paper's λ. Try: 0.01, 0.1, 1, 10.
    ridge : keeps the maps small, the paper's β relative to the mean eigenvalue of each side's
        scatter matrix. Try: 0.01, 0.1, 1, 10.
    n_neighbours : to how many nearest items of its side an item is joined. Try: 5, 10, 20.

    Attributes
    ----------
    image_mean_, text_mean_ : (d,) means of the training columns.
    image_projection_, text_projection_ : (d, n_bits), the paper's W_v.
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
        self._check(len(pairs))
        image = RidgeMap(feature_rows(pairs.images, "images"), self.ridge)
        text = RidgeMap(feature_rows(pairs.texts, "texts"), self.ridge)
        codes = shared_codes(image, text, self._graphs(image, text), self.n_bits)  # F
        report(TASK, 3, N_PARTS)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_, self.text_projection_ = image.weights(codes), text.weights(codes)
        self.image_threshold_ = np.median(image.predict(codes), axis=0)
        self.text_threshold_ = np.median(text.predict(codes), axis=0)
        report(TASK, 4, N_PARTS)

    def _check(self, n: int) -> None:
        check_number("smoothness", self.smoothness, zero=True)
        check_number("ridge", self.ridge, zero=False)
        if self.n_bits >= n:
            raise InputError(
                f"IMH finds at most {n - 1} bits in {n} pairs. Got n_bits={self.n_bits}. "
                "Reduce n_bits, or give more pairs."
            )

    def _graphs(self, image: RidgeMap, text: RidgeMap) -> sp.csr_array:
        """λ (L_x + L_y)."""
        graphs = []
        for part, side in enumerate((image, text), start=1):
            graphs.append(neighbour_laplacian(unit_rows(side.table, side.mean), self.n_neighbours))
            report(TASK, part, N_PARTS)
        return self.smoothness * (graphs[0] + graphs[1])

    def _score_image(self, images: Any) -> np.ndarray:
        return super()._score_image(images) - self.image_threshold_

    def _score_text(self, texts: Any) -> np.ndarray:
        return super()._score_text(texts) - self.text_threshold_


def shared_codes(image: RidgeMap, text: RidgeMap, graphs: sp.csr_array, n_bits: int) -> np.ndarray:
    """(n, n_bits) F: eigenvectors with the largest eigenvalues of M = P_x + P_y - λ (L_x + L_y).

    P_v maps codes to what side v can predict of them. Lanczos iterations need products with M only,
    so that no (n, n) matrix is made.
    """
    n = graphs.shape[0]
    # The same value for all pairs is as smooth as can be, but no code: its eigenvalue 0 is put
    # below those of M, which are at least minus twice the largest degree.
    below = 1 + 2 * graphs.diagonal().max()

    def product(code: np.ndarray) -> np.ndarray:
        return image.predict(code) + text.predict(code) - graphs @ code - below * code.mean()

    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    _, codes = eigsh(operator, n_bits, which="LA", v0=start, tol=TOLERANCE)
    return codes[:, ::-1]
