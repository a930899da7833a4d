"""Batcher: shared batches, one response per request."""

import asyncio
import threading

import pytest

from corrhash.service.batcher import Batcher


def test_waiting_requests_share_a_batch():
    sizes, go = [], threading.Event()

    def process(requests):
        sizes.append(len(requests))
        go.wait(10)
        return [10 * request for request in requests]

    async def submit_all():
        batcher = Batcher(process, threads=1, max_size=4)
        tasks = [asyncio.create_task(batcher.submit(n)) for n in range(8)]
        await asyncio.sleep(0.05)  # the first batch is in progress
        go.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(submit_all()) == [10 * n for n in range(8)]
    assert sizes[0] <= 4
    assert sum(sizes) == 8
    assert len(sizes) < 8


def test_a_slow_batch_does_not_block_others():
    """The slow request ends only after 70 others that were submitted later."""
    sizes, go = [], threading.Event()

    def process(requests):
        sizes.append(len(requests))
        if "slow" in requests:
            assert go.wait(30)
        return requests

    async def submit_all():
        batcher = Batcher(process, max_size=16)
        slow = asyncio.create_task(batcher.submit("slow"))
        await asyncio.sleep(0.01)
        assert await asyncio.gather(*map(batcher.submit, range(70))) == list(range(70))
        assert not slow.done()
        go.set()
        assert await slow == "slow"
        assert await batcher.submit("last") == "last"

    asyncio.run(submit_all())
    assert (sum(sizes), max(sizes)) == (72, 16)


def test_quick_batches_are_not_split_over_threads():
    """While one batch is in progress, all later requests wait for the next one."""
    sizes = []

    def process(requests):
        sizes.append(len(requests))
        return requests

    async def client(batcher, n):
        return [await batcher.submit(n) for _ in range(20)]

    async def submit_all():
        batcher = Batcher(process)
        await asyncio.gather(*(client(batcher, n) for n in range(8)))

    asyncio.run(submit_all())
    assert sum(sizes) == 160
    assert max(sizes) == 8


def test_an_exception_fails_one_request_only():
    def process(requests):
        return [ValueError(one) if one == "bad" else one for one in requests]

    async def submit_all():
        batcher = Batcher(process, threads=1)
        tasks = map(batcher.submit, ["a", "bad", "b"])
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, bad, last = asyncio.run(submit_all())
    assert (first, last) == ("a", "b")
    assert isinstance(bad, ValueError)


def test_a_failing_batch_fails_its_requests():
    async def submit():
        return await Batcher(lambda requests: 1 / 0).submit("x")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(submit())
