"""Differentiable cross-modal hashing: a contrastive loss on codes of two softmax units per bit.

Symbols of the paper: p_i is the relaxed code of item i, two softmax units per bit; D_ij the
Euclidean distance of two relaxed codes, S_ij = 1 for similar and 0 for dissimilar pairs, b the
number of bits and M = √(2 b ϑ) the margin. The objective is the sum, over image-text, image-image
and text-text pairs, of

    mean (S_ij D_ij)² + mean ((1 - S_ij) (M - min(D_ij, M)))²

plus the weighted quantization loss 1 - mean (2 p - 1)². A softmax over two units depends only on
their difference z, and p = ((1 + h) / 2, (1 - h) / 2) with h = tanh(z / 2). The networks return h,
so that D_ij = ‖h_i - h_j‖ / √2, 2 p - 1 = ±h, and the larger unit of a bit is the sign of h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from corrhash.datasets.base import PairedDataset
from corrhash.losses import SMALLEST_SQUARE, as_similarity, over_pairs, squared_distances
from corrhash.methods._validation import check_number
from corrhash.methods.chn import check_margin
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.config import Networks
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor


class DCHMT(NetworkHasher):
    """Differentiable cross-modal hashing, supervised and deep (Tu et al., ACM MM 2022).

    The objective is that of the paper. The networks are those of the other methods of this package,
    not the CLIP encoders that the paper fine-tunes. Learns from labels, or from relevance judgments
    of images and texts, which need not be aligned.

    Parameters
    ----------
    n_bits : code length.
    margin : ϑ, in (0, 1]: the share of bits in which dissimilar codes should differ. Try 0.5, 0.75.
    quantization_weight : weight of the quantization loss. Try 0, 0.001, 0.1.
    networks : architecture of the two networks.
    training : optimization settings.

    Notes
    -----
    The public code has ϑ = 0.5 by default and 0.75 in its instructions, which is the default here.
    Its first version has no quantization loss for softmax units; a later one has it with weight
    0.001. A pair of an item with itself counts within a modality, where it adds nothing.

    References
    ----------
    Junfeng Tu, Xueliang Liu, Zongxiang Lin, Richang Hong and Meng Wang. Differentiable cross-modal
    hashing via multimodal transformers. ACM Multimedia 2022.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> quick = DCHMT(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    learns_from_pairs = False  # one similar pair among n dissimilar ones has too little weight

    grid: ClassVar = {
        "margin": (0.5, 0.75),
        "quantization_weight": (0.001, 0.1),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        margin: float = 0.75,
        quantization_weight: float = 0.001,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.margin = margin
        self.quantization_weight = quantization_weight
        self.networks = networks
        self.training = training

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        h = {"image": batch.image_codes, "text": batch.text_codes}  # (n_images, b), (n_texts, b)
        loss = selection_loss(h["image"], h["text"], batch.similarity, self.margin)
        for modality, similarity in batch.within_modality.items():
            loss = loss + selection_loss(h[modality], h[modality], similarity, self.margin)
        quantization = sum(1 - codes.square().mean() for codes in h.values()) / 2
        return loss + self.quantization_weight * quantization, {}

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_margin("margin", self.margin)
        check_number("quantization_weight", self.quantization_weight, zero=True)
        super()._fit(pairs, validation)


def selection_loss(u: Tensor, v: Tensor, similarity: Tensor, margin: float) -> Tensor:
    """Return mean (S D)² + mean ((1 - S) (M - min(D, M)))² over the known pairs.

    Parameters
    ----------
    u : (n, b) differences of the two units of each bit, in [-1, 1].
    v : (m, b) of the other modality or of the same one.
    similarity : (n, m) of +1, -1 and 0 (unknown).
    margin : ϑ, in (0, 1].

    Examples
    --------
    >>> import torch
    >>> u, v = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, -1.0]])
    >>> selection_loss(u, v, torch.tensor([[1, -1]]), margin=1.0)  # D² = 0.5 and 2, M = 2
    tensor(0.4216)
    """
    s = as_similarity(similarity, u, v)
    squares = squared_distances(u, v) / 2  # D²
    m = (2 * margin * u.shape[1]) ** 0.5  # M: codes that differ in all bits have distance √(2 b)
    gaps = (m - (squares + SMALLEST_SQUARE).sqrt()).clamp(min=0)  # M - min(D, M)
    return over_pairs(squares * (s > 0) + gaps.square() * (s < 0), s)
