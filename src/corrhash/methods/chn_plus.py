"""CHN-plus: the correlation hashing network with balanced pairs and regularized networks.

Symbols as in :mod:`corrhash.methods.chn`: u_i and v_j are the continuous codes of image i and text
j, s_ij = ±1 their similarity, δ a margin and λ the weight of the quantization loss.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.losses import (
    Balance,
    active_share,
    cosine_margin_loss,
    quantization_margin_loss,
)
from corrhash.methods._validation import check_count, check_number
from corrhash.methods.chn import check_margin
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.methods.query_refinement import (
    REFERENCE_CODES,
    refine_queries,
    select_reference_codes,
)
from corrhash.networks.hashing_network import Networks
from corrhash.training.batches import Batch
from corrhash.training.config import Training


class CHNPlus(NetworkHasher):
    """CHN-plus: CHN with balanced pairs, pairs within each modality and regularized networks.

    The default method of corrhash, not the one of the paper: that is
    :class:`~corrhash.methods.chn.CHN`. Learns from labels, from relevance judgments of images and
    texts, which need not be aligned, or from the pairing alone.

    Parameters
    ----------
    n_bits : code length.
    cosine_margin : δ of the cosine loss, in (0, 1]. Try 0.3, 0.4, 0.5, 0.7, 0.9.
    quantization_margin : δ of the quantization loss, in (0, 1]. Below 0.7 the loss is almost always
        zero. Try 0.85, 0.9, 0.95.
    quantization_weight : λ. Try 0.03, 0.1, 0.3.
    within_modality_weight : weight of the cosine loss among images and among texts. It takes effect
        only with labels: relevance judgments, the pairing alone and pseudo-labels do not define a
        similarity within a modality. Try 0, 0.5, 1.
    pair_weights : class-balanced weights that give similar and dissimilar pairs equal total weight:
        ``"item"`` for every image and every text, True over the batch as a whole, False for none.
        Without them, codes collapse if similar pairs are rare.
    refine_neighbours : number of nearest training items whose codes refine the code of a query; 0
        turns query refinement off. 20 improves short codes.
    networks : architecture of the two networks.
    training : optimization settings.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> quick = CHNPlus(16, networks=Networks(width=32), training=Training(epochs=2))
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

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        codes = {
            "image": batch.image_codes,
            "text": batch.text_codes,
        }  # (n_images, b), (n_texts, b)
        loss = self._pair_loss(codes["image"], codes["text"], batch.similarity)  # L
        for modality, similarity in (
            batch.within_modality.items() if self.within_modality_weight else ()
        ):
            within = self._pair_loss(codes[modality], codes[modality], similarity)
            loss = loss + self.within_modality_weight * within
        u, v, delta = *codes.values(), self.quantization_margin
        quantization = quantization_margin_loss(u, delta) + quantization_margin_loss(v, delta)  # Q
        active = (active_share(u, delta) + active_share(v, delta)) / 2
        return loss + self.quantization_weight * quantization, {"quantization_active": active}

    def _pair_loss(self, u: Tensor, v: Tensor, similarity: Tensor) -> Tensor:
        """Return the weighted mean of max(0, δ - s_ij cos(u_i, v_j))² over the pairs."""
        return cosine_margin_loss(u, v, similarity, self.cosine_margin, balanced=self.pair_weights)

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_count("refine_neighbours", self.refine_neighbours, least=0)
        for name in ("quantization_weight", "within_modality_weight"):
            check_number(name, getattr(self, name), zero=True)
        for name in ("cosine_margin", "quantization_margin"):
            check_margin(name, getattr(self, name))
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
