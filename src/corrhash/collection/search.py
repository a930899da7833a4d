"""Searching an index: encode queries, find the nearest codes, re-rank them by cosine similarity.

Re-ranking compares the continuous code of a query with more than Hamming distance can. If the
collection stores continuous codes, it uses the cosine similarity of both; otherwise that of the
query's continuous code and the signs of the item's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.collection.base import Match, Query, SearchOptions
from corrhash.datasets.base import is_empty_text
from corrhash.datasets.images import open_image
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.index.filters import as_filter
from corrhash.index.items import MODALITIES, SHOWN, Item
from corrhash.index.ranking import Ranking
from corrhash.model import Model

RERANKED = 100
"""Number of nearest items that are re-ranked."""

_Found = tuple[int, int, float | None]
"""Id, distance and cosine similarity of one result."""


@dataclass(frozen=True, eq=False)
class EncodedQueries:
    """Codes of n queries.

    Parameters
    ----------
    codes : n codes.
    continuous : (n, n_bits) continuous codes to re-rank by; None disables re-ranking.
    excluded : id per query that its results must not contain, where the query is itself an item.
    """

    codes: Codes
    continuous: NDArray[Any] | None = None
    excluded: Sequence[int] = ()


def encode_queries(query: Query, model: Model, index: CodeIndex) -> EncodedQueries:
    """Encode queries of any kind with a model; keys are looked up in the index."""
    if query.kind == "codes":
        return EncodedQueries(query.values)
    if query.kind == "key":
        return _encode_keys(query.values, index)
    embed = embed_texts if query.kind == "text" else embed_images
    continuous = embed(query.values, model)
    return EncodedQueries(model.hasher.query_codes(continuous), continuous)


def embed_texts(texts: Any, model: Model) -> NDArray[Any]:
    """(n, n_bits) continuous codes of strings or term vectors with at least one known term."""
    read = model.reader.read_texts(texts)
    for row in np.flatnonzero(is_empty_text(read)):
        text = repr(texts[row]) if isinstance(texts, list) else f"query {row}"
        raise InputError(
            f"No term of {text} is in the model's vocabulary. Use terms from the training texts."
        )
    return model.hasher.embed_text(read)


def embed_images(images: Any, model: Model) -> NDArray[Any]:
    """(n, n_bits) continuous codes of images or feature vectors."""
    if getattr(images, "ndim", 0) != 2:
        images = [open_image(image) for image in images]
    return model.hasher.embed_image(model.reader.read_images(images))


def _encode_keys(keys: list[str], index: CodeIndex) -> EncodedQueries:
    ids = index.ids_of(keys)
    packed, continuous = [], []
    for key in keys:
        if key not in ids:
            raise InputError(f"No item with the key {key!r} in this collection.")
        modality, codes = _query_code(ids[key], index)
        vectors = vectors_of(index, [ids[key]], modality)
        if ids[key] not in vectors:
            raise InputError(f"Item {key!r} was deleted during the search.")
        packed.append(codes.packed)
        continuous.append(vectors[ids[key]])
    codes = Codes(np.concatenate(packed), index.n_bits)
    return EncodedQueries(codes, np.stack(continuous), [ids[key] for key in keys])


def _query_code(number: int, index: CodeIndex) -> tuple[str, Codes]:
    """The modality and code that an item is searched by: its image if it has one."""
    for modality in MODALITIES:
        _, codes = index.codes_of([number], modality)
        if len(codes):
            return modality, codes
    raise InputError(f"Item {number} was deleted during the search.")


def find_matches(
    index: CodeIndex, queries: EncodedQueries, options: SearchOptions
) -> list[list[Match]]:
    """Return the matches of each query."""
    modality, where = options.find, as_filter(options.where)
    end = options.offset + options.k
    continuous = queries.continuous if options.rerank else None
    # Every page re-ranks the same leading items, and an excluded item may be one of them.
    depth = end + bool(queries.excluded)
    depth = depth if continuous is None else max(depth, RERANKED)
    ranking = index.search(
        queries.codes, depth, modality=modality, where=where, radius=options.radius
    )
    if ranking.k == 0 and where is None and options.radius is None and len(index):
        other = MODALITIES[1 - MODALITIES.index(modality)]
        raise InputError(
            f"No item of this collection has {modality} codes. Search its {other} codes: "
            f"find={other!r} (--find {other} on the command line)."
        )
    found = [_found(ranking, row) for row in range(len(queries.codes))]
    if continuous is not None:
        found = _rerank(index, found, continuous, modality)
    for row, number in enumerate(queries.excluded):
        found[row] = [one for one in found[row] if one[0] != number]
    pages = [of_query[options.offset : end] for of_query in found]
    items = _items(index, pages, (*SHOWN, "thumbnail") if options.thumbnails else SHOWN)
    # Items that were deleted since the search are missing.
    return [[Match(*one, items[one[0]]) for one in page if one[0] in items] for page in pages]


def stores_continuous(index: CodeIndex) -> bool:
    """Whether an index stores continuous codes beside the binary codes."""
    return bool(index.about.get("store_continuous", False))


def vectors_of(index: CodeIndex, ids: list[int], modality: str) -> dict[int, NDArray[Any]]:
    """The vectors to compare continuous codes with: stored continuous codes, or code signs."""
    if stores_continuous(index):
        name = f"{modality}_continuous"
        items = zip(ids, index.get(ids, [name]), strict=True)
        return {number: unpack_continuous(getattr(item, name)) for number, item in items if item}
    rows, codes = index.codes_of(ids, modality)
    return dict(zip(np.array(ids)[rows].tolist(), codes.signs(), strict=True))


def pack_continuous(continuous: NDArray[np.floating]) -> list[bytes]:
    """Normalize each row to unit length and pack it as float16, two bytes per bit."""
    return [row.tobytes() for row in unit_rows(continuous).astype("<f2")]


def unpack_continuous(packed: bytes) -> NDArray[np.float16]:
    """Unpack one row of :func:`pack_continuous`, (n_bits,)."""
    return np.frombuffer(packed, dtype="<f2")


def cosine(query: NDArray[np.floating], items: NDArray[Any]) -> NDArray[np.float64]:
    """(n,) cosine similarities of one vector, (n_bits,), with n others.

    >>> cosine(np.array([0.9, -0.1]), np.array([[1, 1], [-1, -1], [1, -1]])).round(2)
    array([ 0.62, -0.62,  0.78])
    """
    return unit_rows(items) @ unit_rows(query[None])[0]


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Scale rows to unit length; zero rows stay zero."""
    rows = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def _found(ranking: Ranking, query: int) -> list[_Found]:
    rows, distances = ranking.rows[query].tolist(), ranking.distances[query].tolist()
    return [(row, d, None) for row, d in zip(rows, distances, strict=True) if row >= 0]


def _rerank(
    index: CodeIndex, found: list[list[_Found]], continuous: NDArray[Any], modality: str
) -> list[list[_Found]]:
    """Order the leading items of each query by cosine; the others stay ordered by distance."""
    leading = [of_query[:RERANKED] for of_query in found]
    ids = _ids_in(leading)
    vectors = vectors_of(index, ids, modality) if ids else {}
    for of_query, top, query in zip(found, leading, continuous, strict=True):
        existing = [one for one in top if one[0] in vectors]  # others were deleted meanwhile
        if existing:
            cosines = cosine(query, np.stack([vectors[number] for number, _, _ in existing]))
            cosines = cosines.round(6)  # the last digits vary from run to run
            scored = zip(existing, cosines.tolist(), strict=True)
            ranked = sorted((-value, distance, number) for (number, distance, _), value in scored)
            top = [(number, distance, -value) for value, distance, number in ranked]
        of_query[:RERANKED] = top
    return found


def _items(index: CodeIndex, pages: list[list[_Found]], fields: Sequence[str]) -> dict[int, Item]:
    ids = _ids_in(pages)
    items = zip(ids, index.get(ids, fields), strict=True)
    return {number: item for number, item in items if item is not None}


def _ids_in(pages: list[list[_Found]]) -> list[int]:
    """The distinct ids of all results."""
    return list({number: None for page in pages for number, _, _ in page})
