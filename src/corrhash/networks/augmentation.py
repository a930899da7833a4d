"""Random crops that depend on seed, epoch and item alone, so that batches play no role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corrhash.networks.item_keys import item_keys


@dataclass(frozen=True, eq=False)
class Crops:
    """Where the parts of n pictures begin, and which of them are mirrored."""

    top: np.ndarray  # (n,) int64
    left: np.ndarray  # (n,) int64
    mirrored: np.ndarray  # (n,) bool


def draw_crops(items: Any, slack: int, *, seed: int, epoch: int) -> Crops:
    """Crops of the pictures numbered ``items``, from 0 to ``slack`` pixels from the corner.

    >>> together = draw_crops([7, 8, 9], 32, seed=0, epoch=1)
    >>> alone = draw_crops([9], 32, seed=0, epoch=1)
    >>> bool(together.left[2] == alone.left[0])
    True
    """
    bits = item_keys(items, seed=seed, epoch=epoch)
    # Three independent draws from one number of 64 bits: two of 31 bits and one of a single bit.
    top = (bits & np.uint64(0x7FFFFFFF)) % np.uint64(slack + 1)
    left = (bits >> np.uint64(31) & np.uint64(0x7FFFFFFF)) % np.uint64(slack + 1)
    return Crops(top.astype(np.int64), left.astype(np.int64), bits >> np.uint64(63) == 1)
