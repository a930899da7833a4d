"""Outputs of a network in padded batches of one size, with decoding beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from corrhash.networks.device import to_device
from corrhash.networks.inputs import Inputs

AHEAD = 2  # batches whose pictures are decoded while the network works


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

    The last batch is filled up with its own last row: an item is computed in the same way alone
    and among others. ``progress`` is told after each batch how many rows are done.
    """
    batches = [np.minimum(np.arange(s, s + size), n - 1) for s in range(0, n, size)]
    parts = [torch.empty(0, width, device=device)]
    with torch.inference_mode():
        for number, rows in enumerate(batches, start=1):
            for coming in batches[number : number + AHEAD]:
                inputs.fetch(coming)
            parts.append(network(to_device(inputs.batch(rows), device)))
            progress(min(n, number * size))
        return torch.cat(parts)[:n].cpu().numpy()
