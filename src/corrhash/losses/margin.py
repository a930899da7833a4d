"""How far values fall short of a margin, the hinge that the losses of CHN share."""

from torch import Tensor

from corrhash.errors import InputError


def shortfall(margin: float, values: Tensor) -> Tensor:
    """max(0, margin - values), for a margin in (0, 1].

    >>> import torch
    >>> shortfall(0.5, torch.tensor([-1.0, 0.25, 0.75]))
    tensor([1.5000, 0.2500, 0.0000])
    """
    if not 0 < margin <= 1:
        raise InputError(
            f"A margin lies above 0 and at most at 1, as cosines do. Got {margin}. "
            "Choose 0.5 for the cosine loss and 0.9 for the quantization loss to begin with."
        )
    return (margin - values).clamp(min=0)
