"""Dropout and noise drawn for each item by its key, so that batch and process play no role."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from corrhash.networks.item_keys import STEP, mixed

DRAWS_A_WORD = 4  # a random number of 64 bits serves for four units
FINEST = 2**16  # shares of dropout are kept to so many parts


class _Draws:
    """The keys of the items that a network sees now, other ones for each layer that draws."""

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = keys

    def next(self) -> np.ndarray:
        self.keys = mixed(self.keys)
        return self.keys


_draws: ContextVar[_Draws | None] = ContextVar("draws", default=None)


@contextmanager
def drawing_by(keys: np.ndarray) -> Iterator[None]:
    """Within, networks draw dropout and noise by these (n,) keys of the items they are shown.

    Without, they draw from PyTorch's own generator, as its layers do.
    """
    before = _draws.set(_Draws(keys))
    try:
        yield
    finally:
        _draws.reset(before)


class ItemDropout(nn.Dropout):
    """Silences a share of the units of each item, in training, and scales up the others."""

    def forward(self, features: Tensor) -> Tensor:
        draws = _draws.get()
        if not self.training or self.p == 0:
            return features
        if draws is None:
            return dropout(features, self.p)
        kept = _kept(draws.next(), features[0].numel() if len(features) else 0, self.p)
        mask = torch.from_numpy(kept).to(features).reshape(features.shape)
        return features * mask.mul_(1 / (1 - self.p))


def _kept(keys: np.ndarray, width: int, share: float) -> np.ndarray:
    """(n, width) of true and false; ``share`` of them false."""
    counts = np.arange(-(-width // DRAWS_A_WORD), dtype=np.uint64)
    words = mixed(keys[:, None] + counts * STEP)  # (n, width / 4) of 64 bits
    return (words.view(np.uint16) >= min(round(share * FINEST), FINEST - 1))[:, :width]


class ItemNoise(nn.Module):
    """Adds normally distributed noise to the features of each item, in training."""

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.deviation = deviation

    def forward(self, features: Tensor) -> Tensor:
        draws = _draws.get()
        if not self.training or self.deviation == 0:
            return features
        if draws is None:
            return features + self.deviation * torch.randn_like(features)
        noise = torch.empty(features.shape)
        generator = torch.Generator()
        for row, key in zip(noise, draws.next().tolist(), strict=True):
            row.normal_(std=self.deviation, generator=generator.manual_seed(key))
        return features + noise.to(features)
