"""Deep cross-modal hashing: a pairwise likelihood, and codes that both modalities share.

Symbols of the paper: F and G are the (n, b) continuous codes of all training images and texts, B
the binary codes that the two items of a pair share, S the similarity (1 or 0), Θ = F Gᵀ / 2, γ the
weight of quantization and η the weight of bit balance. The objective is

    J = -Σ_ij (S_ij Θ_ij - ln(1 + exp Θ_ij)) + γ (‖B - F‖² + ‖B - G‖²) + η (‖Fᵀ 1‖² + ‖Gᵀ 1‖²)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from corrhash.datasets.base import PairedDataset
from corrhash.losses import pairwise_likelihood_loss
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.config import Networks
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor

    from corrhash.training.trainer import Trainer

PAPER_NETWORKS = Networks(width=8192, sqrt=False, noise=0.0)


class DCMH(NetworkHasher):
    """Deep Cross-Modal Hashing, supervised and deep (Jiang and Li, CVPR 2017).

    Each epoch trains the image network against the codes of all training texts, then the text
    network against the codes of all training images, and then computes a new binary code for each
    pair. The hash layers are linear, without tanh. With n training pairs and b bits, an epoch takes
    O(n² b) time in addition to the cost of the networks, and training keeps three (n, b) arrays in
    memory.

    Parameters
    ----------
    n_bits : code length.
    quantization_weight : γ, the weight of the term that pulls continuous codes towards the binary
        code of their pair. Each item has n likelihood terms but only one quantization term, so the
        same value has less effect on a larger training set. Try 1, 10, 100.
    balance_weight : η, the weight of the term that pushes each bit to be positive for half of the
        items. Larger values, such as the 1 of the paper, can stall training or make it diverge,
        because codes outside the current batch are outdated by up to one epoch. Try 0, 0.001, 0.01.
    networks : architecture of the two networks.
    training : optimization settings.

    References
    ----------
    Qing-Yuan Jiang and Wu-Jun Li. Deep cross-modal hashing. CVPR 2017.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> quick = DCMH(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    needs_alignment = True
    learns_from_pairs = False  # one similar pair among n dissimilar ones has too little weight
    bounded = False

    grid: ClassVar = {
        "quantization_weight": (1.0, 100.0),
        "balance_weight": (0.0, 1e-3),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        quantization_weight: float = 1.0,
        balance_weight: float = 0.0,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.quantization_weight = quantization_weight
        self.balance_weight = balance_weight
        self.networks = networks
        self.training = training

    @classmethod
    def from_paper(
        cls,
        n_bits: int = 64,
        *,
        quantization_weight: float = 1.0,
        balance_weight: float = 1.0,
        networks: Networks = PAPER_NETWORKS,
        **training: Any,
    ) -> Self:
        """Return DCMH with the loss weights and the optimizer of the paper.

        γ = η = 1, 8192 hidden units and 500 epochs of SGD without momentum. The image network of
        the paper, a fine-tuned CNN-F, is not available. Other keyword arguments replace fields of
        ``training``, such as ``epochs``.
        """
        paper = Training(
            epochs=500,
            batch_size=128,
            optimizer="sgd",
            momentum=0.0,
            learning_rate=10**-1.5,
            weight_decay=5e-4,
            warmup=0.0,
            schedule="linear",
        )
        return cls(
            n_bits,
            quantization_weight=quantization_weight,
            balance_weight=balance_weight,
            networks=networks,
            training=replace(paper, **training),
        )

    def _trainer(self, pairs: PairedDataset, validation: PairedDataset) -> Trainer:
        from corrhash.methods.alternating_trainer import AlternatingTrainer

        return AlternatingTrainer(self, pairs, validation)

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Return the first term of J, -Σ (S_ij Θ_ij - ln(1 + exp Θ_ij)), as a mean."""
        loss = pairwise_likelihood_loss(batch.image_codes, batch.text_codes, batch.similarity)
        return loss, {}
