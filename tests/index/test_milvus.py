"""MilvusIndex: truncated ties, limits of the server, URIs and new ids."""

import logging
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import Item, open_index
from tests.engine_uris import new_milvus_uri

milvus = pytest.importorskip("corrhash.index.milvus")


@pytest.fixture
def uri():
    with new_milvus_uri() as new:
        yield new


def random_codes(n, n_bits, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


def test_ties_beyond_the_limit_of_the_server_are_logged(uri, monkeypatch, caplog):
    index = open_index(uri, 8)
    codes = random_codes(2, 8)
    many = Codes(np.repeat(codes.packed, [300, 100], axis=0), 8)
    index.add(np.random.default_rng(0).permutation(400), many)
    with caplog.at_level(logging.WARNING, "corrhash"):
        whole = index.search(codes, 10)
        assert not caplog.messages
        monkeypatch.setattr(milvus, "LIMIT", 200)
        cut = index.search(codes, 10)
    np.testing.assert_array_equal(cut.distances, whole.distances)
    assert whole.distances.max() == 0
    np.testing.assert_array_equal(cut.rows[1], whole.rows[1])
    assert "at most 200 results, and 1 of 2 queries have more ties" in caplog.text


def test_k_above_the_limit_of_the_server_is_refused(uri, monkeypatch):
    index = open_index(uri, 8)
    index.add(np.arange(30), random_codes(30, 8))
    monkeypatch.setattr(milvus, "LIMIT", 20)
    with pytest.raises(InputError, match="at most 20 results, got k = 25 for 30 items"):
        index.search(random_codes(1, 8), 25)


def test_foreign_collection_is_refused(uri):
    host, name = uri.removeprefix("milvus://").split("/")
    client = milvus.MilvusClient(uri=f"http://{host}")
    client.create_collection(name, dimension=8)
    with pytest.raises(InputError, match="was not created by corrhash"):
        open_index(uri, 8)
    client.close()


def test_too_long_text_is_refused(uri):
    index = open_index(uri, 8)
    with pytest.raises(InputError, match="at most 65,535 bytes, got text = 'éé"):
        index.add([1], random_codes(1, 8), [Item("a", text="é" * 40_000)])
    assert len(index) == 0


def test_new_collection_can_have_several_shards(uri):
    open_index(f"{uri}?shards=3", 8)
    host, name = uri.removeprefix("milvus://").split("/")
    client = milvus.MilvusClient(uri=f"http://{host}")
    assert client.describe_collection(name)["num_shards"] == 3
    client.close()
    assert open_index(uri, 8).n_bits == 8


@pytest.mark.parametrize(
    "wrong",
    ["milvus://host/x", "milvus://host:1/a b", "milvus://host:1", "milvus://host:1/x?shards=0"],
)
def test_uri_needs_host_port_and_name(wrong):
    with pytest.raises(InputError, match="milvus://host:port/name"):
        open_index(wrong, 8)


def test_unreachable_server_raises(monkeypatch):
    monkeypatch.setattr(milvus, "CONNECT_SECONDS", 0.1)
    with pytest.raises(
        InputError, match="does not respond .* Start the server, or check host and port"
    ):
        open_index("milvus://127.0.0.1:1/x", 8)


def without_server():
    """An index that sends no requests."""
    client = SimpleNamespace(load_collection=lambda collection_name: None)
    return milvus.MilvusIndex(client, "c", "milvus://nowhere:1/c", {"n_bits": 8})


def test_concurrent_threads_get_different_new_ids(monkeypatch):
    index, made = without_server(), []
    other = threading.Thread(target=lambda: made.extend(index.new_ids(5).tolist()))

    def later(*ticks):
        if other.ident is None:
            other.start()
            other.join(0.2)  # waits for the lock
        return max(*ticks)

    monkeypatch.setattr(milvus, "max", later, raising=False)
    monkeypatch.setattr(milvus.time, "time", lambda: milvus.EPOCH + 1.0)
    made.extend(index.new_ids(5).tolist())
    other.join()
    assert len(set(made)) == 10


def test_one_thread_writes_at_a_time():
    index, free = without_server(), []
    with index.writing(), index.writing():
        asking = threading.Thread(target=lambda: free.append(index.writing().acquire(timeout=0.05)))
        asking.start()
        asking.join()
    assert free == [False]
