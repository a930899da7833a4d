"""Outputs of a network in padded batches of one size, with decoding beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from corrhash.networks.device import to_device
from corrhash.networks.inputs import Inputs

AHEAD = 2  # batches whose pictures are decoded while the network works


def outputs(
    network: Callable[..., Tensor], inputs: Inputs, n: int, size: int, device: torch.device
) -> Iterator[np.ndarray]:
    """(rows, d) outputs for rows 0..n, part by part, in batches of ``size``.

    The last batch is filled up with its own last row: an item is computed in the same way alone
    and among others.
    """
    batches = [np.minimum(np.arange(s, s + size), n - 1) for s in range(0, n, size)]
    for number, rows in enumerate(batches):
        for coming in batches[number + 1 : number + 1 + AHEAD]:
            inputs.fetch(coming)
        with torch.inference_mode():  # entered anew, since it would hold for the caller too
            part = network(to_device(inputs.batch(rows), device))
        yield part[: n - number * size].cpu().numpy()
