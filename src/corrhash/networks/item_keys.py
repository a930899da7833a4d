"""Keys for random draws that depend on seed, epoch and item alone, so that batches play no role."""

from __future__ import annotations

from typing import Any

import numpy as np

STEP = np.uint64(0x9E3779B97F4A7C15)
"""The step of SplitMix64 from one number to the next: 2⁶⁴ over the golden ratio."""


def item_keys(items: Any, *, seed: int, epoch: int) -> np.ndarray:
    """(n,) uint64 keys of the items numbered ``items``.

    >>> together, alone = (item_keys(items, seed=0, epoch=1) for items in ([7, 8, 9], [9]))
    >>> bool(together[2] == alone[0])
    True
    """
    items = np.asarray(items, dtype=np.uint64).reshape(-1)
    return mixed(mixed(mixed(np.full(len(items), seed, np.uint64)) + np.uint64(epoch)) + items)


def mixed(numbers: np.ndarray) -> np.ndarray:
    """uint64 numbers hashed by the finaliser of SplitMix64 (Steele et al., 2014)."""
    numbers = numbers + STEP
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)
