"""Standardise: features around zero at the scale of one, as they were in training."""

import torch
from torch import Tensor, nn


class Standardise(nn.Module):
    """(n, d) features -> their distance from the training mean, over one common deviation.

    One deviation for all columns keeps their proportions: a column that hardly varies stays small.
    Both are kept with the weights, so that they are never taken from what is encoded.

    >>> layer = Standardise(2)
    >>> layer.learn(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> layer(torch.tensor([[2.0, 1.0]]))
    tensor([[1.4142, 0.0000]])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("deviation", torch.ones(()))

    def learn(self, features: Tensor) -> None:
        """Take mean and deviation from training features."""
        self.mean.copy_(features.mean(dim=0))
        deviation = (features - self.mean).square().mean().sqrt()
        self.deviation.copy_(deviation.clamp(min=1e-12))

    def forward(self, features: Tensor) -> Tensor:
        """Standardised features."""
        return (features - self.mean) / self.deviation
