"""Deep semantic-aware proxy hashing: class proxies, and a loss that separates irrelevant pairs.

Symbols of the paper: x_i and y_i are the continuous codes of image i and text i, p_c the proxy of
class c, b the number of bits, C the number of classes, t the cosine above which irrelevant codes
are pushed apart, and α the weight of irrelevant pairs. The objective is

    L = Σ_m [ mean over own classes of (1 - cos(m_i, p_c))
            + mean over other classes of max(0, cos(m_i, p_c) - t) ]
      + α Σ_(m, m') mean over irrelevant pairs of max(0, cos(m_i, m'_j) - t)

with m = x and m = y, and (m, m') = (x, x), (y, y) and (x, y). An irrelevant pair consists of two
items that each have several classes and share none of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.losses import cosines, mean_where
from corrhash.methods._validation import check_number
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.config import Networks
from corrhash.training.batches import Batch
from corrhash.training.config import Training

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter
    from torch.optim import Optimizer

PROXY_MOMENTUM = 0.9
PROXY_WEIGHT_DECAY = 5e-4


class DSPH(NetworkHasher):
    """Deep semantic-aware proxy hashing, supervised and deep (Huo et al., TCSVT 2024).

    DSPH minimizes the objective of the paper, but does not fine-tune CLIP encoders as the paper
    does: it uses the same networks as the other deep methods in this package. The proxies are
    trained together with the networks, by SGD with momentum 0.9, and are not needed for encoding.
    In addition to the cost of the networks, a step takes O(n (n + C) b) time for a batch of n
    pairs.

    Parameters
    ----------
    n_bits : code length.
    irrelevant_weight : α. Try 0.4, 0.8.
    threshold : t, a cosine in [-1, 1); if None, :func:`coding_threshold` computes it.
    proxy_learning_rate : learning rate of the proxies, constant during training. Try 0.02, 0.2.
    networks : architecture of the two networks.
    training : optimization settings of the networks.

    Notes
    -----
    The authors' code looks up t in a table from coding theory, by b and ⌈log2 C⌉. This class
    computes t from the Griesmer bound instead (see :func:`coding_threshold`). The bound on the
    distance between codes is exact for many code lengths and at most a few bits too large for
    others.

    References
    ----------
    Yadong Huo, Qibing Qin, Jiangyan Dai, Lei Wang, Wenfeng Zhang, Lei Huang and Chengduan Wang.
    Deep semantic-aware proxy hashing for multi-label cross-modal retrieval. IEEE TCSVT 34(1), 2024.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> quick = DSPH(16, networks=Networks(width=32), training=Training(epochs=2))
    >>> quick.fit(pairs).encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    needs_alignment = True
    learns_from_pairs = False  # without classes there are no proxies

    grid: ClassVar = {
        "irrelevant_weight": (0.4, 0.8),
        "proxy_learning_rate": (0.02, 0.2),
        "training.learning_rate": (1e-3, 3e-3),
    }

    def __init__(
        self,
        n_bits: int = 64,
        *,
        irrelevant_weight: float = 0.8,
        threshold: float | None = None,
        proxy_learning_rate: float = 0.02,
        networks: Networks = Networks(),  # noqa: B008 - a frozen value
        training: Training = Training(),  # noqa: B008 - a frozen value
    ) -> None:
        self.n_bits = n_bits
        self.irrelevant_weight = irrelevant_weight
        self.threshold = threshold
        self.proxy_learning_rate = proxy_learning_rate
        self.networks = networks
        self.training = training

    def batch_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        assert batch.labels is not None
        x, y = batch.image_codes, batch.text_codes  # (n, b), (n, b)
        proxies = batch.memory["proxies"].to(x.dtype)  # (C, b)
        t = self.threshold
        if t is None:
            t = coding_threshold(self.n_bits, len(proxies))
        loss = proxy_loss(x, proxies, batch.labels, t) + proxy_loss(y, proxies, batch.labels, t)
        irrelevant = sum(
            irrelevant_pair_loss(*codes, batch.labels, t) for codes in ((x, x), (y, y), (x, y))
        )
        return loss + self.irrelevant_weight * irrelevant, {}

    def initial_memory(self, pairs: PairedDataset) -> dict[str, Tensor]:
        """Return the proxies, drawn from a normal distribution of variance 2 / C."""
        import torch

        assert pairs.labels is not None
        n_classes = pairs.labels.shape[1]
        generator = torch.Generator().manual_seed(self.training.seed)
        proxies = torch.randn(n_classes, self.n_bits, generator=generator)
        return {"proxies": torch.nn.Parameter(proxies * (2 / n_classes) ** 0.5)}

    def memory_optimizer(self, parameters: list[Parameter]) -> Optimizer:
        """Return the optimizer of the proxies."""
        import torch

        return torch.optim.SGD(
            parameters,
            lr=self.proxy_learning_rate,
            momentum=PROXY_MOMENTUM,
            weight_decay=PROXY_WEIGHT_DECAY,
        )

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        check_number("irrelevant_weight", self.irrelevant_weight, zero=True)
        check_number("proxy_learning_rate", self.proxy_learning_rate, zero=False)
        if self.threshold is not None and not -1 <= self.threshold < 1:
            raise InputError(f"threshold must be a cosine in [-1, 1), got {self.threshold!r}.")
        super()._fit(pairs, validation)


def coding_threshold(n_bits: int, n_classes: int) -> float:
    """Return t = 1 - 2 d / b, the cosine of two binary codes at Hamming distance d.

    d is the largest minimum distance that the Griesmer bound allows for binary linear codes of b
    bits with 2^k ≥ C codewords: the largest d with Σ_(i < k) ⌈d / 2^i⌉ ≤ b, where k = ⌈log2 C⌉.

    >>> coding_threshold(16, 24), coding_threshold(16, 80)  # d = 8 and 6
    (0.0, 0.25)
    """
    k = max(1, math.ceil(math.log2(n_classes)))
    distances = range(1, n_bits + 1)
    fitting = [d for d in distances if sum(-(-d // 2**i) for i in range(k)) <= n_bits]
    return 1 - 2 * max(fitting, default=1) / n_bits


def proxy_loss(codes: Tensor, proxies: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Return the proxy loss of one modality: own classes attract, others repel.

    Parameters
    ----------
    codes : (n, b) continuous codes.
    proxies : (C, b).
    labels : (n, C) of 0 and 1.
    threshold : t.

    Examples
    --------
    >>> import torch
    >>> proxies = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    >>> proxy_loss(torch.tensor([[3.0, 0.0]]), proxies, torch.tensor([[1, 0]]), 0.5)  # cos 0.7071
    tensor(0.5000)
    """
    cos, own = cosines(codes, proxies), labels > 0  # (n, C)
    attracted = mean_where(1 - cos, own)
    repelled = mean_where((cos - threshold).clamp(min=0), ~own)
    return attracted + repelled


def irrelevant_pair_loss(u: Tensor, v: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Return the mean of max(0, cos(u_i, v_j) - t) over pairs of multi-label items without overlap.

    >>> import torch
    >>> labels = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> codes = torch.tensor([[1.0, 1], [1, 0], [1, 1]])
    >>> irrelevant_pair_loss(codes, codes, labels, 0.5)  # the first two items, cosine 0.7071
    tensor(0.2071)
    """
    several = labels.sum(dim=1) > 1
    irrelevant = several[:, None] & several & (labels @ labels.T == 0)
    return mean_where((cosines(u, v) - threshold).clamp(min=0), irrelevant)
