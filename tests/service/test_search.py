"""Batched searches: shared scans, one response per request."""

import asyncio
import threading

import numpy as np
import pytest

from corrhash.collection import Collection, SearchOptions
from corrhash.collection.improving import improve
from corrhash.collection.search import find_pages
from corrhash.errors import InputError
from corrhash.index.time_limit import TimeLimitError
from corrhash.methods.fine_tuning import FineTuning
from corrhash.service import search
from corrhash.service.schemas import SearchResponse
from corrhash.service.search import (
    SearchRequest,
    SearchService,
    TextEncoder,
)
from tests.collection.photos import Photos


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


def test_no_search_waits_for_the_filter_of_another_client(service, monkeypatch):
    """Six slow filters of one client stop in the middle until all others are answered."""
    go, slow = threading.Event(), SearchOptions(where="row > 1 and row > 2")

    def find(index, encoded, options, *rest):
        assert options.where != slow.where or go.wait(60)
        return find_pages(index, encoded, options, *rest)

    monkeypatch.setattr("corrhash.service.search.find_pages", find)

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


def test_short_searches_run_on_the_event_loop(service, collection, monkeypatch):
    """Only images, filters and deep pages run on threads, and searches after a write."""
    threads = []
    search = service._search

    def watched(requests, view=None):
        threads.append(threading.current_thread().name)
        return search(requests, view)

    async def run(*arguments):
        return await service.search(*arguments)

    def name_of_thread(kind, value, options):
        asyncio.run(run(kind, value, options))
        return threads.pop()

    service.warm_up()
    monkeypatch.setattr(service, "_search", watched)
    image = np.zeros((32, 32, 3), np.uint8)
    assert name_of_thread("text", "sea", SearchOptions()) == "MainThread"
    assert name_of_thread("key", "scene 3", SearchOptions()) == "MainThread"
    assert name_of_thread("image", image, SearchOptions()) != "MainThread"
    assert name_of_thread("text", "sea", SearchOptions(where="row > 9")) != "MainThread"
    assert name_of_thread("text", "sea", SearchOptions(offset=5000)) != "MainThread"
    for value in (1, None):  # None removes it
        collection.update("scene 3", metadata={"extra": value})
    assert name_of_thread("text", "sea", SearchOptions()) != "MainThread"
    assert name_of_thread("text", "sea", SearchOptions()) == "MainThread"


def test_simultaneous_short_searches_share_a_batch(collection):
    sizes = []
    service = SearchService(collection, sizes.append)
    service.warm_up()

    async def search_all():
        texts = ["sea", "boat", "xyzzy"]
        searches = [service.search("text", text, SearchOptions()) for text in texts]
        return await asyncio.gather(*searches, return_exceptions=True)

    sea, boat, unknown = asyncio.run(search_all())
    service.close()
    assert sizes == [3]
    assert content(sea)["matches"] != content(boat)["matches"]
    assert isinstance(unknown, InputError)


def test_latest_texts_are_encoded_once(collection, monkeypatch):
    encoded = []
    embed = search.embed_texts
    monkeypatch.setattr(search, "embed_texts", lambda t, m: (encoded.append(t), embed(t, m))[1])
    encoder = TextEncoder(collection.model, size=2)
    expected = collection.model.hasher.embed_text(collection.model.reader.read_texts(["sea"]))
    for _ in range(2):
        np.testing.assert_array_equal(encoder.encode(["sea", "sea"]).continuous, [*expected] * 2)
    encoder.encode(["boat", "sea"])
    encoder.encode(["an"])  # takes the place of the oldest one
    encoder.encode(["an"])
    assert [text for texts in encoded for text in texts] == ["sea", "boat", "an"]
    assert len(encoder._kept) == 2


def test_searches_of_later_rounds_of_the_event_loop_join_a_batch(collection):
    """Requests become ready one after another; a client that is alone does not wait."""
    sizes = []
    service = SearchService(collection, sizes.append)
    service.warm_up()

    async def search_later(n_rounds):
        for _ in range(n_rounds):
            await asyncio.sleep(0)
        return await service.search("text", "sea", SearchOptions())

    async def search_all():
        for _ in range(2):
            await search_later(0)
        assert sizes == [1, 1]
        await asyncio.gather(*map(search_later, [0, 0, 0]))
        assert sizes == [1, 1, 3]
        await asyncio.gather(*map(search_later, [0, 1, 3, 5]))
        await search_later(0)

    asyncio.run(search_all())
    service.close()
    assert sizes == [1, 1, 3, 4, 1]


def test_service_follows_a_new_generation(tmp_path, monkeypatch):
    """Another process replaces the model and all codes; the next answer comes from the new ones."""
    monkeypatch.setattr("corrhash.collection.improving._validate", lambda *_: (0.5, 0.6))
    photos = Photos()
    collection = photos.collection(tmp_path / "c", n=60)
    photos.judge(collection)
    key, other = photos.records[7].key, Collection.open(collection.uri)
    service = SearchService(collection, lambda size: None)
    request = SearchRequest("key", key, SearchOptions(k=5))
    before = content(service.search_all([request])[0])
    texts = service._text_encoder(collection.model)
    improve(other, photos.records, FineTuning(steps=3, learning_rate=0.01))
    after = content(service.search_all([request])[0])
    matches = [(one["key"], one["distance"], one["score"]) for one in after["matches"]]
    assert matches == [(m.key, m.distance, m.score) for m in other.search(key=key, k=5)]
    assert after["code"] != before["code"]
    assert service._text_encoder(collection.model) is not texts
    service.close()
