"""The hash layer ``fch``: the last layer of either network, one unit for each bit."""

from torch import Tensor, nn


class HashLayer(nn.Module):
    """(n, n_features) -> (n, n_bits) scores, whose signs are the bits.

    A tanh keeps them in [-1, 1]; a layer that is not ``bounded`` leaves them linear.

    Weights start with deviation 1/√n_features and biases at zero, which keeps what enters the
    tanh at the scale of the features: far smaller or larger starts let all codes fall together.

    >>> import torch
    >>> HashLayer(4096, 16)(torch.zeros(2, 4096)).shape
    torch.Size([2, 16])
    """

    bounded = True

    def __init__(self, n_features: int, n_bits: int) -> None:
        super().__init__()
        self.fch = nn.Linear(n_features, n_bits)
        nn.init.normal_(self.fch.weight, std=n_features**-0.5)
        nn.init.zeros_(self.fch.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Scores of features."""
        scores: Tensor = self.fch(features)
        return scores.tanh() if self.bounded else scores
