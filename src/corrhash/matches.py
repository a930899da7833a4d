"""Match: from the codes of queries to items, the nearest of them ranked once more, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.errors import InputError
from corrhash.filters import Filter, as_filter
from corrhash.index.base import CodeIndex, check_k
from corrhash.index.item import SHOWN, SIDES, Item, check_side
from corrhash.ranking import Ranking
from corrhash.rerank import cosine, unpack_scores

RERANKED = 100
"""How many of the nearest are ranked once more."""

_Found = tuple[int, int, float | None]
"""Id, distance and cosine of an answer."""

_A = {"image": "a picture", "text": "a text"}


@dataclass(frozen=True)
class Match:
    """One answer to a search.

    Parameters
    ----------
    id : its number in the collection.
    distance : how many bits differ between its code and that of the query.
    score : the cosine by which the nearest were ranked once more, if they were.
    item : key, text, labels, metadata and path; the thumbnail where it was asked for.
    """

    id: int
    distance: int
    score: float | None
    item: Item

    @property
    def key(self) -> str:
        """The name of the item."""
        return self.item.key


def find_matches(
    index: CodeIndex,
    codes: Codes,
    scores: NDArray[Any] | None,
    k: int,
    find: str,
    *,
    where: str | Filter | None = None,
    radius: int | None = None,
    offset: int = 0,
    thumbnails: bool = False,
) -> list[list[Match]]:
    """The answers to each of several codes; with their scores the nearest are ranked once more."""
    k, side, wanted, offset = check_k(k), check_side(find), as_filter(where), check_offset(offset)
    # Whatever the page, the same first ones are ranked once more.
    asked = max(offset + k, RERANKED) if scores is not None else offset + k
    ranking = index.search(codes, asked, side=side, where=wanted, radius=radius)
    if ranking.k == 0 and wanted is None and radius is None and len(index):
        other = SIDES[1 - SIDES.index(side)]
        raise InputError(
            f"No item of this collection has the code of {_A[side]}. Ask for {_A[other]}: --find "
            f"{other}, or find={other!r} in Python."
        )
    found = [_found(ranking, query) for query in range(len(codes))]
    if scores is not None:
        found = _reranked(index, found, scores, side)
    pages = [answers[offset : offset + k] for answers in found]
    items = _items(index, pages, (*SHOWN, "thumbnail") if thumbnails else SHOWN)
    # An item that was deleted since the search has none.
    return [[Match(*one, items[one[0]]) for one in page if one[0] in items] for page in pages]


def keeps_scores(index: CodeIndex) -> bool:
    """Whether items keep their scores beside their codes."""
    return bool(index.about.get("store_scores", False))


def vectors_of(index: CodeIndex, ids: list[int], side: str) -> dict[int, NDArray[Any]]:
    """What a query's scores are compared with: the scores of items, or the signs of codes."""
    if keeps_scores(index):
        name = f"{side}_scores"
        kept = zip(ids, index.get(ids, [name]), strict=True)
        return {number: unpack_scores(getattr(item, name)) for number, item in kept if item}
    rows, codes = index.codes_of(ids, side)
    return dict(zip(np.array(ids)[rows].tolist(), codes.signs(), strict=True))


def check_offset(offset: int) -> int:
    """How many of the first to leave out, if it is such a number."""
    if not isinstance(offset, (int, np.integer)) or offset < 0:
        raise InputError(f"offset must be a whole number from 0 up. Got {offset!r}.")
    return int(offset)


def _found(ranking: Ranking, query: int) -> list[_Found]:
    """The answers to one query."""
    rows, distances = ranking.rows[query].tolist(), ranking.distances[query].tolist()
    return [(row, d, None) for row, d in zip(rows, distances, strict=True) if row >= 0]


def _reranked(
    index: CodeIndex, found: list[list[_Found]], scores: NDArray[Any], side: str
) -> list[list[_Found]]:
    """For each query the first ones by cosine, best first; then the others, by distance."""
    first = [answers[:RERANKED] for answers in found]
    ids = _ids_in(first)
    kept = vectors_of(index, ids, side) if ids else {}
    for answers, top, of_query in zip(found, first, scores, strict=True):
        there = [one for one in top if one[0] in kept]  # others were deleted meanwhile
        if there:
            cosines = cosine(of_query, np.stack([kept[number] for number, _, _ in there]))
            cosines = cosines.round(6)  # the last digits vary from run to run
            finer = zip(there, cosines.tolist(), strict=True)
            ranked = sorted((-value, distance, number) for (number, distance, _), value in finer)
            top = [(number, distance, -value) for value, distance, number in ranked]
        answers[:RERANKED] = top
    return found


def _items(index: CodeIndex, pages: list[list[_Found]], fields: Sequence[str]) -> dict[int, Item]:
    ids = _ids_in(pages)
    items = zip(ids, index.get(ids, fields), strict=True)
    return {number: item for number, item in items if item is not None}


def _ids_in(pages: list[list[_Found]]) -> list[int]:
    """The ids of all answers, each once."""
    return list({number: None for page in pages for number, _, _ in page})
