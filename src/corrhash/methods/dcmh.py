"""Deep Cross-Modal Hashing: a likelihood of similarity, and codes that both networks are drawn to.

In the paper's letters: F and G image and text scores of all n training pairs, a row each; B the
codes of the pairs, which both sides share; S similarity; Θ half the inner products of F and G; γ
weight of the codes, η weight of the balance of bits; J the objective.
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
from corrhash.methods.batches import Batch, Rows
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.methods.trainer import Step, Trainer
from corrhash.methods.training import Training
from corrhash.methods.two_networks import Networks

PUBLISHED_NETWORKS = Networks(width=8192, root=False, noise=0.0)


class DCMH(NetworkHasher):
    """Deep Cross-Modal Hashing, supervised and deep (Jiang and Li, CVPR 2017).

    Needs labels, and pairs that belong together, since a pair shares its code. Relatives: CHN, with
    cosines for inner products; MMNN, with distances.

    Its epoch has two passes, images against the scores of all texts, then texts against those of
    all images; then each pair gets a new code. Scores are linear: no tanh.

    Costs O(n b) an item and epoch on top of the two networks, for n training pairs of b bits, and
    keeps three tables of (n, b).

    Parameters
    ----------
    n_bits : length of the codes.
    gamma : weight of the codes; the likelihood has n terms an item, this has one. Try: 1, 10, 100.
    eta : weight of the balance of bits. Large ones freeze or blow up the training, since the scores
        of other batches are as old as an epoch. Try: 0, 0.001, 0.01, 1.
    networks : which networks to train.
    training : how to train them.

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
    learns_from_partners = False  # one similar pair among n dissimilar ones has no say
    bounded = False

    grid: ClassVar = {
        "gamma": (1.0, 100.0),
        "eta": (0.0, 1e-3),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        gamma: float = 1.0,
        eta: float = 0.0,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.gamma = gamma
        self.eta = eta
        self.networks = networks
        self.training = training

    @classmethod
    def literal(
        cls,
        n_bits: int = 64,
        gamma: float = 1.0,
        eta: float = 1.0,
        *,
        networks: Networks = PUBLISHED_NETWORKS,
        **training: Any,
    ) -> Self:
        """As published: γ = η = 1, 8192 hidden units, SGD without momentum for 500 epochs."""
        published = Training(
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
            gamma=gamma,
            eta=eta,
            networks=networks,
            training=replace(published, **training),
        )

    def _trainer(self, pairs: PairedDataset, validation: PairedDataset) -> Trainer:
        return AlternatingTrainer(self, pairs, validation)

    def _loss(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """The first term of J: -Σ (S_ij Θ_ij - ln(1 + exp Θ_ij)), as a mean."""
        loss = pairwise_likelihood_loss(batch.image_scores, batch.text_scores, batch.similarity)
        return loss, {}


class AlternatingTrainer(Trainer):
    """Trains one network against all that the other one said last, then the other way round.

    ``memory`` holds F (``image``), G (``text``) and B (``codes``), (n, b) each. A row of F or G is
    what its network said when the item was last in a batch.
    """

    hasher: DCMH

    def __init__(self, hasher: DCMH, pairs: PairedDataset, validation: PairedDataset) -> None:
        super().__init__(hasher, pairs, validation)
        first = hasher.score_image(pairs.images), hasher.score_text(pairs.texts)
        image, text = (torch.from_numpy(scores).to(self.device) for scores in first)
        self.memory = {"image": image, "text": text, "codes": shared_codes(image, text)}

    def _passes(self) -> Sequence[Step]:
        return [self._image_step, self._text_step]

    def _image_step(self, rows: Rows, epoch: int) -> dict[str, float]:
        """Fix G and B, step down J by the image network."""
        f = self._scores("image", rows.images, epoch)  # (batch, b)
        similarity = self._block(self.relation, rows.images, slice(None))  # (batch, n)
        batch = Batch(f, self.memory["text"], similarity)
        return self._step_of("image", f, rows.images, batch)

    def _text_step(self, rows: Rows, epoch: int) -> dict[str, float]:
        """Fix F and B, step down J by the text network."""
        g = self._scores("text", rows.texts, epoch)  # (batch, b)
        similarity = self._block(self.relation, slice(None), rows.texts)  # (n, batch)
        batch = Batch(self.memory["image"], g, similarity)
        return self._step_of("text", g, rows.texts, batch)

    def _step_of(self, side: str, live: Tensor, rows: np.ndarray, batch: Batch) -> dict[str, float]:
        self.memory[side][rows] = live.detach()
        likelihood, _ = self.hasher._loss(batch)
        codes, balance = self._code_terms(side, live, rows)
        loss = likelihood + self.hasher.gamma * codes + self.hasher.eta * balance  # J
        return self._descend(loss, {"likelihood": float(likelihood.detach())})

    def _code_terms(self, side: str, live: Tensor, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """‖B - F‖² of the batch and ‖Fᵀ 1‖², over the number of pairs in the likelihood."""
        scores = self.memory[side]
        codes = (self.memory["codes"][rows] - live).square().sum()
        rest = scores.sum(dim=0) - live.detach().sum(dim=0)  # of the items outside of the batch
        balance = (rest + live.sum(dim=0)).square().sum()
        n_pairs = len(scores) * len(live)
        return codes / n_pairs, balance / n_pairs

    def _after_epoch(self) -> None:
        self.memory["codes"] = shared_codes(self.memory["image"], self.memory["text"])


def shared_codes(image_scores: Tensor, text_scores: Tensor) -> Tensor:
    """B = sgn(γ (F + G)), with -1 for a sum of 0; a positive γ changes no sign.

    >>> shared_codes(torch.tensor([[0.5, 1.0, 2.0]]), torch.tensor([[1.0, -1.0, -3.0]]))
    tensor([[ 1., -1., -1.]])
    """
    return torch.where(image_scores + text_scores > 0, 1.0, -1.0)
