"""How far the scores of exported networks lie from those of PyTorch, on given items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.base import Hasher
from corrhash.methods.exported import ExportedHasher

TOLERANCE = 1e-5
"""Scores may differ by so much, and bits only where a score is this close to 0."""

SIDES = ("image", "text")


@dataclass(frozen=True)
class Difference:
    """Two sets of scores of the same items, compared.

    Parameters
    ----------
    side : image or text.
    n_items, n_bits : how many items and bits were compared.
    largest : the largest difference of two scores.
    n_differing : bits that differ.
    n_unexplained : those among them whose score is farther from 0 than the tolerance.
    """

    side: str
    n_items: int
    n_bits: int
    largest: float
    n_differing: int
    n_unexplained: int

    @property
    def small(self) -> bool:
        """Whether the networks may stand in for each other."""
        return self.largest <= TOLERANCE and self.n_unexplained == 0

    def __str__(self) -> str:
        return (
            f"{self.n_items:,} {self.side}s: scores differ by at most {self.largest:.1e}; "
            f"{self.n_differing:,} of {self.n_bits:,} bits differ"
        )


def compare(trained: Hasher, exported: Hasher, pairs: PairedDataset) -> list[Difference]:
    """Both sides of some pairs, scored by both hashers."""
    if not isinstance(exported, ExportedHasher):
        raise InputError(
            "Exported networks are compared by running them, which needs the package onnxruntime. "
            "Install it: pip install 'corrhash[onnx]'."
        )
    sides = []
    for side in SIDES:
        values = getattr(pairs, f"{side}s")
        first, second = (getattr(hasher, f"score_{side}")(values) for hasher in (trained, exported))
        sides.append(difference(side, first, second))
    return sides


def difference(side: str, expected: np.ndarray, found: np.ndarray) -> Difference:
    """(n, n_bits) scores that should be equal.

    >>> print(difference("image", np.array([[0.5, 1e-7]]), np.array([[0.5, -1e-7]])))
    1 images: scores differ by at most 2.0e-07; 1 of 2 bits differ
    """
    differing = Codes.from_scores(expected).signs() != Codes.from_scores(found).signs()
    return Difference(
        side,
        n_items=len(expected),
        n_bits=expected.size,
        largest=float(abs(expected - found).max(initial=0)),
        n_differing=int(differing.sum()),
        n_unexplained=int((differing & (abs(expected) > TOLERANCE)).sum()),
    )
