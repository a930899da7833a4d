"""Mini-batches of pairs: all pairs among some items, or all known pairs around some judged ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.relevance import Similarity


@dataclass(frozen=True, eq=False)
class Rows:
    """The images and the texts of one mini-batch."""

    images: np.ndarray
    texts: np.ndarray


@dataclass(frozen=True, eq=False)
class Batch:
    """What a loss sees of one mini-batch.

    ``similarity`` is (n_images, n_texts) of +1, -1, and 0 where nobody has judged. ``within`` has
    the same among the images (``image``) and among the texts (``text``), where that is known.
    """

    image_scores: Tensor
    text_scores: Tensor
    similarity: Tensor
    within: dict[str, Tensor] = field(default_factory=dict)


def supervision(pairs: PairedDataset) -> Similarity:
    """Who is similar to whom in training: judged pairs or partners, else shared labels."""
    if pairs.similarity is not None:
        relation = pairs.similarity
    else:
        relation = Similarity.from_labels(pairs.labels)
    share = relation.share_similar
    if not 0 < share < 1:
        kind = "similar" if share == 1 else "dissimilar"
        way_out = "Check the labels: items of at least two classes are needed."
        if relation.judged is not None:
            way_out = "Check the judgements: both of 1 and of -1 are needed."
        raise InputError(
            f"All {relation.n_known:,} known pairs are {kind}, so there is nothing to tell apart. "
            f"{way_out}"
        )
    return relation


def epoch_batches(
    pairs: PairedDataset, relation: Similarity, size: int, seed: int, epoch: int
) -> list[Rows]:
    """The batches of one epoch, in an order that depends on seed and epoch alone.

    Aligned data: ``size`` items and all pairs among their images and texts. Judged data: ``size``
    judged pairs, drawn without replacement, and every known pair among their images and texts.
    """
    rng = np.random.default_rng([seed, epoch])
    if pairs.aligned:
        order = rng.permutation(len(pairs))
        return [Rows(rows, rows) for rows in _slices(order, size)]
    assert relation.judged is not None
    known = relation.judged.tocoo()
    order = rng.permutation(known.nnz)
    return [
        Rows(np.unique(known.row[part]), np.unique(known.col[part]))
        for part in _slices(order, size)
    ]


def _slices(order: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Consecutive parts; a last one of fewer than two is left out, it has no pair to compare."""
    for start in range(0, len(order), size):
        part = order[start : start + size]
        if len(part) > 1 or len(order) == 1:
            yield part
