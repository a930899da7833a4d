"""The quantization max-margin loss of CHN, which draws scores towards the corners of the cube.

In the paper's letters: u scores of either side, b bits, δ margin, Q the loss.
"""

from torch import Tensor

from corrhash.losses.margin import shortfall
from corrhash.losses.unit_vectors import unit_vectors


def corner_cosines(u: Tensor) -> Tensor:
    """(n,) cosines between scores and their codes, from 1/√b on an axis to 1 in a corner."""
    return unit_vectors(u).abs().sum(dim=1) / u.shape[1] ** 0.5  # <|u|, 1> / (‖u‖ ‖1‖)


def quantization_margin_loss(u: Tensor, margin: float) -> Tensor:
    """One half of Q of CHN: the mean over (n, b) scores of what they miss of cosine δ.

    The paper adds the halves of images and of texts, and sums where this takes the mean; the
    hinge is not squared. Scores of normally distributed numbers have cosine 0.8 with their codes,
    so that margins below 0.85 ask for nothing: see :func:`active_share`.

    Examples
    --------
    >>> import torch
    >>> quantization_margin_loss(torch.tensor([[1.0, -1.0], [1.0, 0.0]]), margin=0.9)
    tensor(0.0964)
    """
    return shortfall(margin, corner_cosines(u)).mean()


def active_share(u: Tensor, margin: float) -> Tensor:
    """The share of scores that the loss pulls at; 0 says that the margin asks for nothing."""
    return (shortfall(margin, corner_cosines(u.detach())) > 0).double().mean()
