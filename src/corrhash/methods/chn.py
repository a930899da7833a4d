"""Correlation Hashing Network, as published: max-margin losses for similarity and quantization.

Symbols of the paper: u_i and v_j are the continuous codes of image i and text j, s_ij = ±1 their
similarity, b the number of bits, δ the margin and λ the weight of the quantization loss. The
objective, a sum over the pairs and items of a mini-batch, is O = L + λ Q.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.losses import (
    active_share,
    cosine_margin_loss,
    inner_product_loss,
    quantization_margin_loss,
)
from corrhash.methods._validation import check_number
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.config import Networks
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor

PLAIN_NETWORKS = Networks(sqrt=False, noise=0.0)
"""Networks without transforms of their inputs."""


class CHN(NetworkHasher):
    """Correlation Hashing Network, supervised and deep (Cao et al., BMVC 2017).

    CHN minimizes the objective as printed in the paper. It learns from labels, from image-text
    pairs alone, or from relevance judgments, for which images and texts need not be paired.
    :meth:`from_paper` also uses the networks and the optimizer of the paper.
    :class:`~corrhash.methods.chn_plus.CHNPlus` is an improved method.

    Parameters
    ----------
    n_bits : code length.
    margin : δ of both losses, in (0, 1]. Below 0.7 the quantization loss is almost always zero. Try
        0.5, 0.7, 0.8, 0.9.
    quantization_weight : λ. A batch of n images and n texts has n² terms in L but only 2n in Q, so
        larger batches need a larger weight. Try 1, 10, 100.
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

    grid: ClassVar = {
        "margin": (0.5, 0.8),
        "quantization_weight": (1.0, 10.0),
        "training.learning_rate": (3e-4, 1e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        margin: float = 0.8,
        quantization_weight: float = 10.0,
        networks: Networks = PLAIN_NETWORKS,
        training: Training = Training(batch_size=64),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.margin = margin
        self.quantization_weight = quantization_weight
        self.networks = networks
        self.training = training

    @classmethod
    def from_paper(cls, n_bits: int = 64, **training: Any) -> Self:
        """Return CHN with the networks and the optimizer of the paper.

        The networks have 4096 hidden units with dropout 0.5. SGD with momentum 0.9 runs on batches
        of 64 until validation mAP stops rising. The paper selects ``margin``,
        ``quantization_weight`` and the learning rate (from 1e-5 to 1) by cross-validation; set them
        with :meth:`set_params`. Keyword arguments replace fields of ``training``.
        """
        paper = Training(
            epochs=150,
            patience=6,
            batch_size=64,
            optimizer="sgd",
            learning_rate=1e-4,
            weight_decay=5e-4,
            warmup=0.0,
            new_layer_lr_factor=10.0,
        )
        networks = replace(PLAIN_NETWORKS, width=4096)
        return cls(n_bits, networks=networks, training=replace(paper, **training))

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        u, v = batch.image_codes, batch.text_codes  # (n_images, b), (n_texts, b)
        delta = self._margin()
        quantization = sum(  # Q = Σ max(0, δ - cos(|u_i|, 1)) + Σ max(0, δ - cos(|v_j|, 1))
            quantization_margin_loss(codes, delta, reduction="sum") for codes in (u, v)
        )
        loss = self._similarity_loss(batch) + self._quantization_weight() * quantization  # L + λ Q
        active = (active_share(u, delta) + active_share(v, delta)) / 2
        return loss, {"quantization_active": active}

    def _similarity_loss(self, batch: Batch) -> Tensor:
        """Return L = Σ max(0, δ - s_ij cos(u_i, v_j))²."""
        u, v, s = batch.image_codes, batch.text_codes, batch.similarity
        return cosine_margin_loss(u, v, s, self._margin(), reduction="sum")

    def _margin(self) -> float:
        """Return δ."""
        return self.margin

    def _quantization_weight(self) -> float:
        """Return λ."""
        return self.quantization_weight

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_number("quantization_weight", self.quantization_weight, zero=True)
        check_margin("margin", self.margin)
        super()._fit(pairs, validation)


def check_margin(name: str, margin: float) -> None:
    """Refuse a margin outside (0, 1]."""
    if not isinstance(margin, Real) or not 0 < margin <= 1:
        raise InputError(f"{name} must be greater than 0 and at most 1, got {margin!r}.")


class CHNB(CHN):
    """CHN-B: CHN whose results are ranked by the cosine of continuous codes.

    Comparing it with CHN shows the cost of binarization. Networks and parameters are those of CHN.
    """

    ranked_by = "cosine"


class CHNI(CHN):
    """CHN-I: CHN with inner products instead of cosines.

    An ablation with the parameters of CHN; ``margin`` only affects the quantization loss.
    """

    learns_from_pairs = False  # one similar pair among n dissimilar ones has too little weight

    def _similarity_loss(self, batch: Batch) -> Tensor:
        """Return Σ (s_ij - <u_i, v_j> / b)²."""
        u, v, s = batch.image_codes, batch.text_codes, batch.similarity
        return inner_product_loss(u, v, s, reduction="sum")


class CHNM(CHN):
    """CHN-M: CHN without a margin, δ = 1, so that every pair and every code contributes.

    An ablation with the parameters of CHN; ``margin`` has no effect.
    """

    def _margin(self) -> float:
        return 1.0


class CHNQ(CHN):
    """CHN-Q: CHN without the quantization loss, λ = 0.

    An ablation with the parameters of CHN; ``quantization_weight`` has no effect.
    """

    def _quantization_weight(self) -> float:
        return 0.0
