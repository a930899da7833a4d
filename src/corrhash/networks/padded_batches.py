"""Batches of one size for encoding, with decoding beside the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from corrhash.networks.inputs import Inputs

ENCODE_SIZE = 64
"""Items are encoded in batches of this one size, so that a code does not depend on its batch."""

AHEAD = 2  # batches whose pictures are decoded while the network works


def padded_batches(inputs: Inputs, n: int, size: int) -> Iterator[Any]:
    """Rows 0..n as batches of ``size``.

    The last batch is filled up with its own last row: an item is computed in the same way alone
    and among others.
    """
    batches = [np.minimum(np.arange(s, s + size), n - 1) for s in range(0, n, size)]
    for number, rows in enumerate(batches, start=1):
        for coming in batches[number : number + AHEAD]:
            inputs.fetch(coming)
        yield inputs.batch(rows)
