"""Standardise: features around zero at the scale of one, as they were in training."""

from typing import Any

import torch
from torch import Tensor, nn


class Standardise(nn.Module):
    """(n, d) features -> their distance from the training mean, over one common deviation.

    One deviation for all columns keeps their proportions: a column that hardly varies stays small.
    With ``root``, features of which none is negative in training, as means of activations are,
    have their square roots taken first: a few large ones would drown the others. All of this is
    kept with the weights, so that nothing is taken from what is encoded.

    >>> layer = Standardise(2)
    >>> layer.learn(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> layer(torch.tensor([[2.0, 1.0]]))
    tensor([[1.4142, 0.0000]])
    """

    mean: Tensor
    deviation: Tensor
    rooted: Tensor

    def __init__(self, n_features: int, *, root: bool = False) -> None:
        super().__init__()
        self.root = root
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("deviation", torch.ones(()))
        self.register_buffer("rooted", torch.tensor(False))

    def learn(self, features: Tensor) -> None:
        """Take mean and deviation from training features, or from their roots."""
        self.rooted.fill_(self.root and bool((features >= 0).all()))
        features = self._flattened(features)
        self.mean.copy_(features.mean(dim=0))
        deviation = (features - self.mean).square().mean().sqrt()
        self.deviation.copy_(deviation.clamp(min=1e-12))

    def forward(self, features: Tensor) -> Tensor:
        """Standardised features."""
        return (self._flattened(features) - self.mean) / self.deviation

    def _flattened(self, features: Tensor) -> Tensor:
        # A choice between tensors, not between branches, is one that exports keep.
        return torch.where(self.rooted, features.clamp(min=0).sqrt(), features)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *args: Any) -> None:
        """Models saved before there were roots have none."""
        state.setdefault(f"{prefix}rooted", torch.tensor(False))
        super()._load_from_state_dict(state, prefix, *args)
