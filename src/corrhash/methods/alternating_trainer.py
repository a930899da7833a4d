"""AlternatingTrainer: the training of DCMH, one network at a time; symbols as in ``dcmh.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from corrhash.datasets.base import PairedDataset
from corrhash.training.batches import Batch, Rows
from corrhash.training.trainer import Step, Trainer

if TYPE_CHECKING:
    from corrhash.methods.dcmh import DCMH


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
