"""Labels that were not trained on: what codes are worth beyond the classes they were taught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.splits import hash_order
from corrhash.errors import InputError

SHARE = 4
"""One label in so many is held out."""


def hold_out_labels(split: RetrievalSplit, seed: int) -> tuple[RetrievalSplit, RetrievalSplit]:
    """The split to learn from and the split to ask, which have no label in common.

    Items that carry a held-out label leave training and validation. The queries that carry one
    stay, and what shares one with them is relevant; the database is unchanged.
    """
    if split.pairs.labels is None:
        raise InputError(f"{split.name or 'The dataset'} has no labels to hold out.")
    held = held_out(split, seed)
    carries = np.asarray(split.pairs.labels[:, held].sum(axis=1)).ravel() > 0  # (n_items,)
    learn = replace(
        _with_labels(split, ~held),
        train_rows=split.train_rows[~carries[split.train_rows]],
        validation_rows=split.validation_rows[~carries[split.validation_rows]],
    )
    # Who was trained on must be known here too: it is taken out of the database once.
    ask = replace(
        _with_labels(split, held),
        train_rows=learn.train_rows,
        validation_rows=learn.validation_rows,
        query_rows=split.query_rows[carries[split.query_rows]],
    )
    for part in ("train", "validation"):
        if not len(getattr(learn, f"{part}_rows")):
            raise InputError(
                f"Every {part} item of {split.name or 'the dataset'} carries a label that is held "
                "out. Use more items, or leave unseen labels out of the plan."
            )
    return learn, ask


def held_out(split: RetrievalSplit, seed: int) -> np.ndarray:
    """(n_labels,) which quarter of the labels is held out, drawn by hash."""
    assert split.pairs.labels is not None
    n_labels = split.pairs.labels.shape[1]
    names = list(split.pairs.label_names) or [str(column) for column in range(n_labels)]
    order = hash_order(names, f"unseen labels of {split.name}", seed)
    held = np.zeros(n_labels, dtype=bool)
    held[order[: max(1, n_labels // SHARE)]] = True
    return held


def _with_labels(split: RetrievalSplit, columns: np.ndarray) -> RetrievalSplit:
    """The split with some of its labels alone."""
    pairs = split.pairs
    assert pairs.labels is not None
    names = [name for name, kept in zip(pairs.label_names, columns, strict=False) if kept]
    return replace(split, pairs=replace(pairs, labels=pairs.labels[:, columns], label_names=names))
