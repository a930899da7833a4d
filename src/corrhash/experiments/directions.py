"""Both directions of retrieval with one model: image->text and text->image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset, RetrievalSplit, n_rows, without_words
from corrhash.methods.base import Hasher, RankedBy
from corrhash.metrics import Scores, evaluate

DIRECTIONS = ("image->text", "text->image")
"""``a->b`` means queries of kind a against a database of kind b."""


def encode_pairs(hasher: Hasher, pairs: PairedDataset) -> dict[str, Codes]:
    """The codes of both sides: ``image`` and ``text``."""
    return {
        "image": hasher.encode_image(pairs.images),
        "text": hasher.encode_text(pairs.texts),
    }


def score_sides(hasher: Hasher, pairs: PairedDataset) -> dict[str, np.ndarray]:
    """The scores of both sides: ``image`` and ``text``."""
    return {
        "image": hasher.score_image(pairs.images),
        "text": hasher.score_text(pairs.texts),
    }


def asking_codes(hasher: Hasher, pairs: PairedDataset) -> dict[str, Codes]:
    """The codes with which both sides ask."""
    scores = score_sides(hasher, pairs)
    return {side: hasher.query_codes(of_side) for side, of_side in scores.items()}


def ranked_pairs(
    hasher: Hasher,
    asking: PairedDataset,
    answering: PairedDataset,
    ranked_by: RankedBy | None = None,
) -> tuple[Any, Any]:
    """What answers are ranked by, of those who ask and of those who answer, each by side.

    Codes, or the scores before they are rounded to codes. Without labels an item's partner is all
    that is known to be relevant: those who ask are then searched among one another.
    """
    if asking.labels is None:
        answering = asking
    if (ranked_by or hasher.ranked_by) == "hamming":
        return asking_codes(hasher, asking), encode_pairs(hasher, answering)
    return score_sides(hasher, asking), score_sides(hasher, answering)


def random_codes(pairs: PairedDataset, n_bits: int, seed: int = 0) -> dict[str, Codes]:
    """Codes that know nothing: what every method must beat."""
    rng = np.random.default_rng([seed, n_rows(pairs.images)])
    sizes = {"image": pairs.n_images, "text": pairs.n_texts}
    return {side: Codes.from_scores(rng.standard_normal((n, n_bits))) for side, n in sizes.items()}


def score_directions(
    split: RetrievalSplit,
    query: Mapping[str, Codes | np.ndarray],
    database: Mapping[str, Codes | np.ndarray],
    **options: Any,
) -> dict[str, Scores]:
    """The scores of both directions, the queries of a split against its database."""
    return score_pairs(split.query, split.database, query, database, **options)


def score_pairs(
    asking: PairedDataset,
    answering: PairedDataset,
    query: Mapping[str, Codes | np.ndarray],
    database: Mapping[str, Codes | np.ndarray],
    **options: Any,
) -> dict[str, Scores]:
    """The scores of both directions between any two sets of pairs, by codes or by real scores.

    Text queries without any known word are left out. Without labels, row i of the database is the
    partner of query i, as :func:`ranked_pairs` gives them.
    """
    scores = {}
    for direction in DIRECTIONS:
        asked, answered = direction.split("->")
        untagged = without_words(asking.texts) if asked == "text" else None
        scores[direction] = evaluate(
            query[asked],
            database[answered],
            asking.labels,
            answering.labels,
            untagged=untagged,
            **options,
        )
    return scores
