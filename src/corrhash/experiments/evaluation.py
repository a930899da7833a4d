"""Evaluation of a hasher in both directions of retrieval, on seen and on unseen labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset, RetrievalSplit, is_empty_text
from corrhash.datasets.splits import hash_order
from corrhash.errors import InputError
from corrhash.methods.base import Hasher, RankedBy
from corrhash.metrics import Scores, evaluate

DIRECTIONS = ("image->text", "text->image")
"""``a->b`` means queries of modality a against a database of modality b."""

MAP_VARIANTS: dict[str, dict[str, Any]] = {
    "optimistic ties": {"ties": "optimistic"},
    "pessimistic ties": {"ties": "pessimistic"},
    "ties by row": {"ties": "stable"},
    "dcmh": {"definition": "dcmh", "ties": "stable"},
    **{f"@{depth:,}": {"definition": f"hashnet@{depth}"} for depth in (50, 100, 500, 1000, 5000)},
    **{f"first@{depth}": {"definition": f"first@{depth}"} for depth in (50, 5000)},
    "possible@500": {"definition": "possible@500"},
}
"""Options of other mAP definitions that papers and public code use, by their name in tables."""

ALL_QUERIES = "empty texts kept"
"""A variant that ranks for text queries without a known term too, whose codes are all equal."""

HELD_OUT = 4
"""One label in this many is held out to evaluate on unseen labels."""

ByModality = Mapping[str, Codes] | Mapping[str, np.ndarray]
"""Codes or continuous codes of ``image`` and ``text``."""


def evaluate_hasher(
    hasher: Hasher, split: RetrievalSplit, *, ranked_by: RankedBy | None = None, **options: Any
) -> dict[str, Scores]:
    """Evaluate a fitted hasher on the queries and the database of a split, in both directions.

    Without labels, the queries are searched among one another, and only the paired sample of a
    query is relevant to it.

    Parameters
    ----------
    ranked_by : ``hamming`` or ``cosine``; by default as the method ranks.
    options : passed to :func:`corrhash.metrics.evaluate`.

    Examples
    --------
    >>> from corrhash import CVH, load_dataset
    >>> split = load_dataset("synthetic", n=780)
    >>> scores = evaluate_hasher(CVH(16).fit(split.train), split)
    >>> sorted(scores)
    ['image->text', 'text->image']
    """
    query, database = encode_for_ranking(hasher, split.query, split.database, ranked_by)
    return evaluate_directions(split.query, split.database, query, database, **options)


def evaluate_directions(
    query_pairs: PairedDataset,
    database_pairs: PairedDataset,
    query: ByModality,
    database: ByModality,
    **options: Any,
) -> dict[str, Scores]:
    """Evaluate both directions from codes or continuous codes, given by modality.

    Text queries without a known term are excluded. Without labels, row i of the database must be
    paired with query i, as :func:`encode_for_ranking` returns them.
    """
    scores = {}
    for direction in DIRECTIONS:
        query_modality, database_modality = direction.split("->")
        empty_text = is_empty_text(query_pairs.texts) if query_modality == "text" else None
        scores[direction] = evaluate(
            query[query_modality],
            database[database_modality],
            query_pairs.labels,
            database_pairs.labels,
            empty_text=empty_text,
            **options,
        )
    return scores


def map_variants(
    query_pairs: PairedDataset,
    database_pairs: PairedDataset,
    query: ByModality,
    database: ByModality,
) -> dict[str, dict[str, float]]:
    """Return mAP by direction under each definition in ``MAP_VARIANTS``, and with all queries."""
    pairs = query_pairs, database_pairs
    found: dict[str, dict[str, float]] = {direction: {} for direction in DIRECTIONS}
    for name, options in MAP_VARIANTS.items():
        scores = evaluate_directions(*pairs, query, database, threads=1, **options)
        for direction in DIRECTIONS:
            found[direction][name] = scores[direction].map
    labels = query_pairs.labels, database_pairs.labels
    every = evaluate(query["text"], database["image"], *labels, threads=1)
    found["text->image"][ALL_QUERIES] = every.map
    return found


def validation_map(hasher: Hasher, validation: PairedDataset) -> float:
    """Return the mAP@all of validation items among one another, the mean of both directions.

    A database of training items would reward memorizing them.
    """
    query, database = encode_for_ranking(hasher, validation, validation)
    scores = evaluate_directions(validation, validation, query, database)
    return sum(scores[direction].map for direction in DIRECTIONS) / len(DIRECTIONS)


def encode_for_ranking(
    hasher: Hasher,
    query_pairs: PairedDataset,
    database_pairs: PairedDataset,
    ranked_by: RankedBy | None = None,
) -> tuple[Any, Any]:
    """Encode queries and database, each by modality: codes, or continuous codes for ``cosine``.

    Without labels the query pairs serve as the database too.
    """
    if query_pairs.labels is None:
        database_pairs = query_pairs
    query = embed_pairs(hasher, query_pairs)
    if (ranked_by or hasher.ranked_by) == "cosine":
        return query, embed_pairs(hasher, database_pairs)
    query_codes = {modality: hasher.query_codes(query[modality]) for modality in query}
    return query_codes, encode_pairs(hasher, database_pairs)


def encode_pairs(hasher: Hasher, pairs: PairedDataset) -> dict[str, Codes]:
    """Return the codes of both modalities: ``image`` and ``text``."""
    return {
        "image": hasher.encode_image(pairs.images),
        "text": hasher.encode_text(pairs.texts),
    }


def embed_pairs(hasher: Hasher, pairs: PairedDataset) -> dict[str, np.ndarray]:
    """Return the continuous codes of both modalities: ``image`` and ``text``."""
    return {
        "image": hasher.embed_image(pairs.images),
        "text": hasher.embed_text(pairs.texts),
    }


def random_codes(pairs: PairedDataset, n_bits: int, seed: int = 0) -> dict[str, Codes]:
    """Return random codes of both modalities, the baseline that every method must beat."""
    rng = np.random.default_rng([seed, pairs.n_images])
    sizes = {"image": pairs.n_images, "text": pairs.n_texts}
    return {
        modality: Codes.from_continuous(rng.standard_normal((n, n_bits)))
        for modality, n in sizes.items()
    }


def hold_out_labels(split: RetrievalSplit, seed: int) -> tuple[RetrievalSplit, RetrievalSplit]:
    """Return a split to train on and a split to evaluate on that have no label in common.

    Items with a held-out label leave training and validation. Queries are those with a held-out
    label, and database items that share one are relevant. The database is unchanged.
    """
    if split.pairs.labels is None:
        raise InputError(f"{split.name or 'The dataset'} has no labels to hold out.")
    held_out = held_out_labels(split, seed)
    affected = np.asarray(split.pairs.labels[:, held_out].sum(axis=1)).ravel() > 0  # (n_items,)
    seen = replace(
        _with_labels(split, ~held_out),
        train_rows=split.train_rows[~affected[split.train_rows]],
        validation_rows=split.validation_rows[~affected[split.validation_rows]],
    )
    # The training rows are kept here too: evaluation can remove them from the database.
    unseen = replace(
        _with_labels(split, held_out),
        train_rows=seen.train_rows,
        validation_rows=seen.validation_rows,
        query_rows=split.query_rows[affected[split.query_rows]],
    )
    for part in ("train", "validation"):
        if not len(getattr(seen, f"{part}_rows")):
            raise InputError(
                f"Every {part} item of {split.name or 'the dataset'} has a held-out label. Use "
                "more items, or remove [unseen] from the plan."
            )
    return seen, unseen


def held_out_labels(split: RetrievalSplit, seed: int) -> np.ndarray:
    """Return (n_labels,) whether each label is held out: a quarter of them, drawn by hash."""
    assert split.pairs.labels is not None
    n_labels = split.pairs.labels.shape[1]
    names = list(split.pairs.label_names) or [str(column) for column in range(n_labels)]
    order = hash_order(names, f"unseen labels of {split.name}", seed)
    held_out = np.zeros(n_labels, dtype=bool)
    held_out[order[: max(1, n_labels // HELD_OUT)]] = True
    return held_out


def _with_labels(split: RetrievalSplit, columns: np.ndarray) -> RetrievalSplit:
    """Restrict the labels of a split to some columns."""
    pairs = split.pairs
    assert pairs.labels is not None
    names = [name for name, kept in zip(pairs.label_names, columns, strict=False) if kept]
    return replace(split, pairs=replace(pairs, labels=pairs.labels[:, columns], label_names=names))
