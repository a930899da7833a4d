"""Batcher: passes requests to worker threads, all that are waiting at a time.

No request waits for others to arrive. While a batch is in progress, requests queue up; the next
batch takes all of them. A single client is answered immediately, and many share each batch. If a
batch takes long, another thread starts on the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Request = TypeVar("Request")
Response = TypeVar("Response")

THREADS = 2
"""Batches in progress at once, so that one slow query does not block all others."""

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
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.put(request, future)
        return await future

    def put(self, request: Request, future: asyncio.Future[Response]) -> None:
        """Queue a request whose response becomes the result of a future."""
        self._waiting.append((request, future))
        if self._busy == 0:
            self._start()
        elif self._timer is None:
            self._watch()

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
        resolve([future for _, future in batch], responses)

    def close(self) -> None:
        """Stop the threads, without waiting for the batches in progress."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def resolve(
    futures: list[asyncio.Future[Response]], responses: Sequence[Response | Exception]
) -> None:
    """Set the result or the exception of each future."""
    for future, response in zip(futures, responses, strict=True):
        if future.done():  # its request was cancelled
            continue
        if isinstance(response, Exception):
            future.set_exception(response)
        else:
            future.set_result(response)
