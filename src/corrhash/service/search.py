"""Batched searches: queries that wait at the same time are answered by one scan of the index.

Short searches run on the event loop: handing one over to a thread and back takes as long as the
search itself. All others run on threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.collection.base import Query, QueryKind, SearchOptions
from corrhash.collection.collection import Collection
from corrhash.collection.search import (
    EncodedQueries,
    Found,
    embed_texts,
    encode_queries,
    find_pages,
    items_on,
)
from corrhash.datasets.query_words import QueryWords
from corrhash.errors import InputError, StorageError
from corrhash.index.base import CodeIndex, CodeView
from corrhash.index.items import Item
from corrhash.index.time_limit import TimeLimitError, time_limit
from corrhash.model import Model
from corrhash.service.batcher import Batcher, resolve
from corrhash.service.limits import MAX_RESPONSE, Limits
from corrhash.service.schemas import Modality, to_json

Value = TypeVar("Value")

FILTER_THREADS = 4
"""Searches with a filter in progress at once. Each has a thread for itself, because a filter can be
slow; other searches have threads of their own."""

FILTERS_PER_CLIENT = 2
"""Searches with a filter of one client in progress at once; more of them wait for each other."""

SINGLE_THREAD = 4_000_000
"""Items below which one thread scans for a batch, in about a millisecond. On a busy machine waking
another one takes longer than that."""

RESPONSE_FRAME = 4096
"""Bytes of a response that are reserved for what it contains besides the matches."""
SHORT = 0.005
"""Seconds of a search up to which searches run on the event loop."""

ROUNDS = 3
"""Rounds of the event loop without a new search after which those waiting are answered."""

SHORT_DEPTH = 1000
"""Results, those of earlier pages included, up to which a search counts as short."""

KEPT_TEXTS = 10_000
"""Texts whose codes are kept, in at most 16 MB if codes have 64 bits."""

PUBLISHED = ("key", "text", "labels", "metadata")
"""Fields of items in responses; the path is private."""


@dataclass(frozen=True)
class SearchRequest:
    """One query: a text, an opened image, a key or one code, with its search options."""

    kind: QueryKind
    value: Any
    options: SearchOptions
    received: float = field(default_factory=time.perf_counter)

    @property
    def is_short(self) -> bool:
        """Whether it takes no longer than most: an image is encoded slowly, a filter is new."""
        options = self.options
        return (
            self.kind != "image"
            and options.where is None
            and options.offset + options.k <= SHORT_DEPTH
        )


def _groups(values: list[Value], request: Callable[[Value], SearchRequest]) -> list[list[Value]]:
    """Group what belongs to requests that one scan answers: those of equal kind and options."""
    groups: dict[tuple[str, SearchOptions], list[Value]] = {}
    for value in values:
        one = request(value)
        groups.setdefault((one.kind, one.options), []).append(value)
    return list(groups.values())


def words_fields(found: QueryWords) -> dict[str, Any]:
    """Return the fields of a response about the words of its query."""
    return {
        "unknown_words": list(found.unknown),
        "suggestions": dict(found.suggestions),
        "message": found.message,
    }


NO_WORDS = words_fields(QueryWords())


class TextEncoder:
    """Encodes texts, and keeps the codes of the latest ones: many queries are repeated.

    The codes of a text do not depend on the texts that are encoded with it.
    """

    def __init__(self, model: Model, size: int = KEPT_TEXTS) -> None:
        self.model = model
        self.size = size
        # Continuous and packed codes by text, the latest ones last
        self._kept: dict[str, tuple[NDArray[Any], NDArray[np.uint8]]] = {}
        self._lock = Lock()
        self.check_words = lru_cache(KEPT_TEXTS)(
            lambda text: words_fields(model.reader.check_words(text))
        )

    def encode(self, texts: list[str]) -> EncodedQueries:
        """Return the codes of texts with at least one known term each."""
        with self._lock:
            rows = {text: self._kept.pop(text) for text in {*texts} & self._kept.keys()}
        new = [text for text in dict.fromkeys(texts) if text not in rows]
        if new:
            continuous = embed_texts(new, self.model)
            codes = self.model.hasher.query_codes(continuous)
            rows |= zip(new, zip(continuous, codes.packed, strict=True), strict=True)
        with self._lock:
            self._kept |= rows
            for text in list(islice(self._kept, max(0, len(self._kept) - self.size))):
                del self._kept[text]
        if len(new) == len(texts):
            return EncodedQueries(codes, continuous, modalities=["text"] * len(texts))
        continuous, packed = map(np.stack, zip(*(rows[text] for text in texts), strict=True))
        codes = Codes(packed, self.model.n_bits)
        return EncodedQueries(codes, continuous, modalities=["text"] * len(texts))


class SearchService:
    """Searches a collection for many clients at once."""

    def __init__(
        self,
        collection: Collection,
        observe_batch: Callable[[int], object],
        seconds: float = Limits.search,
    ) -> None:
        self.collection = collection
        self.observe_batch = observe_batch
        self.seconds = seconds
        self._batcher: Batcher[SearchRequest, bytes] = Batcher(self.search_all)
        self._filtering: Batcher[SearchRequest, bytes] = Batcher(
            self.search_all, FILTER_THREADS, max_size=1
        )
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._texts = TextEncoder(collection.model)
        self._answers_on_loop = False
        self._short: list[tuple[SearchRequest, asyncio.Future[bytes]]] = []
        self._n_last = 0  # short searches that were answered last

    async def search(
        self, kind: QueryKind, value: Any, options: SearchOptions, client: str = ""
    ) -> bytes:
        """Return the response to one query in JSON, computed with others that are waiting.

        No search waits for the filter of another client.
        """
        request = SearchRequest(kind, value, options)
        if options.where is not None:
            turn = self._turns.setdefault(client, asyncio.Semaphore(FILTERS_PER_CLIENT))
            async with turn:
                return await self._filtering.submit(request)
        if not self._answers_on_loop or not request.is_short:
            return await self._batcher.submit(request)
        loop = asyncio.get_running_loop()
        if not self._short:  # after all requests that are ready to run have been queued
            loop.call_soon(self._gather, 0, 0)
        future: asyncio.Future[bytes] = loop.create_future()
        self._short.append((request, future))
        return await future

    def _gather(self, n_seen: int, n_idle: int) -> None:
        """Answer the short searches that are waiting, once the event loop has read all requests.

        A request passes through a few rounds of the event loop until it is queued here. A client
        that is alone does not wait for them.
        """
        n = len(self._short)
        n_idle = n_idle + 1 if n == n_seen else 0
        if self._n_last > 1 and n_idle < ROUNDS and n < self._batcher.max_size:
            asyncio.get_running_loop().call_soon(self._gather, n, n_idle)
        else:
            self._n_last = n
            self._answer_short()

    def _answer_short(self) -> None:
        """Answer the short searches that are waiting, or pass them on if codes must be read."""
        waiting, self._short = self._short, []
        for group in _groups(waiting, lambda one: one[0]):
            requests, futures = [one for one, _ in group], [future for _, future in group]
            view = None
            # A thread loads the model if it was replaced, and reports errors.
            with suppress(StorageError):
                if self.collection.encoders.is_current:
                    view = self.collection.index.current_view(requests[0].options.find)
            if view is None:
                for request, future in group:
                    self._batcher.put(request, future)
                continue
            self.observe_batch(len(group))
            resolve(futures, self._search_group(requests, view))

    def search_all(self, requests: list[SearchRequest]) -> list[bytes | Exception]:
        """Answer several queries, with one scan per distinct kind and options."""
        self.observe_batch(len(requests))
        responses: dict[int, bytes | Exception] = {}
        for group in _groups(list(enumerate(requests)), lambda one: one[1]):
            of_group = self._search_group([request for _, request in group])
            responses |= zip((row for row, _ in group), of_group, strict=True)
        return [responses[row] for row in range(len(requests))]

    def _search_group(
        self, requests: list[SearchRequest], view: CodeView | None = None
    ) -> list[bytes | Exception]:
        try:
            return list(self._search(requests, view))
        except TimeLimitError as error:
            return [error] * len(requests)
        except Exception as error:
            if len(requests) == 1:
                return [error]
        # One of the queries is at fault; answer the others.
        return [self._search_group([request], view)[0] for request in requests]

    def _search(self, requests: list[SearchRequest], view: CodeView | None = None) -> list[bytes]:
        """Return the :class:`SearchResponse` of each query as JSON, all from one generation."""
        views = iter([view])  # if the model is replaced, the search is repeated with new codes
        search = partial(self._search_with, requests)
        return self.collection.encoders.consistent(lambda model: search(model, next(views, None)))

    def _search_with(
        self, requests: list[SearchRequest], model: Model, view: CodeView | None
    ) -> list[bytes]:
        kind, options, collection = requests[0].kind, requests[0].options, self.collection
        values: Any = [request.value for request in requests]
        if kind == "codes":
            values = Codes(np.concatenate([code.packed for code in values]), collection.n_bits)
        waited = time.perf_counter() - max(request.received for request in requests)
        texts = self._text_encoder(model)
        if kind == "text":
            encoded = texts.encode(values)
        else:
            encoded = encode_queries(Query(kind, values), model, collection.index)
        # What is answered on the event loop evaluates no filter and waits for nothing.
        limit = time_limit(self.seconds, elapsed=0 if options.where is None else waited)
        with limit if view is None else nullcontext():
            calibration = model.calibration
            pages, view = find_pages(collection.index, encoded, options, view, 1, calibration)
            matches = self._matches(pages, view, options)
        responses = []
        for request, code, page in zip(requests, encoded.codes.hex(), pages, strict=True):
            shown = [
                {**matches[number], "distance": distance, "score": score, "probability": p}
                for number, distance, score, p in page[: options.k]
                if number in matches  # others were deleted meanwhile
            ]
            words = texts.check_words(request.value) if kind == "text" else NO_WORDS
            response = {
                "code": code,
                "bits": collection.n_bits,
                "find": options.find,
                "matches": shown,
                "next_offset": options.offset + options.k if len(page) > options.k else None,
                **words,
                "milliseconds": round(1000 * (time.perf_counter() - request.received), 3),
            }
            content = to_json(response)
            if len(content) > MAX_RESPONSE and len(shown) > 1:
                n_shown = how_many_fit(shown)
                fitting = {"matches": shown[:n_shown], "next_offset": options.offset + n_shown}
                content = to_json(response | fitting)
            responses.append(content)
        return responses

    def _text_encoder(self, model: Model) -> TextEncoder:
        """Return the encoder of texts, a new one after the model was replaced."""
        texts = self._texts
        if texts.model is not model:
            self._texts = texts = TextEncoder(model)
        return texts

    def _matches(
        self, pages: list[list[Found]], view: CodeView, options: SearchOptions
    ) -> dict[int, dict[str, Any]]:
        """Return the published fields and the code of each item on some pages, by id."""
        index = self.collection.index
        shown = [page[: options.k] for page in pages]
        items = items_on(index, shown, PUBLISHED)
        ids = np.fromiter(items, dtype=np.int64, count=len(items))
        rows, codes = view.codes(ids)
        coded = zip(ids[rows].tolist(), codes.hex(), strict=True)
        has_image = items if options.find == "image" else image_ids(index, ids)
        return {
            number: {**item_fields(number, items[number], number in has_image), "code": code}
            for number, code in coded
        }

    def warm_up(self) -> list[Modality]:
        """Load and compile what searches need; return the kinds of queries the model accepts."""
        model = self.collection.model
        # The first search by image loads the image network: a service for texts needs no PyTorch.
        accepted: list[Modality] = ["image"] if model.reads_images else []
        vocabulary = model.reader.vocabulary
        term = "words" if vocabulary is None else vocabulary.terms[0]
        with suppress(InputError):
            embed_texts([term], model)
            accepted.append("text")
        is_small = len(self.collection) < SINGLE_THREAD
        if is_small:
            self.collection.index.threads = 1
        # One query and many use different kernels, each compiled at its first use.
        for n in (1, self._batcher.max_size):
            self.collection.nearest(Codes.from_continuous(np.zeros((n, model.n_bits))), 1)
        self._answers_on_loop = is_small and self._seconds(term) < SHORT
        return accepted

    def _seconds(self, text: str) -> float:
        """Return how long a search by text takes, the least of a few attempts."""
        times = []
        for _ in range(5):
            start = time.perf_counter()
            self._search_group([SearchRequest("text", text, SearchOptions())])
            times.append(time.perf_counter() - start)
        return min(times)

    def close(self) -> None:
        """Drop the searches that wait, and stop; those in progress end on their own."""
        self._batcher.close()
        self._filtering.close()


def how_many_fit(items: Sequence[Any]) -> int:
    """Return how many items a response can hold, at least one."""
    sizes = np.cumsum([len(to_json(item)) + 1 for item in items])
    return max(1, int(np.searchsorted(sizes, MAX_RESPONSE - RESPONSE_FRAME, side="right")))


def item_fields(number: int, item: Item, has_image: bool) -> dict[str, Any]:
    """The published fields of an item; its path is private."""
    return {
        "id": number,
        "key": item.key,
        "text": item.text,
        "labels": list(item.labels),
        "metadata": dict(item.metadata),
        "thumbnail": f"/api/v1/items/{number}/thumbnail" if has_image else None,
    }


def image_ids(index: CodeIndex, ids: NDArray[np.int64]) -> set[int]:
    """The ids of those items that have an image code."""
    rows, _ = index.codes_of(ids, "image")
    return {*ids[rows].tolist()}
