"""Choosing the settings of a method on the validation split, never on queries."""

from __future__ import annotations

from itertools import product
from typing import Any

from corrhash.datasets.base import PairedDataset
from corrhash.experiments.directions import DIRECTIONS, ranked_pairs, score_pairs
from corrhash.methods.base import Hasher

MOST_CONFIGURATIONS = 8
"""How many settings of one method are compared: the same budget for all."""

TUNING_BITS = 32
"""The length of code at which settings are chosen; they then serve all lengths."""


def configurations(method: type[Hasher]) -> list[dict[str, Any]]:
    """All combinations of the values in the method's grid.

    >>> from corrhash.methods.cvh import CVH
    >>> configurations(CVH)[:2]
    [{'eps': 0.001}, {'eps': 0.01}]
    """
    names, values = list(method.grid), method.grid.values()
    return [dict(zip(names, chosen, strict=True)) for chosen in product(*values)]


def validation_map(hasher: Hasher, train: PairedDataset, validation: PairedDataset) -> float:
    """What settings are chosen by: validation items ask, training items answer.

    MAP over the whole ranking, the mean of both directions.
    """
    asked, answered = ranked_pairs(hasher, validation, train)
    scores = score_pairs(validation, train, asked, answered)
    return sum(scores[direction].map for direction in DIRECTIONS) / len(DIRECTIONS)
