"""Searching an index: encode queries, find the nearest codes, re-rank them by cosine similarity.

Re-ranking compares the continuous code of a query with more than Hamming distance can. If the
collection stores continuous codes, it uses the cosine similarity of both; otherwise that of the
query's continuous code and the signs of the item's code. If the model is calibrated, matches also
have a probability of being relevant, a function of the same distance or cosine.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.calibration import Calibration
from corrhash.codes import Codes, unit_rows
from corrhash.collection.base import Match, Query, SearchOptions
from corrhash.datasets.base import is_empty_text
from corrhash.datasets.images import open_image
from corrhash.datasets.query_words import joined_message
from corrhash.errors import InputError, NotFoundError
from corrhash.index.base import CodeIndex, CodeView
from corrhash.index.filter_grammar import as_filter
from corrhash.index.items import MODALITIES, SHOWN, Item
from corrhash.index.ranking import NO_ROW, Ranking
from corrhash.model import Model

log = logging.getLogger("corrhash")

RERANKED = 100
"""Number of nearest items that are re-ranked."""

SCORE_DIGITS = 6
"""Digits of cosines that count in a ranking; the last ones vary from run to run."""

PROBABILITY_DIGITS = 4

Found = tuple[int, int, float | None, float | None]
"""Id, distance, cosine similarity and probability of one result."""


@dataclass(frozen=True, eq=False)
class EncodedQueries:
    """Codes of n queries.

    Parameters
    ----------
    codes : n codes.
    continuous : (n, n_bits) continuous codes to re-rank by; None disables re-ranking.
    excluded : id per query that its results must not contain, where the query is itself an item.
    modalities : ``image`` or ``text`` per query; empty if unknown.
    """

    codes: Codes
    continuous: NDArray[Any] | None = None
    excluded: Sequence[int] = ()
    modalities: Sequence[str] = ()


def encode_queries(query: Query, model: Model, index: CodeIndex) -> EncodedQueries:
    """Encode queries of any kind with a model; keys are looked up in the index.

    Words of texts that the model does not know are logged.
    """
    if query.kind == "codes":
        return EncodedQueries(query.values)
    if query.kind == "key":
        return _encode_keys(query.values, index)
    embed = embed_texts if query.kind == "text" else embed_images
    continuous = embed(query.values, model)
    if query.kind == "text" and isinstance(query.values, list):
        message = joined_message(map(model.reader.check_words, query.values))
        if message:
            log.warning("%s", message)
    codes = model.hasher.query_codes(continuous)
    return EncodedQueries(codes, continuous, modalities=[query.kind] * len(codes))


def embed_texts(texts: Any, model: Model) -> NDArray[Any]:
    """(n, n_bits) continuous codes of strings or term vectors with at least one known term."""
    read = model.reader.read_texts(texts)
    for row in np.flatnonzero(is_empty_text(read)):
        raise InputError(_nothing_known(texts, int(row), model))
    return model.hasher.embed_text(read)


def _nothing_known(texts: Any, row: int, model: Model) -> str:
    """Return why a query without any known term cannot be searched."""
    if not isinstance(texts, list):
        return f"Query {row} contains no term from the model's vocabulary. Use at least one."
    message = model.reader.check_words(texts[row]).message
    if not message:
        return f"The query {texts[row]!r} contains no words. Pass at least one word."
    return f"{message} Use words from the texts that the model was trained on."


def embed_images(images: Any, model: Model) -> NDArray[Any]:
    """(n, n_bits) continuous codes of images or feature vectors."""
    if getattr(images, "ndim", 0) != 2:
        images = [open_image(image) for image in images]
    return model.hasher.embed_image(model.reader.read_images(images))


def _encode_keys(keys: list[str], index: CodeIndex) -> EncodedQueries:
    ids = index.ids_of(keys)
    packed, continuous, modalities = [], [], []
    for key in keys:
        if key not in ids:
            raise NotFoundError(f"No item with the key {key!r} in this collection.")
        modality, codes = _query_code(ids[key], index)
        rows, vectors = vectors_of(index, np.array([ids[key]]), modality)
        if not len(rows):
            raise NotFoundError(f"Item {key!r} was deleted during the search.")
        packed.append(codes.packed)
        continuous.append(vectors)
        modalities.append(modality)
    codes = Codes(np.concatenate(packed), index.n_bits)
    own = [ids[key] for key in keys]
    return EncodedQueries(codes, np.concatenate(continuous), own, modalities)


def _query_code(number: int, index: CodeIndex) -> tuple[str, Codes]:
    """The modality and code that an item is searched by: its image if it has one."""
    for modality in MODALITIES:
        _, codes = index.codes_of([number], modality)
        if len(codes):
            return modality, codes
    raise NotFoundError(f"Item {number} was deleted during the search.")


def find_matches(
    index: CodeIndex,
    queries: EncodedQueries,
    options: SearchOptions,
    calibration: Calibration | None = None,
) -> list[list[Match]]:
    """Return the matches of each query."""
    pages, _ = find_pages(index, queries, options, calibration=calibration)
    items = items_on(index, pages, (*SHOWN, "thumbnail") if options.thumbnails else SHOWN)
    # Items that were deleted since the search are missing.
    return [[Match(*one, items[one[0]]) for one in page if one[0] in items] for page in pages]


def find_pages(
    index: CodeIndex,
    queries: EncodedQueries,
    options: SearchOptions,
    view: CodeView | None = None,
    n_more: int = 0,
    calibration: Calibration | None = None,
) -> tuple[list[list[Found]], CodeView]:
    """Return the results of each query without their items, and the view that was searched.

    ``view`` is the present one, if the caller has it. ``n_more`` results than requested show
    whether there is a next page.
    """
    modality, where = options.find, as_filter(options.where)
    if options.min_probability is not None:
        _check_calibration(calibration, queries, modality)
    if view is None:
        view = index.view(modality, where)
    end = options.offset + options.k + n_more
    continuous = queries.continuous if options.rerank else None
    # Every page re-ranks the same leading items, and an excluded item may be one of them.
    wanted = end + bool(queries.excluded)
    depth = wanted if continuous is None else max(wanted, RERANKED)
    if options.min_probability is not None:  # all re-ranked items may be less likely
        depth += RERANKED
    ranking = view.nearest(queries.codes, depth, index.threads).within_radius(options.radius)
    if ranking.k == 0 and where is None and options.radius is None and len(index):
        other = MODALITIES[1 - MODALITIES.index(modality)]
        raise InputError(
            f"No item in this collection has {modality} codes. Search its {other} codes: "
            f"find={other!r} (--find {other} on the command line)."
        )
    ids, distances, scores = ranking.rows, ranking.distances, None
    if continuous is not None:
        cosines = _cosines(index, view, ranking.rows[:, :RERANKED], continuous, modality)
        ids, distances, scores = _rerank(ranking, cosines, wanted)
    probabilities = None
    if calibration is not None and queries.modalities:
        stored = stores_continuous(index)
        probabilities = _probabilities(calibration, queries, modality, distances, scores, stored)
        if options.min_probability is not None:
            ids = np.where(probabilities >= options.min_probability, ids, NO_ROW)
    columns = ids, distances, scores, probabilities
    return _pages(*columns, queries.excluded, options.offset, end), view


def _check_calibration(calibration: Calibration | None, queries: EncodedQueries, find: str) -> None:
    """Raise an error if the matches of a query have no probability."""
    if calibration is None:
        raise InputError(
            "The model is not calibrated, so matches have no probability. Remove min_probability, "
            "or train the model again: corrhash train prints what calibration needs."
        )
    if not queries.modalities:
        raise InputError(
            "A search by code has no probabilities, because a code does not specify whether it "
            "encodes an image or a text. Remove min_probability."
        )
    for direction in sorted({f"{asked}->{find}" for asked in queries.modalities}):
        if direction not in calibration.directions:
            raise InputError(
                f"The model is not calibrated for {direction}, only for "
                f"{', '.join(calibration.directions)}. Remove min_probability."
            )


def _probabilities(
    calibration: Calibration,
    queries: EncodedQueries,
    find: str,
    distances: NDArray[np.int32],
    scores: NDArray[np.float64] | None,
    stored: bool,
) -> NDArray[np.float64]:
    """Return the (n, m) probabilities of results by what they are ranked by; nan if unknown."""
    by_distance, by_cosine = "query distance", "cosine" if stored else "query cosine"
    if queries.excluded:  # the cosine of two codes is a function of their distance
        by_distance, scores = "distance", scores if stored else None
    probabilities = np.full(distances.shape, np.nan)
    for asked in {*queries.modalities}:
        direction = f"{asked}->{find}"
        if direction not in calibration.directions:
            continue
        found = calibration.probabilities(direction, by_distance, distances)
        if scores is not None:
            reranked = calibration.probabilities(direction, by_cosine, scores)
            found = np.where(scores == scores, reranked, found)
        asks = np.array([modality == asked for modality in queries.modalities])
        probabilities[asks] = found[asks]
    return probabilities.round(PROBABILITY_DIGITS)


def stores_continuous(index: CodeIndex) -> bool:
    """Whether an index stores continuous codes beside the binary codes."""
    return bool(index.about.get("store_continuous", False))


def vectors_of(
    index: CodeIndex, ids: NDArray[np.int64], modality: str
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return which of the ids have vectors to compare continuous codes with, and the vectors.

    These are stored continuous codes, or the signs of codes.
    """
    if not stores_continuous(index):
        rows, codes = index.codes_of(ids, modality)
        return rows, codes.signs()
    name = f"{modality}_continuous"
    packed = [getattr(item, name) if item else None for item in index.get(ids, [name])]
    rows = np.flatnonzero([one is not None for one in packed])
    vectors = [unpack_continuous(one) for one in packed if one is not None]
    return rows, np.stack(vectors) if vectors else np.empty((0, index.n_bits))


def pack_continuous(continuous: NDArray[np.floating]) -> list[bytes]:
    """Normalize each row to unit length and pack it as float16, two bytes per bit."""
    return [row.tobytes() for row in unit_rows(continuous).astype("<f2")]


def unpack_continuous(packed: bytes) -> NDArray[np.float16]:
    """Unpack one row of :func:`pack_continuous`, (n_bits,)."""
    return np.frombuffer(packed, dtype="<f2")


def _cosines(
    index: CodeIndex,
    view: CodeView,
    ids: NDArray[np.int64],
    continuous: NDArray[Any],
    modality: str,
) -> NDArray[np.float64]:
    """Return the (n, m) cosines of n queries and m items each; -inf where an item is missing."""
    n, m = ids.shape
    queries = unit_rows(continuous)[:, :, None]  # (n, n_bits, 1)
    given, is_padded = ids.ravel(), ids.min(initial=0) == NO_ROW
    if is_padded:
        places = np.flatnonzero(given != NO_ROW)
        given = given[places]
    if stores_continuous(index):
        rows, vectors = vectors_of(index, given, modality)
        vectors, scale, shift = unit_rows(vectors), 1.0, np.zeros((n, 1))
    else:
        rows, codes = view.codes(given)
        # A sign is 2 * bit - 1, and all rows of signs have the same length.
        vectors, length = codes.bits(), index.n_bits**0.5
        scale, shift = 2 / length, queries.sum(axis=1) / length
    rows = places[rows] if is_padded else rows
    if len(rows) == n * m:
        table = vectors.astype(np.float64)
    else:
        table = np.zeros((n * m, index.n_bits))
        table[rows] = vectors
    products = (table.reshape(n, m, index.n_bits) @ queries)[:, :, 0]  # (n, m)
    cosines = (scale * products - shift).round(SCORE_DIGITS)
    if len(rows) < n * m:
        missing = np.ones(n * m, dtype=bool)
        missing[rows] = False
        cosines[missing.reshape(n, m)] = -np.inf
    return cosines


def _rerank(
    ranking: Ranking, cosines: NDArray[np.float64], wanted: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Order the leading items of each query by cosine; the others stay ordered by distance.

    Returns ids, distances and cosines of at least the first ``wanted`` results. The cosine is nan
    where an item was not re-ranked, and the id is -1 where it was deleted meanwhile.
    """
    m = cosines.shape[1]
    # A ranking is in order of distance and id, which a stable sort keeps where cosines tie.
    order = np.argsort(-cosines, axis=1, kind="stable")[:, : m if ranking.k > m else wanted]
    queries = np.arange(len(order))[:, None]
    ids, distances = ranking.rows[queries, order], ranking.distances[queries, order]
    scores = cosines[queries, order]
    ids[scores == -np.inf] = NO_ROW
    if ranking.k > m:
        ids = np.concatenate([ids, ranking.rows[:, m:]], axis=1)
        distances = np.concatenate([distances, ranking.distances[:, m:]], axis=1)
        scores = np.concatenate([scores, np.full((len(ids), ranking.k - m), np.nan)], axis=1)
    return ids, distances, scores


def _pages(
    ids: NDArray[np.int64],
    distances: NDArray[np.int32],
    scores: NDArray[np.float64] | None,
    probabilities: NDArray[np.float64] | None,
    excluded: Sequence[int],
    start: int,
    end: int,
) -> list[list[Found]]:
    """Return results ``start`` to ``end`` of each query, without padding and excluded ids."""
    pages, unknown = [], [[None] * ids.shape[1]] * len(ids)
    of_scores = unknown if scores is None else scores.tolist()
    of_probabilities = unknown if probabilities is None else probabilities.tolist()
    columns = ids.tolist(), distances.tolist(), of_scores, of_probabilities
    for row, of_query in enumerate(zip(*columns, strict=True)):
        hidden = {NO_ROW, *excluded[row : row + 1]}
        shown = (one for one in zip(*of_query, strict=True) if one[0] not in hidden)
        # What is not a number does not equal itself.
        pages.append(
            [
                (i, d, s if s == s else None, p if p == p else None)
                for i, d, s, p in islice(shown, start, end)
            ]
        )
    return pages


def items_on(
    index: CodeIndex, pages: list[list[Found]], fields: Sequence[str] = SHOWN
) -> dict[int, Item]:
    """Return the items of some pages by id, as far as they still exist."""
    ids = list({number: None for page in pages for number, *_ in page})
    items = zip(ids, index.get(ids, fields), strict=True)
    return {number: item for number, item in items if item is not None}
