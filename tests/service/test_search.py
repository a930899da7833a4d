"""Batched searches: shared scans, one response per request."""

import asyncio
import threading

import numpy as np
import pytest

from corrhash import Codes
from corrhash.collection import SearchOptions
from corrhash.collection.search import find_matches
from corrhash.errors import InputError
from corrhash.index.time_limit import TimeLimitError
from corrhash.service.schemas import SearchResponse
from corrhash.service.search import Batcher, SearchRequest, SearchService, from_hex, to_hex


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


@pytest.fixture
def service(collection):
    service = SearchService(collection, lambda size: None)
    yield service
    service.close()


def content(response):
    return SearchResponse.model_validate_json(response).model_dump(exclude={"milliseconds"})


def test_responses_do_not_depend_on_the_batch(service, collection, scenes):
    options, other = SearchOptions(k=5), SearchOptions(k=3, find="text", where="row > 9")
    (number,) = collection.ids_of(["scene 4"]).values()
    code = collection.codes_of([number], "image")[number]
    requests = [
        SearchRequest("text", "sea boat", options),
        SearchRequest("image", scenes.images[2], options),
        SearchRequest("text", "a house", options),
        SearchRequest("key", "scene 3", other),
        SearchRequest("key", "scene 5", other),
        SearchRequest("text", "a house", other),
        SearchRequest("codes", code, options),
    ]
    together = service.search_all(requests)
    alone = [service.search_all([request])[0] for request in requests]
    assert [content(response) for response in together] == [content(one) for one in alone]


def test_an_unknown_term_fails_its_own_query_only(service):
    texts = ["sea", "xyzzy", "boat"]
    requests = [SearchRequest("text", text, SearchOptions()) for text in texts]
    sea, unknown, boat = service.search_all(requests)
    assert isinstance(unknown, InputError)
    assert "xyzzy" in str(unknown)
    assert content(sea)["matches"]
    assert content(boat)["matches"]


def test_warm_up_compiles_single_and_batched_scans(service, collection, monkeypatch):
    sizes = set()
    monkeypatch.setattr(collection, "nearest", lambda codes, k: sizes.add(len(codes)))
    assert service.warm_up() == ["image", "text"]
    assert sizes == {1, 64}


@pytest.mark.parametrize("size", [1, 3])
def test_batch_sizes_are_observed(collection, size):
    seen = []
    service = SearchService(collection, seen.append)
    service.search_all([SearchRequest("text", "sea", SearchOptions())] * size)
    assert seen == [size]
    service.close()


def test_codes_are_written_in_hexadecimal_digits():
    assert to_hex(from_hex("01f3", 16)) == ["01f3"]
    three = Codes(np.array([[1, 2], [0xAB, 0], [0xFF, 0x0F]], np.uint8), 12)
    assert to_hex(three) == ["0102", "ab00", "ff0f"]
    with pytest.raises(InputError, match="A code of 16 bits has 4 hexadecimal digits, got 3"):
        from_hex("01f", 16)


def test_no_search_waits_for_the_filter_of_another_client(service, monkeypatch):
    """Six slow filters of one client stop in the middle until all others are answered."""
    go, slow = threading.Event(), SearchOptions(where="row > 1 and row > 2")

    def find(index, encoded, options):
        assert options.where != slow.where or go.wait(60)
        return find_matches(index, encoded, options)

    monkeypatch.setattr("corrhash.service.search.find_matches", find)

    async def submit_all():
        tasks = []
        for _ in range(6):
            tasks.append(asyncio.create_task(service.search("text", "sea", slow, "slow")))
        await asyncio.sleep(0.1)
        for _ in range(3):
            assert content(await service.search("text", "sea", SearchOptions(), "slow"))
            other = SearchOptions(where="row > 3")
            assert content(await service.search("text", "sea", other, "honest"))
        assert not any(task.done() for task in tasks)
        go.set()
        return await asyncio.gather(*tasks)

    assert len(asyncio.run(asyncio.wait_for(submit_all(), 60))) == 6


def test_search_with_a_filter_has_a_time_limit(collection):
    service = SearchService(collection, lambda size: None, seconds=1e-9)
    filtered = SearchOptions(where="row > 3")
    requests = [SearchRequest("text", "sea", filtered)] * 3
    assert all(isinstance(one, TimeLimitError) for one in service.search_all(requests))
    service.close()
