"""MilvusIndex: what only Milvus does, such as cutting ties."""

import logging
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import Item, open_index
from tests.engine_addresses import new_milvus_collection

milvus = pytest.importorskip("corrhash.index.milvus")


@pytest.fixture
def address():
    with new_milvus_collection() as uri:
        yield uri


def random_codes(n, n_bits, seed=0):
    return Codes.from_scores(np.random.default_rng(seed).standard_normal((n, n_bits)))


def test_ties_are_complete_up_to_the_limit_of_the_server_and_told_beyond(
    address, monkeypatch, caplog
):
    index = open_index(address, 8)
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
    assert "more than 200 items are as near as the last answers to 1 of 2 queries" in caplog.text


def test_more_answers_than_the_server_gives_are_refused(address, monkeypatch):
    index = open_index(address, 8)
    index.add(np.arange(30), random_codes(30, 8))
    monkeypatch.setattr(milvus, "LIMIT", 20)
    with pytest.raises(InputError, match="at most 20 items. Got k = 25 for 30 items"):
        index.search(random_codes(1, 8), 25)


def test_a_collection_of_somebody_else_is_refused(address):
    host, name = address.removeprefix("milvus://").split("/")
    client = milvus.MilvusClient(uri=f"http://{host}")
    client.create_collection(name, dimension=8)
    with pytest.raises(InputError, match="that corrhash did not make"):
        open_index(address, 8)
    client.close()


def test_a_text_that_is_too_long_is_told(address):
    index = open_index(address, 8)
    with pytest.raises(InputError, match="at most 65,535 bytes. Got text = 'éé"):
        index.add([1], random_codes(1, 8), [Item("a", text="é" * 40_000)])
    assert len(index) == 0


def test_a_new_collection_may_be_written_in_several_shards(address):
    open_index(f"{address}?shards=3", 8)
    host, name = address.removeprefix("milvus://").split("/")
    client = milvus.MilvusClient(uri=f"http://{host}")
    assert client.describe_collection(name)["num_shards"] == 3
    client.close()
    assert open_index(address, 8).n_bits == 8


@pytest.mark.parametrize(
    "uri",
    ["milvus://host/x", "milvus://host:1/a b", "milvus://host:1", "milvus://host:1/x?shards=0"],
)
def test_an_address_has_host_port_and_name(uri):
    with pytest.raises(InputError, match="milvus://host:port/name"):
        open_index(uri, 8)


def test_a_server_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr(milvus, "FIRST_PATIENCE", 0.1)
    with pytest.raises(InputError, match="does not answer .* Start it, or check host and port"):
        open_index("milvus://127.0.0.1:1/x", 8)


def without_server():
    """An index that never asks."""
    client = SimpleNamespace(load_collection=lambda collection_name: None)
    return milvus.MilvusIndex(client, "c", "milvus://nowhere:1/c", {"n_bits": 8})


def test_threads_that_add_at_the_same_moment_get_ids_of_their_own(monkeypatch):
    index, made = without_server(), []
    other = threading.Thread(target=lambda: made.extend(index.new_ids(5).tolist()))

    def later(*ticks):
        if other.ident is None:
            other.start()
            other.join(0.2)  # it waits for its turn, or takes the same ids
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
