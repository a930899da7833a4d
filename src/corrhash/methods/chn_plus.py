"""CHN-plus: the correlation hashing network, taught by label classifiers and regularized.

Symbols: u_i and v_j are the continuous codes of image i and text j, P_ij the probability that they
are similar, κ the scale of cosines, δ the margin and λ the weight of the quantization loss. The
objective is the mean over pairs of the cross-entropy between P_ij and the logit κ cos(u_i, v_j),
across modalities and within each, plus λ Q with the quantization loss Q of CHN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.losses import (
    Balance,
    active_share,
    cosine_likelihood_loss,
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
from corrhash.networks.config import Networks
from corrhash.networks.inputs import vector_length
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor

    from corrhash.training.trainer import Trainer

PLUS_NETWORKS = Networks(term_dropout=0.2)


class CHNPlus(NetworkHasher):
    """CHN-plus: CHN taught by label classifiers, with balanced pairs and regularized networks.

    The default method of corrhash. It is not the published method, which is
    :class:`~corrhash.methods.chn.CHN`. Learns from labels, from relevance judgments of images and
    texts, which need not be aligned, or from the pairing alone.

    Parameters
    ----------
    n_bits : code length.
    cosine_scale : κ. A cosine of ±1 stands for a logit of ±κ. Try 3, 4, 6.
    quantization_margin : δ of the quantization loss, in (0, 1]. Below 0.7 the loss is almost always
        zero. Try 0.85, 0.9, 0.95.
    quantization_weight : λ. Try 0.03, 0.1, 0.3.
    within_modality_weight : weight of the pairs among images and among texts. It takes effect only
        with labels: relevance judgments, the pairing alone and pseudo-labels do not define a
        similarity within a modality. Try 0, 0.5, 1.
    pair_weights : class-balanced weights that give similar and dissimilar pairs equal total weight:
        ``"item"`` for every image and every text, True over the batch as a whole, False for none.
        Without them, codes collapse if similar pairs are rare.
    label_teacher : whether label classifiers are trained first, and their predictions replace the
        labels in P_ij. It takes effect only with labels and feature vectors; on raw images it is
        not used.
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
        cosine_scale: float = 4.0,
        quantization_margin: float = 0.9,
        quantization_weight: float = 0.1,
        within_modality_weight: float = 0.5,
        pair_weights: Balance = "item",
        label_teacher: bool = True,
        refine_neighbours: int = 0,
        networks: Networks = PLUS_NETWORKS,
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.cosine_scale = cosine_scale
        self.quantization_margin = quantization_margin
        self.quantization_weight = quantization_weight
        self.within_modality_weight = within_modality_weight
        self.pair_weights = pair_weights
        self.label_teacher = label_teacher
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
        """Return the weighted mean cross-entropy between P_ij and the logit κ cos(u_i, v_j)."""
        return cosine_likelihood_loss(
            u, v, similarity, self.cosine_scale, balanced=self.pair_weights
        )

    def _trainer(self, pairs: PairedDataset, validation: PairedDataset) -> Trainer:
        if not (self.label_teacher and _can_teach(pairs)):
            return super()._trainer(pairs, validation)
        from corrhash.methods.label_teacher import SoftSimilarityTrainer, predict_labels

        probabilities = predict_labels(pairs, validation, self.networks, self.training)
        return SoftSimilarityTrainer(self, pairs, validation, probabilities)

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_count("refine_neighbours", self.refine_neighbours, least=0)
        check_number("cosine_scale", self.cosine_scale, zero=False)
        for name in ("quantization_weight", "within_modality_weight"):
            check_number(name, getattr(self, name), zero=True)
        check_margin("quantization_margin", self.quantization_margin)
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


def _can_teach(pairs: PairedDataset) -> bool:
    """Return whether label classifiers can be trained on these pairs."""
    has_labels = pairs.labels is not None and pairs.similarity is None and not pairs.pseudo_labels
    return has_labels and vector_length(pairs.images) is not None
