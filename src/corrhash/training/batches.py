"""Mini-batches: the pairs of a training step, their similarity, and held-out validation pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from corrhash.datasets.base import PairedDataset
from corrhash.datasets.splits import hash_order
from corrhash.errors import InputError
from corrhash.similarity import Similarity

if TYPE_CHECKING:
    from torch import Tensor  # CMSSH samples pairs without PyTorch


@dataclass(frozen=True, eq=False)
class Rows:
    """Row numbers of the images and the texts of one mini-batch."""

    images: np.ndarray
    texts: np.ndarray


@dataclass(frozen=True, eq=False)
class Batch:
    """The input of a loss: the continuous codes of one mini-batch and their similarity.

    Parameters
    ----------
    image_codes : (n_images, n_bits) continuous codes, before the sign.
    text_codes : (n_texts, n_bits) continuous codes.
    similarity : (n_images, n_texts) of +1 (similar), -1 (dissimilar) and 0 (unknown), or expected
        values of it.
    within_modality : the same among the images (key ``image``) and among the texts (``text``),
        where it is known.
    labels : (n, n_classes) of 0 and 1, if the items are aligned and have labels.
    rows : row numbers of the images and the texts in the training data.
    epoch : number of the epoch, from 0.
    memory : tensors of the training besides the networks, which a loss can read and update.
    """

    image_codes: Tensor
    text_codes: Tensor
    similarity: Tensor
    within_modality: dict[str, Tensor] = field(default_factory=dict)
    labels: Tensor | None = None
    rows: Rows | None = None
    epoch: int = 0
    memory: dict[str, Tensor] = field(default_factory=dict)


def training_similarity(pairs: PairedDataset) -> Similarity:
    """Return the similarity that training learns: that of the pairs, else shared labels."""
    if pairs.similarity is not None:
        similarity = pairs.similarity
    else:
        similarity = Similarity.from_labels(pairs.labels)
    share = similarity.share_similar
    if not 0 < share < 1:
        kind = "similar" if share == 1 else "dissimilar"
        way_out = "Check the labels: at least two classes are needed."
        if similarity.judgments is not None:
            way_out = "Check the relevance judgments: both 1 and -1 are needed."
        raise InputError(
            f"All {similarity.n_judged:,} known pairs are {kind}, so there is nothing to "
            f"discriminate. {way_out}"
        )
    return similarity


def epoch_batches(
    pairs: PairedDataset, similarity: Similarity, size: int, seed: int, epoch: int
) -> list[Rows]:
    """Return the batches of one epoch, in an order that depends only on seed and epoch.

    A batch of aligned pairs has ``size`` items and all pairs among their images and texts. A batch
    of relevance judgments has ``size`` judgments, drawn without replacement, and all judged pairs
    among their images and texts.
    """
    rng = np.random.default_rng([seed, epoch])
    if pairs.aligned:
        order = rng.permutation(len(pairs))
        return [Rows(rows, rows) for rows in _slices(order, size)]
    assert similarity.judgments is not None
    known = similarity.judgments.tocoo()
    order = rng.permutation(known.nnz)
    return [
        Rows(np.unique(known.row[part]), np.unique(known.col[part]))
        for part in _slices(order, size)
    ]


def _slices(order: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield consecutive parts, without a last part of one item: it has no pair to compare."""
    for start in range(0, len(order), size):
        part = order[start : start + size]
        if len(part) > 1 or len(order) == 1:
            yield part


HELD_OUT = 10
"""One in so many training pairs is held out for validation."""


def hold_out(pairs: PairedDataset, seed: int) -> tuple[PairedDataset, PairedDataset]:
    """Return training pairs and a tenth of the pairs for validation, chosen by hash.

    If images and texts are not aligned, the relevance judgments are split instead.
    """
    if pairs.similarity is not None and not pairs.aligned:
        held, rest = split_judgments(pairs.similarity, seed)
        return replace(pairs, similarity=rest), replace(pairs, similarity=held)
    order = hash_order(pairs.row_keys(), "held out", seed)
    n = max(1, len(pairs) // HELD_OUT)
    return pairs.take(order[n:]), pairs.take(order[:n])


def split_judgments(similarity: Similarity, seed: int) -> tuple[Similarity, Similarity]:
    """Return a tenth of the positive and of the negative judgments, and the rest."""
    assert similarity.judgments is not None
    known = similarity.judgments.tocoo()
    triples = np.stack([known.row, known.col, known.data], axis=1)
    triples = triples[hash_order([f"{i},{j}" for i, j, _ in triples], "held out", seed)]
    kinds = [triples[triples[:, 2] == kind] for kind in (1, -1)]
    parts = [np.split(of_kind, [-(-len(of_kind) // HELD_OUT)]) for of_kind in kinds]
    held, rest = (
        Similarity.from_judgments(np.concatenate(part), similarity.shape)
        for part in zip(*parts, strict=True)
    )
    return held, rest
