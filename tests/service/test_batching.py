"""Batches: what waits together is answered together, each with its own answer."""

import asyncio
import threading

import pytest

from corrhash.service.batching import Batches


def test_questions_that_wait_at_the_same_time_are_answered_together():
    sizes, go = [], threading.Event()

    def work(questions):
        sizes.append(len(questions))
        go.wait(10)
        return [10 * question for question in questions]

    async def ask():
        batches = Batches(work, threads=1, most=4)
        asked = [asyncio.create_task(batches.ask(n)) for n in range(8)]
        await asyncio.sleep(0.05)  # the first is under way by itself
        go.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == [10 * n for n in range(8)]
    assert sizes[0] <= 4
    assert sum(sizes) == 8
    assert len(sizes) < 8


def test_one_fault_does_not_spoil_the_others():
    def work(questions):
        return [ValueError(q) if q == "bad" else q for q in questions]

    async def ask():
        batches = Batches(work, threads=1)
        return await asyncio.gather(*map(batches.ask, ["a", "bad", "b"]), return_exceptions=True)

    first, bad, last = asyncio.run(ask())
    assert (first, last) == ("a", "b")
    assert isinstance(bad, ValueError)


def test_a_defect_of_the_work_reaches_whoever_asked():
    async def ask():
        return await Batches(lambda questions: 1 / 0).ask("x")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(ask())
