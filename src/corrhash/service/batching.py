"""Batches: questions that wait at the same time are answered together, in one scan.

Nobody waits for company. While the threads are busy, questions gather; a thread that comes free
takes all of them. So one client gets an answer at once, and many share the cost of a scan.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Batches(Generic[Question, Answer]):
    """Hands questions to threads, as many at a time as there are.

    Parameters
    ----------
    work : answers to some questions, in their order; an exception stands for an answer where one
        question is at fault.
    threads : how many batches may be under way at once.
    most : how many questions a batch may hold.
    """

    def __init__(
        self,
        work: Callable[[list[Question]], Sequence[Answer | Exception]],
        threads: int = 2,
        most: int = 64,
    ) -> None:
        self.work = work
        self.threads = threads
        self.most = most
        self._pool = ThreadPoolExecutor(threads, "corrhash-search")
        self._waiting: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question) -> Answer:
        """The answer to a question, once it is there."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._busy < self.threads:
            self._busy += 1
            task = asyncio.create_task(self._answer_all())
            self._tasks.add(task)  # the loop itself does not hold on to tasks
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                n = min(self.most, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(n)]
                # Those who have left meanwhile need no answer.
                await self._answer([one for one in batch if not one[1].done()])
        finally:
            self._busy -= 1

    async def _answer(self, batch: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        questions = [question for question, _ in batch]
        loop = asyncio.get_running_loop()
        try:
            answers: Sequence[Answer | Exception]
            answers = await loop.run_in_executor(self._pool, self.work, questions)
        except Exception as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def close(self) -> None:
        """Finish what is under way, and take nothing more."""
        self._pool.shutdown()
