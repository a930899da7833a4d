"""Deep cross-modal hashing: a pairwise likelihood, and codes that both modalities share.

Symbols of the paper: F and G are the (n, b) continuous codes of all training images and texts, B
the binary codes that the two items of a pair share, S the similarity, Θ = F Gᵀ / 2, γ the weight of
quantization and η the weight of bit balance. The objective is

    J = -Σ_ij (S_ij Θ_ij - ln(1 + exp Θ_ij)) + γ (‖B - F‖² + ‖B - G‖²) + η (‖Fᵀ 1‖² + ‖Gᵀ 1‖²)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from corrhash.datasets import PairedDataset
from corrhash.losses import pairwise_likelihood_loss
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.hashing_network import Networks
from corrhash.training.batches import Batch, Rows
from corrhash.training.config import Training
from corrhash.training.trainer import Step, Trainer

PAPER_NETWORKS = Networks(width=8192, sqrt=False, noise=0.0)


class DCMH(NetworkHasher):
    """Deep Cross-Modal Hashing, supervised and deep (Jiang and Li, CVPR 2017).

    An epoch has two passes, images against the codes of all texts and texts against the codes of
    all images; then each pair gets a new binary code. The hash layers are linear, without tanh. In
    addition to the networks, an epoch takes O(n² b) time and three (n, b) tables of memory.

    Parameters
    ----------
    n_bits : code length.
    quantization_weight : γ. Each item has n likelihood terms and one quantization term. Try 1, 10,
        100.
    balance_weight : η. Large values stall training or make it diverge, because the codes outside a
        batch are up to an epoch old. Try 0, 0.001, 0.01, 1.
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
        """Return DCMH with the settings of the paper.

        γ = η = 1, 8192 hidden units and 500 epochs of SGD without momentum. Other keyword arguments
        replace fields of ``training``, such as ``epochs``.
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
        return AlternatingTrainer(self, pairs, validation)

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Return the first term of J, -Σ (S_ij Θ_ij - ln(1 + exp Θ_ij)), as a mean."""
        loss = pairwise_likelihood_loss(batch.image_codes, batch.text_codes, batch.similarity)
        return loss, {}


class AlternatingTrainer(Trainer):
    """Trains the image network against the latest codes of all texts, then the other way round.

    ``memory`` holds F (``image``), G (``text``) and B (``codes``), each (n, b). A row of F or G is
    the output of its network when the item was last in a batch.
    """

    hasher: DCMH

    def __init__(self, hasher: DCMH, pairs: PairedDataset, validation: PairedDataset) -> None:
        super().__init__(hasher, pairs, validation)
        image, text = (
            torch.from_numpy(self._embed(modality, self.inputs, len(pairs))).to(self.device)
            for modality in ("image", "text")
        )
        self.memory = {"image": image, "text": text, "codes": shared_codes(image, text)}

    def _passes(self) -> Sequence[Step]:
        return [self._image_step, self._text_step]

    def _image_step(self, rows: Rows, epoch: int) -> dict[str, float]:
        """Fix G and B, and take a gradient step of J in the image network."""
        f = self._continuous_codes("image", rows.images, epoch)  # (batch, b)
        similarity = self._similarity_block(self.similarity, rows.images, slice(None))  # (batch, n)
        batch = Batch(f, self.memory["text"], similarity)
        return self._network_step("image", f, rows.images, batch)

    def _text_step(self, rows: Rows, epoch: int) -> dict[str, float]:
        """Fix F and B, and take a gradient step of J in the text network."""
        g = self._continuous_codes("text", rows.texts, epoch)  # (batch, b)
        similarity = self._similarity_block(self.similarity, slice(None), rows.texts)  # (n, batch)
        batch = Batch(self.memory["image"], g, similarity)
        return self._network_step("text", g, rows.texts, batch)

    def _network_step(
        self, modality: str, output: Tensor, rows: np.ndarray, batch: Batch
    ) -> dict[str, float]:
        self.memory[modality][rows] = output.detach()
        likelihood, _ = self.hasher.batch_loss(batch)
        quantization, balance = self._code_terms(modality, output, rows)
        gamma, eta = self.hasher.quantization_weight, self.hasher.balance_weight
        loss = likelihood + gamma * quantization + eta * balance  # J
        return self._optimize(loss, {"likelihood": float(likelihood.detach())})

    def _code_terms(self, modality: str, output: Tensor, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return ‖B - F‖² over the batch and ‖Fᵀ 1‖², divided by the number of likelihood terms."""
        latest = self.memory[modality]
        quantization = (self.memory["codes"][rows] - output).square().sum()
        rest = latest.sum(dim=0) - output.detach().sum(dim=0)  # over items outside the batch
        balance = (rest + output.sum(dim=0)).square().sum()
        n_terms = len(latest) * len(output)
        return quantization / n_terms, balance / n_terms

    def _after_epoch(self) -> None:
        self.memory["codes"] = shared_codes(self.memory["image"], self.memory["text"])


def shared_codes(image_codes: Tensor, text_codes: Tensor) -> Tensor:
    """Return B = sign(γ (F + G)), with sign(0) = -1; γ > 0 does not change the sign.

    >>> shared_codes(torch.tensor([[0.5, 1.0, 2.0]]), torch.tensor([[1.0, -1.0, -3.0]]))
    tensor([[ 1., -1., -1.]])
    """
    return torch.where(image_codes + text_codes > 0, 1.0, -1.0)
