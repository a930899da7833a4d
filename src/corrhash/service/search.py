"""Batched searches: queries that wait at the same time are answered by one scan of the index.

No query waits for others to arrive. While a batch is in progress, queries queue up; the next batch
takes all of them. A single client is answered immediately, and many share each scan. If a batch
takes long, another thread starts on the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from corrhash.codes import Codes
from corrhash.collection.base import Match, Query, QueryKind, SearchOptions
from corrhash.collection.collection import Collection
from corrhash.collection.search import embed_texts, encode_queries, find_matches
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.index.items import Item
from corrhash.index.time_limit import TimeLimitError, time_limit
from corrhash.service.limits import MAX_RESPONSE, Limits
from corrhash.service.schemas import Modality, to_json

Request = TypeVar("Request")
Response = TypeVar("Response")

FILTER_THREADS = 4
"""Searches with a filter in progress at once. Each has a thread for itself, because a filter can be
slow; other searches have threads of their own."""

FILTERS_PER_CLIENT = 2
"""Searches with a filter of one client in progress at once; more of them wait for each other."""

THREADS = 2
"""Batches in progress at once, so that one slow query does not block all others."""

SINGLE_THREAD = 4_000_000
"""Items below which one thread scans for a batch, in about a millisecond. On a busy machine waking
another one takes longer than that."""

RESPONSE_FRAME = 4096
"""Bytes of a response that are reserved for what it contains besides the matches."""

PATIENCE = 0.02
"""Seconds after which a batch in progress counts as slow. Two quick batches would cost more than
one of the same queries, and compete for the interpreter."""


class Batcher(Generic[Request, Response]):
    """Passes requests to worker threads, all waiting requests at a time.

    Parameters
    ----------
    process : returns one response per request, in order; an exception in place of a response fails
        that request alone.
    threads : maximum number of batches in progress.
    max_size : maximum number of requests per batch.
    """

    def __init__(
        self,
        process: Callable[[list[Request]], Sequence[Response | Exception]],
        threads: int = THREADS,
        max_size: int = 64,
    ) -> None:
        self.process = process
        self.threads = threads
        self.max_size = max_size
        self._pool = ThreadPoolExecutor(threads, "corrhash-search")
        self._waiting: deque[tuple[Request, asyncio.Future[Response]]] = deque()
        self._busy = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, request: Request) -> Response:
        """Queue a request and wait for its response."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Response] = loop.create_future()
        self._waiting.append((request, future))
        if self._busy == 0:
            self._start()
        elif self._timer is None:
            self._watch()
        return await future

    def _watch(self) -> None:
        """Start another batch after a while, if requests still wait for one in progress."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self._busy:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._start_another)

    def _start_another(self) -> None:
        self._timer = None
        if self._waiting and self._busy < self.threads:
            self._start()

    def _start(self) -> None:
        self._busy += 1
        task = asyncio.create_task(self._process_waiting())
        self._tasks.add(task)  # the event loop keeps only weak references to tasks
        task.add_done_callback(self._tasks.discard)

    async def _process_waiting(self) -> None:
        try:
            while self._waiting:
                n = min(self.max_size, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(n)]
                self._watch()
                # A cancelled request needs no response.
                await self._process_batch([one for one in batch if not one[1].done()])
                if self._busy > 1:  # the other thread continues
                    break
        finally:
            self._busy -= 1
            self._watch()

    async def _process_batch(self, batch: list[tuple[Request, asyncio.Future[Response]]]) -> None:
        requests = [request for request, _ in batch]
        loop = asyncio.get_running_loop()
        try:
            responses: Sequence[Response | Exception]
            responses = await loop.run_in_executor(self._pool, self.process, requests)
        except Exception as error:
            responses = [error] * len(batch)
        for (_, future), response in zip(batch, responses, strict=True):
            if future.done():
                continue
            if isinstance(response, Exception):
                future.set_exception(response)
            else:
                future.set_result(response)

    def close(self) -> None:
        """Stop the threads, without waiting for the batches in progress."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class SearchRequest:
    """One query: a text, an opened image, a key or one code, with its search options."""

    kind: QueryKind
    value: Any
    options: SearchOptions
    received: float = field(default_factory=time.perf_counter)


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

    async def search(
        self, kind: QueryKind, value: Any, options: SearchOptions, client: str = ""
    ) -> bytes:
        """Return the response to one query in JSON, computed with others that are waiting.

        No search waits for the filter of another client.
        """
        request = SearchRequest(kind, value, options)
        if options.where is None:
            return await self._batcher.submit(request)
        turn = self._turns.setdefault(client, asyncio.Semaphore(FILTERS_PER_CLIENT))
        async with turn:
            return await self._filtering.submit(request)

    def search_all(self, requests: list[SearchRequest]) -> list[bytes | Exception]:
        """Answer several queries, with one scan per distinct kind and options."""
        self.observe_batch(len(requests))
        groups: dict[tuple[str, SearchOptions], list[int]] = {}
        for row, request in enumerate(requests):
            groups.setdefault((request.kind, request.options), []).append(row)
        responses: dict[int, bytes | Exception] = {}
        for rows in groups.values():
            of_group = self._search_group([requests[row] for row in rows])
            responses |= dict(zip(rows, of_group, strict=True))
        return [responses[row] for row in range(len(requests))]

    def _search_group(self, requests: list[SearchRequest]) -> list[bytes | Exception]:
        try:
            return list(self._search(requests))
        except TimeLimitError as error:
            return [error] * len(requests)
        except Exception as error:
            if len(requests) == 1:
                return [error]
        # One of the queries is at fault; answer the others.
        return [self._search_group([request])[0] for request in requests]

    def _search(self, requests: list[SearchRequest]) -> list[bytes]:
        kind, options, collection = requests[0].kind, requests[0].options, self.collection
        values: Any = [request.value for request in requests]
        if kind == "codes":
            values = Codes(np.concatenate([code.packed for code in values]), collection.n_bits)
        query = Query(kind, values)
        waited = time.perf_counter() - max(request.received for request in requests)
        encoded = encode_queries(query, collection.model, collection.index)
        # One match more than requested shows whether there is a next page.
        one_more = replace(options, k=options.k + 1)
        with time_limit(self.seconds, elapsed=0 if options.where is None else waited):
            found = find_matches(collection.index, encoded, one_more)
            return self._responses(requests, encoded.codes, found)

    def _responses(
        self, requests: list[SearchRequest], codes: Codes, found: list[list[Match]]
    ) -> list[bytes]:
        """Return the :class:`SearchResponse` of each query as JSON."""
        options, index = requests[0].options, self.collection.index
        ids = list({match.id: None for matches in found for match in matches})
        item_codes = codes_in_hex(index, ids, options.find)
        has_image = item_codes if options.find == "image" else codes_in_hex(index, ids, "image")
        responses = []
        for request, code, matches in zip(requests, to_hex(codes), found, strict=True):
            shown = [
                {
                    **item_fields(match.id, match.item, match.id in has_image),
                    "distance": match.distance,
                    "score": match.score,
                    "code": item_codes[match.id],
                }
                for match in matches[: options.k]
                if match.id in item_codes  # others were deleted meanwhile
            ]
            response = {
                "code": code,
                "bits": codes.n_bits,
                "find": options.find,
                "matches": shown,
                "next_offset": options.offset + options.k if len(matches) > options.k else None,
                "milliseconds": round(1000 * (time.perf_counter() - request.received), 3),
            }
            content = to_json(response)
            if len(content) > MAX_RESPONSE and len(shown) > 1:
                n_shown = how_many_fit(shown)
                page = {"matches": shown[:n_shown], "next_offset": options.offset + n_shown}
                content = to_json(response | page)
            responses.append(content)
        return responses

    def warm_up(self) -> list[Modality]:
        """Load and compile what searches need; return the kinds of queries the model accepts."""
        model = self.collection.model
        # The first search by image loads the image network: a service for texts needs no PyTorch.
        accepted: list[Modality] = ["image"] if model.reads_images else []
        vocabulary = model.reader.vocabulary
        with suppress(InputError):
            embed_texts(["words" if vocabulary is None else vocabulary.terms[0]], model)
            accepted.append("text")
        if len(self.collection) < SINGLE_THREAD:
            self.collection.index.threads = 1
        # One query and many use different kernels, each compiled at its first use.
        for n in (1, self._batcher.max_size):
            self.collection.nearest(Codes.from_continuous(np.zeros((n, model.n_bits))), 1)
        return accepted

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


def codes_in_hex(index: CodeIndex, ids: Sequence[int], modality: str) -> dict[int, str]:
    """The code of one modality in hexadecimal digits, for each id that has one."""
    rows, codes = index.codes_of(ids, modality)
    return dict(zip([ids[row] for row in rows.tolist()], to_hex(codes), strict=True))


def to_hex(codes: Codes) -> list[str]:
    """Each code in hexadecimal digits."""
    digits, n_digits = codes.packed.tobytes().hex(), 2 * codes.packed.shape[1]
    return [digits[start : start + n_digits] for start in range(0, len(digits), n_digits)]


def from_hex(digits: str, n_bits: int) -> Codes:
    """One code from its hexadecimal digits."""
    n_digits = 2 * ((n_bits + 7) // 8)
    if len(digits) != n_digits:
        raise InputError(
            f"A code of {n_bits} bits has {n_digits} hexadecimal digits, got {len(digits)}."
        )
    return Codes(np.frombuffer(bytes.fromhex(digits), dtype=np.uint8)[None], n_bits)
