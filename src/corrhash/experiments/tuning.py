"""Choosing the settings of a method on the validation split, never on queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from corrhash.datasets.base import PairedDataset
from corrhash.experiments.directions import DIRECTIONS, ranked_pairs, score_pairs
from corrhash.methods.base import Hasher

MOST_CONFIGURATIONS = 8
"""How many settings of one method are compared: the same budget for all."""

TUNING_BITS = 32
"""The length of code at which settings are chosen; they then serve all lengths."""


def configurations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of the values in a grid; one without settings if it is empty.

    >>> configurations({"eps": (0.1, 1.0), "seed": (0,)})
    [{'eps': 0.1, 'seed': 0}, {'eps': 1.0, 'seed': 0}]
    """
    return [dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values())]


def validation_map(hasher: Hasher, train: PairedDataset, validation: PairedDataset) -> float:
    """What settings are chosen by: validation items ask, training items answer.

    MAP over the whole ranking, the mean of both directions.
    """
    asked, answered = ranked_pairs(hasher, validation, train)
    scores = score_pairs(validation, train, asked, answered)
    return sum(scores[direction].map for direction in DIRECTIONS) / len(DIRECTIONS)
