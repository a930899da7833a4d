"""Correlation Hashing Network: a cosine max-margin loss and a quantization max-margin loss.

Symbols of the paper: u_i and v_j are the continuous codes of image i and text j, s_ij = ±1 their
similarity, b the number of bits, δ a margin and λ the weight of the quantization loss. The
objective is O = L + λ Q, with the cosine loss L and the quantization loss Q.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.losses import (
    Balance,
    active_share,
    cosine_margin_loss,
    inner_product_loss,
    quantization_margin_loss,
)
from corrhash.methods._validation import check_count, check_number
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.methods.query_refinement import (
    REFERENCE_CODES,
    refine_queries,
    select_reference_codes,
)
from corrhash.networks.hashing_network import Networks
from corrhash.training.batches import Batch
from corrhash.training.config import Training

PAPER_NETWORKS = Networks(width=4096, sqrt=False, noise=0.0)


class CHN(NetworkHasher):
    """Correlation Hashing Network, supervised and deep (Cao et al., BMVC 2017).

    Learns from labels, from relevance judgments of images and texts, which need not be aligned, or
    from the pairing alone. The defaults differ from the paper; :meth:`from_paper` has its settings.

    Parameters
    ----------
    n_bits : code length.
    cosine_margin : δ of the cosine loss, in (0, 1]. Try 0.3, 0.4, 0.5, 0.7, 0.9.
    quantization_margin : δ of the quantization loss, in (0, 1]. Below 0.85 the loss is rarely
        active. Try 0.85, 0.9, 0.95.
    quantization_weight : λ. Try 0.03, 0.1, 0.3.
    within_modality_weight : weight of the cosine loss among images and among texts; 0 in the paper.
        It takes effect only with labels: relevance judgments, the pairing alone and pseudo-labels
        do not define a similarity within a modality. Try 0, 0.5, 1.
    pair_weights : class-balanced weights that give similar and dissimilar pairs equal total weight:
        ``"item"`` for every image and every text, True over the batch as a whole, False for none
        as in the paper. Without them, codes collapse if similar pairs are rare.
    refine_neighbours : number of nearest training items whose codes refine the code of a query; 0
        turns query refinement off, as in the paper. 20 improves short codes.
    networks : architecture of the two networks.
    training : optimization settings.

    References
    ----------
    Yue Cao, Mingsheng Long, Jianmin Wang and Philip S. Yu. Correlation hashing network for
    efficient cross-modal retrieval. BMVC 2017.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> quick = CHN(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    reference_codes_: np.ndarray

    grid: ClassVar = {
        "quantization_weight": (0.03, 0.1, 0.3),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        cosine_margin: float = 0.4,
        quantization_margin: float = 0.9,
        quantization_weight: float = 0.1,
        within_modality_weight: float = 0.5,
        pair_weights: Balance = "item",
        refine_neighbours: int = 0,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.cosine_margin = cosine_margin
        self.quantization_margin = quantization_margin
        self.quantization_weight = quantization_weight
        self.within_modality_weight = within_modality_weight
        self.pair_weights = pair_weights
        self.refine_neighbours = refine_neighbours
        self.networks = networks
        self.training = training

    @classmethod
    def from_paper(
        cls,
        n_bits: int = 64,
        *,
        margin: float = 0.5,
        quantization_weight: float = 0.1,
        networks: Networks = PAPER_NETWORKS,
        **training: Any,
    ) -> Self:
        """Return CHN with the settings of the paper.

        One margin for both losses, no pair weights, no loss within a modality, 4096 hidden units
        and SGD. Other keyword arguments replace fields of ``training``, such as ``epochs``.
        """
        paper = Training(
            optimizer="sgd",
            learning_rate=0.1,
            weight_decay=5e-4,
            batch_size=64,
            warmup=0.0,
            new_layer_lr_factor=10.0,
        )
        return cls(
            n_bits,
            cosine_margin=margin,
            quantization_margin=margin,
            quantization_weight=quantization_weight,
            within_modality_weight=0.0,
            pair_weights=False,
            networks=networks,
            training=replace(paper, **training),
        )

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        u, v = batch.image_codes, batch.text_codes  # (n_images, b), (n_texts, b)
        _, delta = self._margins()
        quantization = quantization_margin_loss(u, delta) + quantization_margin_loss(v, delta)  # Q
        loss = self._similarity_loss(batch) + self._quantization_weight() * quantization  # L + λ Q
        active = (active_share(u, delta) + active_share(v, delta)) / 2
        return loss, {"quantization_active": active}

    def _similarity_loss(self, batch: Batch) -> Tensor:
        """Return L between images and texts, plus the weighted L within each modality."""
        codes = {"image": batch.image_codes, "text": batch.text_codes}
        loss = self._pair_loss(codes["image"], codes["text"], batch.similarity)
        for modality, similarity in (
            batch.within_modality.items() if self.within_modality_weight else ()
        ):
            within = self._pair_loss(codes[modality], codes[modality], similarity)
            loss = loss + self.within_modality_weight * within
        return loss

    def _pair_loss(self, u: Tensor, v: Tensor, similarity: Tensor) -> Tensor:
        """Return L, the mean of max(0, δ - s_ij cos(u_i, v_j))² over the pairs of the batch."""
        delta, _ = self._margins()
        return cosine_margin_loss(u, v, similarity, delta, balanced=self.pair_weights)

    def _margins(self) -> tuple[float, float]:
        """Return δ of the cosine loss and δ of the quantization loss."""
        return self.cosine_margin, self.quantization_margin

    def _quantization_weight(self) -> float:
        """Return λ."""
        return self.quantization_weight

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_count("refine_neighbours", self.refine_neighbours, least=0)
        for name in ("quantization_weight", "within_modality_weight"):
            check_number(name, getattr(self, name), zero=True)
        names = ("cosine_margin", "quantization_margin")
        for name, margin in zip(names, self._margins(), strict=True):
            if not isinstance(margin, Real) or not 0 < margin <= 1:
                raise InputError(f"{name} must be greater than 0 and at most 1, got {margin!r}.")
        super()._fit(pairs, validation)
        if self.refine_neighbours:
            self.reference_codes_ = select_reference_codes(
                self.embed_image(pairs.images), self.embed_text(pairs.texts)
            )

    def query_codes(self, continuous: np.ndarray) -> Codes:
        if not self.refine_neighbours:
            return super().query_codes(continuous)
        return refine_queries(continuous, self.reference_codes_, self.refine_neighbours)

    def learned(self) -> dict[str, np.ndarray]:
        learned = super().learned()
        if learned and self.refine_neighbours:
            learned[REFERENCE_CODES] = self.reference_codes_
        return learned

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        super()._restore(arrays, description)
        if self.refine_neighbours:
            self.reference_codes_ = arrays[REFERENCE_CODES]


class CHNB(CHN):
    """CHN-B: CHN whose results are ranked by the cosine of continuous codes.

    An upper bound on CHN that shows the cost of binarization. It learns the same networks and has
    the same parameters.
    """

    ranked_by = "cosine"


class CHNI(CHN):
    """CHN-I: CHN with inner products instead of cosines.

    An ablation with the parameters of CHN; ``cosine_margin`` has no effect.
    """

    def _pair_loss(self, u: Tensor, v: Tensor, similarity: Tensor) -> Tensor:
        """Return the mean of (s_ij - <u_i, v_j> / b)² over the pairs of the batch."""
        return inner_product_loss(u, v, similarity, balanced=self.pair_weights)


class CHNM(CHN):
    """CHN-M: CHN without margins, δ = 1, so that every pair and every code contributes.

    An ablation with the parameters of CHN; the two margins have no effect.
    """

    def _margins(self) -> tuple[float, float]:
        return 1.0, 1.0


class CHNQ(CHN):
    """CHN-Q: CHN without the quantization loss, λ = 0.

    An ablation with the parameters of CHN; ``quantization_weight`` has no effect.
    """

    def _quantization_weight(self) -> float:
        return 0.0
