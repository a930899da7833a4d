"""Hold out: a part of the pairs for validation, where none is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corrhash.datasets.base import PairedDataset
from corrhash.datasets.splits import hash_order
from corrhash.relevance import Similarity

HELD_OUT = 10
"""One in so many training pairs is held out."""


def hold_out(pairs: PairedDataset, seed: int) -> tuple[PairedDataset, PairedDataset]:
    """A tenth for validation, chosen by hash: of the pairs, or of the judgements if not aligned."""
    if pairs.similarity is not None and not pairs.aligned:
        held, rest = split_judgements(pairs.similarity, seed)
        return replace(pairs, similarity=rest), replace(pairs, similarity=held)
    order = hash_order(pairs.row_keys(), "held out", seed)
    n = max(1, len(pairs) // HELD_OUT)
    return pairs.take(order[n:]), pairs.take(order[:n])


def split_judgements(similarity: Similarity, seed: int) -> tuple[Similarity, Similarity]:
    """A tenth of the similar and of the dissimilar judgements each, and the rest."""
    assert similarity.judged is not None
    known = similarity.judged.tocoo()
    triples = np.stack([known.row, known.col, known.data], axis=1)
    triples = triples[hash_order([f"{i},{j}" for i, j, _ in triples], "held out", seed)]
    kinds = [triples[triples[:, 2] == kind] for kind in (1, -1)]
    parts = [np.split(of_kind, [-(-len(of_kind) // HELD_OUT)]) for of_kind in kinds]
    held, rest = (
        Similarity.from_pairs(np.concatenate(part), similarity.shape)
        for part in zip(*parts, strict=True)
    )
    return held, rest
