"""Outputs of a PyTorch network in padded batches of one size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from corrhash.networks.device import to_device
from corrhash.networks.inputs import Inputs
from corrhash.networks.padded_batches import padded_batches


def outputs(
    network: Callable[..., Tensor],
    inputs: Inputs,
    n: int,
    width: int,
    *,
    size: int,
    device: torch.device,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """(n, width) outputs for rows 0..n, computed in batches of ``size``.

    ``progress`` is told after each batch how many rows are done.
    """
    parts = [torch.empty(0, width, device=device)]
    with torch.inference_mode():
        for number, batch in enumerate(padded_batches(inputs, n, size), start=1):
            parts.append(network(to_device(batch, device)))
            progress(min(n, number * size))
        return torch.cat(parts)[:n].cpu().numpy()
