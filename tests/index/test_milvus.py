"""MilvusIndex: truncated ties, limits of the server, URIs and new ids."""

import logging
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from corrhash import Codes, InputError, StorageError
from corrhash.index import Item, open_index
from corrhash.index.milvus_storage import hashed_id
from tests.engine_uris import new_milvus_uri

milvus = pytest.importorskip("corrhash.index.milvus")
milvus_server = pytest.importorskip("corrhash.index.milvus_server")


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


def test_batch_that_arrives_during_a_search_is_found_whole(uri, monkeypatch):
    """A large k is compared with the number of items first, here just before the batch."""
    index, codes = open_index(uri, 8), random_codes(20, 8)
    count = index._count

    def count_and_add(where):
        monkeypatch.setattr(index, "_count", count)
        n_items = count(where)
        index.add(np.arange(20), codes)
        return n_items

    monkeypatch.setattr(index, "_count", count_and_add)
    assert index.search(codes[:1], 1_000_000).k == 20


def test_foreign_collection_is_refused(uri):
    host, name = uri.removeprefix("milvus://").split("/")
    client = milvus_server.MilvusClient(uri=f"http://{host}")
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
    client = milvus_server.MilvusClient(uri=f"http://{host}")
    assert client.describe_collection(name)["num_shards"] == 3
    client.close()
    assert open_index(uri, 8).n_bits == 8


@pytest.mark.parametrize(
    "wrong",
    [
        *("milvus://host/x", "milvus://host:1/a b", "milvus://host:1", "milvus://host:1/x?"),
        *(f"milvus://host:1/x?{text}" for text in ("shards=0", "shards", "index=HNSW", "k=3")),
        *(f"milvus://host:1/x?shards=2&{text}" for text in ("nprobe=-1", "nlist=a", "x")),
    ],
)
def test_uri_needs_host_port_and_name(wrong):
    with pytest.raises(InputError, match="milvus://host:port/name"):
        open_index(wrong, 8)


def test_unreachable_server_raises(monkeypatch):
    monkeypatch.setattr(milvus_server, "CONNECT_SECONDS", 0.1)
    with pytest.raises(
        StorageError, match="does not respond .* Start the server, or check host and port"
    ):
        open_index("milvus://127.0.0.1:1/x", 8)


def without_server():
    """An index that sends no requests."""
    client = SimpleNamespace(load_collection=lambda collection_name: None)
    return milvus.MilvusIndex(client, "c", "milvus://nowhere:1/c", {"n_bits": 8})


def test_new_id_avoids_an_item_with_another_key(uri):
    index = open_index(uri, 8)
    taken, other = hashed_id("a"), hashed_id("a", attempt=1)
    assert index.new_ids(["a", "b"]).tolist() == [taken, hashed_id("b")]
    index.add([taken], random_codes(1, 8), [Item("moved here")])
    assert index.new_ids(["a", "b"]).tolist() == [other, hashed_id("b")]
    index.upsert([taken], random_codes(1, 8), [Item("a")])  # by another writer
    assert index.new_ids(["a"]).tolist() == [taken]


def test_new_ids_of_one_call_are_distinct(uri, monkeypatch):
    index = open_index(uri, 8)
    monkeypatch.setattr(milvus, "hashed_id", lambda key, attempt: len(key) + 10 * attempt)
    assert index.new_ids(["aa", "bb", "c", "dd"]).tolist() == [2, 12, 1, 22]


def test_concurrent_writers_of_one_key_leave_one_item(uri):
    """Each of several writers looks up the key before any of them has written."""
    writers = [open_index(uri, 8) for _ in range(4)]
    codes, together = random_codes(4, 8), threading.Barrier(4)
    modalities = [{"image": [0]}, {"text": [0]}, {"image": [0], "text": [0]}, {"text": [0]}]

    def write(number):
        index = writers[number]
        for round_ in range(10):
            key = f"key {round_}"
            assert index.ids_of([key]) == {}
            ids = index.new_ids([key])
            together.wait()
            given = {
                m: (rows, codes[number : number + 1]) for m, rows in modalities[number].items()
            }
            index.upsert(ids, given, [Item(key, f"writer {number}")])
            together.wait()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    index = writers[0]
    assert len(index) == 10
    found = [entries for entries in index.batches(1)]
    assert sorted(entries.item(0).key for entries in found) == [f"key {i}" for i in range(10)]
    for entries in found:  # all of it is from one writer
        number = int(entries.item(0).text.removeprefix("writer "))
        stored = {name for name, rows in entries.rows.items() if len(rows)}
        assert stored == set(modalities[number])
        for name in stored:
            np.testing.assert_array_equal(entries.codes[name].packed[0], codes.packed[number])


def requests_of(index, monkeypatch):
    """A list of the requests that an index sends."""
    sent, call = [], index._call
    monkeypatch.setattr(
        index, "_call", lambda name, **given: sent.append(name) or call(name, **given)
    )
    return sent


def test_upsert_is_one_request(uri, monkeypatch):
    index, codes = open_index(uri, 8), random_codes(3, 8)
    sent = requests_of(index, monkeypatch)
    index.upsert([0, 1, 2], {"image": codes, "text": codes}, [Item(str(i)) for i in range(3)])
    index.upsert([1, 2, 3], {"image": ([0, 2], codes[:2]), "text": ([1], codes[:1])})
    assert sent == ["upsert", "upsert"]
    assert len(index) == 4
    for modality, ids in (("image", [0, 1, 3]), ("text", [0, 2])):
        rows, _ = index.codes_of([0, 1, 2, 3], modality)
        assert rows.tolist() == ids
        assert sorted(index.search(codes[:1], 9, modality=modality).rows[0]) == ids
    assert index.delete([1, 7]) == 1
    assert index.get([0, 1, 2])[1] is None


def test_index_type_and_probes_are_set_in_the_uri(uri, monkeypatch):
    made = f"{uri}?index=BIN_IVF_FLAT&nlist=16"
    codes = Codes(np.random.default_rng(0).integers(0, 256, (500, 8), dtype=np.uint8), 64)
    open_index(made, 64).add(np.arange(500), codes)
    for same in (uri, made, f"{uri}?nprobe=16"):
        index = open_index(same, 64)
        assert index.search(codes[7:8], 1).distances.tolist() == [[0]]
    ranking = index.search(codes[:20], 5)  # all lists are searched
    exact = open_index("memory:", 64)
    exact.add(np.arange(500), codes)
    np.testing.assert_array_equal(ranking.distances, exact.search(codes[:20], 5).distances)
    parameters, search = [], index._client.search
    monkeypatch.setattr(
        index._client, "search", lambda **given: parameters.append(given) or search(**given)
    )
    index.search(codes[:1], 1)
    assert parameters[0]["search_params"]["params"] == {"nprobe": 16}
    with pytest.raises(InputError, match="created with index=BIN_IVF_FLAT, got BIN_FLAT"):
        open_index(f"{uri}?index=BIN_FLAT", 64)
    with pytest.raises(InputError, match="created with nlist=16, got 17"):
        open_index(f"{uri}?nlist=17", 64)
    with pytest.raises(InputError, match="created with shards=1, got 2"):
        open_index(f"{uri}?nprobe=3&shards=2", 64)


def test_one_thread_writes_at_a_time():
    index, free = without_server(), []
    with index.writing(), index.writing():
        asking = threading.Thread(target=lambda: free.append(index.writing().acquire(timeout=0.05)))
        asking.start()
        asking.join()
    assert free == [False]
