"""Unsupervised contrastive cross-modal hashing: a memory of binary codes, and a ranking loss.

Symbols of the paper: x_i and y_i are the unit-length continuous codes of image i and text i, v_i
the memory of pair i, b the number of bits, T the temperature, K the number of negatives, S = X Yᵀ
the similarities of a batch, δ the margin, ξ the shift and α the weight of the contrastive loss. The
objective is α L_c + (1 - α) L_r. For h = x and h = y,

    L_c = mean of -ln( exp(s_ii) / (exp(s_ii) + Σ_k exp(s_ik)) ),   s_ik = sign(v_k)·h_i / (T √b)

over K negatives k, and for the rows of S and of Sᵀ

    L_r = δ + mean of ln Σ_j exp(S_ij - S_ii - ξ [S_ij < S_ii - δ])

so that items that are already ranked δ below the paired one count less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.losses import unit_vectors
from corrhash.methods._validation import check_count, check_number
from corrhash.methods.mmnn import with_pairing
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.config import Networks
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor

WARMUP_EPOCHS = 1
"""Epochs in which the batch itself takes the place of the memory, which is filled meanwhile."""


class UCCH(NetworkHasher):
    """Unsupervised contrastive cross-modal hashing, deep, without labels (Hu et al., TPAMI 2023).

    Learns from the pairing alone. The objective is that of the public code. The networks are those
    of the other methods of this package. The best epoch is the one with the highest mAP of
    validation items for their own counterparts. In addition to the networks, a step takes
    O(n (n + K) b) time for a batch of n pairs, and the memory is one (n_pairs, b) table.

    Parameters
    ----------
    n_bits : code length.
    contrast_weight : α, in [0, 1]; the ranking loss has weight 1 - α. Try 0.7, 0.9.
    temperature : T. Try 0.9.
    n_negatives : K, the number of negatives, drawn from the memory with replacement.
    memory_momentum : share of the old value when the memory of a pair is updated, in [0, 1).
    margin : δ of the ranking loss, a cosine. Try 0.2.
    shift : ξ of the ranking loss. Try 0.1, 1.
    networks : architecture of the two networks.
    training : optimization settings.

    Notes
    -----
    Settings differ between the defaults of the public code (α = 0.9, ξ = 1) and its instructions
    for MIRFLICKR-25K (α = 0.7, ξ = 0.1). The code draws K negatives for each item, which can
    include the item itself; here all items of a batch share K draws, and an item is never its own
    negative. The code clips gradients to length 1, which is omitted.

    References
    ----------
    Peng Hu, Hongyuan Zhu, Jie Lin, Dezhong Peng, Yin-Ping Zhao and Xi Peng. Unsupervised
    contrastive cross-modal hashing. IEEE TPAMI 45(3), 2023.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300).without_labels()
    >>> quick = UCCH(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    needs_labels = False
    needs_alignment = True

    grid: ClassVar = {
        "contrast_weight": (0.7, 0.9),
        "shift": (0.1, 1.0),
        "training.learning_rate": (3e-4, 1e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        contrast_weight: float = 0.9,
        temperature: float = 0.9,
        n_negatives: int = 4096,
        memory_momentum: float = 0.4,
        margin: float = 0.2,
        shift: float = 1.0,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.contrast_weight = contrast_weight
        self.temperature = temperature
        self.n_negatives = n_negatives
        self.memory_momentum = memory_momentum
        self.margin = margin
        self.shift = shift
        self.networks = networks
        self.training = training

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        import torch

        x, y = unit_vectors(batch.image_codes), unit_vectors(batch.text_codes)  # (n, b), (n, b)
        own, others, counts = self._compared_codes(batch, x, y)
        contrast = contrastive_loss(x, own, others, counts, self.temperature)  # L_c
        contrast = contrast + contrastive_loss(y, own, others, counts, self.temperature)
        s = x @ y.T
        ranking = ranking_loss(s, self.margin, self.shift)  # L_r
        ranking = ranking + ranking_loss(s.T, self.margin, self.shift)
        loss = self.contrast_weight * contrast + (1 - self.contrast_weight) * ranking
        with torch.no_grad():
            self._update_memory(batch, x, y)
        return loss, {"contrast": contrast.detach(), "ranking": ranking.detach()}

    def _compared_codes(self, batch: Batch, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the binary codes of the batch and of negatives, and how often each was drawn.

        In the first epoch these are codes of the batch, later codes in the memory.
        """
        import torch

        assert batch.rows is not None
        rows = torch.from_numpy(batch.rows.images).to(x.device)
        if batch.epoch < WARMUP_EPOCHS:
            own = (x + y).detach().sign()
            return own, own, 1 - torch.eye(len(own), dtype=x.dtype, device=x.device)
        drawn, counts = (torch.from_numpy(a).to(x.device) for a in self._draw(batch))
        memory = batch.memory["codes"].to(x.dtype)
        other = rows[:, None] != drawn  # an item is not its own negative
        return memory[rows].sign(), memory[drawn].sign(), (counts * other).to(x.dtype)

    def _draw(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Draw K rows of the memory; return them, each once, and how often they were drawn.

        They depend on the seed, the epoch and the batch alone.
        """
        assert batch.rows is not None
        first = int(batch.rows.images[0])  # no other batch of the epoch contains it
        rng = np.random.default_rng([self.training.seed, batch.epoch, first])
        drawn = rng.integers(len(batch.memory["codes"]), size=self.n_negatives)
        return np.unique(drawn, return_counts=True)

    def _update_memory(self, batch: Batch, x: Tensor, y: Tensor) -> None:
        """Move the memory of the pairs in a batch towards the mean of their continuous codes."""
        assert batch.rows is not None
        memory, rows = batch.memory["codes"], batch.rows.images
        momentum = self.memory_momentum if batch.epoch >= WARMUP_EPOCHS else 0.0
        latest = unit_vectors(x + y).to(memory.dtype)
        memory[rows] = unit_vectors(momentum * memory[rows] + (1 - momentum) * latest)

    def initial_memory(self, pairs: PairedDataset) -> dict[str, Tensor]:
        """Return (n_pairs, b) random signs of unit length; the first epoch replaces them."""
        import torch

        generator = torch.Generator().manual_seed(self.training.seed)
        codes = torch.randn(len(pairs), self.n_bits, generator=generator).sign()
        return {"codes": codes / self.n_bits**0.5}

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        for name in ("contrast_weight", "memory_momentum", "margin", "shift"):
            check_number(name, getattr(self, name), zero=True)
        if self.contrast_weight > 1:
            raise InputError(f"contrast_weight must be at most 1, got {self.contrast_weight!r}.")
        if self.memory_momentum >= 1:
            raise InputError(f"memory_momentum must be below 1, got {self.memory_momentum!r}.")
        check_number("temperature", self.temperature, zero=False)
        check_count("n_negatives", self.n_negatives)
        super()._fit(with_pairing(pairs), None if validation is None else with_pairing(validation))


def contrastive_loss(
    h: Tensor, own: Tensor, negatives: Tensor, counts: Tensor, temperature: float
) -> Tensor:
    """Return the mean of -ln( exp(s_ii) / (exp(s_ii) + Σ_k exp(s_ik)) ).

    Parameters
    ----------
    h : (n, b) continuous codes of unit length.
    own : (n, b) binary codes in the memory of the same pairs.
    negatives : (m, b) binary codes of drawn pairs.
    counts : (n, m) how often negative k counts for item i; 0 excludes it.
    temperature : T.

    Examples
    --------
    >>> import torch
    >>> h, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 1.0]])
    >>> contrastive_loss(h, -other, other, torch.tensor([[1.0]]), 0.5)  # s_ii = √2, s_ik = -√2
    tensor(0.0574)
    """
    import torch

    scale = temperature * h.shape[1] ** 0.5  # T √b
    positive = (own * h).sum(dim=1, keepdim=True) / scale  # s_ii, (n, 1)
    others = h @ negatives.T / scale + counts.log()  # s_ik, (n, m); ln 0 = -inf
    return (torch.cat([positive, others], dim=1).logsumexp(dim=1) - positive[:, 0]).mean()


def ranking_loss(s: Tensor, margin: float, shift: float) -> Tensor:
    """Return δ + mean of ln Σ_j exp(S_ij - S_ii - ξ [S_ij < S_ii - δ]).

    >>> import torch
    >>> ranking_loss(torch.tensor([[0.5, 0.4], [0.0, 0.5]]), 0.2, 1.0)  # one is within the margin
    tensor(0.6229)
    """
    gaps = s - s.diagonal()[:, None]  # S_ij - S_ii
    return margin + (gaps - shift * (gaps < -margin)).logsumexp(dim=1).mean()
