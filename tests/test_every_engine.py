"""The contract of CodeIndex, checked for every engine against a stable sort."""

import time
from threading import Event, Thread, current_thread

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import ENGINES, Item, open_index
from corrhash.index.filter_grammar import parse_filter
from corrhash.index.filters import holds
from corrhash.index.items import FIELDS, MODALITIES
from corrhash.index.memory import MemoryIndex
from corrhash.index.time_limit import TimeLimitError, time_limit
from tests.engine_uris import new_uri

pytestmark = pytest.mark.parametrize("scheme", list(ENGINES))


@pytest.fixture
def uri(scheme, tmp_path):
    with new_uri(scheme, tmp_path) as new:
        yield new


def random_codes(n, n_bits, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


def brute_force(queries, database, ids, k):
    """Return the k nearest ids by (distance, id), and their distances."""
    distances = queries.hamming(database).astype(int)
    orders = [np.lexsort((ids, row))[:k] for row in distances]
    nearest = np.stack([row[order] for row, order in zip(distances, orders, strict=True)])
    return np.stack([ids[order] for order in orders]), nearest


def assert_ranking(ranking, queries, database, ids, k):
    rows, distances = brute_force(queries, database, ids, k)
    np.testing.assert_array_equal(ranking.rows, rows)
    np.testing.assert_array_equal(ranking.distances, distances)


@pytest.mark.parametrize("n_bits", [1, 16, 64, 100, 300])
def test_rankings_equal_a_stable_sort(uri, n_bits):
    index = open_index(uri, n_bits)
    database, queries = random_codes(500, n_bits), random_codes(20, n_bits, seed=1)
    ids = np.random.default_rng(2).permutation(5000)[:500]
    index.add(ids[:300], database[:300])
    index.add(ids[300:], database[300:])
    assert len(index) == 500
    for k in (1, 10, 500):
        assert_ranking(index.search(queries, k), queries, database, ids, k)


def test_each_modality_is_searched_on_its_own(uri):
    index = open_index(uri, 32)
    images, texts, queries = random_codes(6, 32), random_codes(5, 32, 1), random_codes(3, 32, 2)
    ids = np.array([7, 1, 4, 9, 2, 5, 8])
    with_image, with_text = np.array([0, 1, 2, 4, 5, 6]), np.array([1, 3, 4, 5, 6])
    index.add(ids, {"image": (with_image, images), "text": (with_text, texts)})
    assert len(index) == 7
    assert_ranking(index.search(queries, 6), queries, images, ids[with_image], 6)
    assert_ranking(index.search(queries, 6, modality="text"), queries, texts, ids[with_text], 6)
    rows, codes = index.codes_of([8, 7, 9, 1], "text")
    assert rows.tolist() == [0, 2, 3]
    np.testing.assert_array_equal(codes.packed, texts[[4, 1, 0]].packed)


def test_radius_truncates_each_query_separately(uri):
    index = open_index(uri, 16)
    database, queries = random_codes(60, 16), random_codes(5, 16, seed=1)
    index.add(np.arange(60), database)
    ranking = index.search(queries, 20, radius=5)
    everything = index.search(queries, 20)
    for query in range(5):
        near = everything.distances[query] <= 5
        assert ranking.rows[query][ranking.rows[query] >= 0].tolist() == (
            everything.rows[query][near].tolist()
        )
    assert index.search(queries, 20, radius=0).rows.shape[0] == 5


def test_deleted_id_is_not_found_and_can_be_reused(uri):
    index = open_index(uri, 32)
    codes = random_codes(50, 32)
    index.add(np.arange(50), codes)
    assert index.delete([3, 4, 999]) == 2
    assert len(index) == 48
    ranking = index.search(codes[3:5], 48)
    assert not np.isin(ranking.rows, [3, 4]).any()
    assert index.get([3, 5])[0] is None
    index.add([3], codes[3:4])
    assert index.search(codes[3:4], 1).rows[0, 0] == 3


def test_upsert_replaces_and_adds(uri):
    index = open_index(uri, 32)
    codes, queries = random_codes(30, 32), random_codes(4, 32, seed=1)
    both = {"image": codes[:20], "text": codes[:20]}
    index.add(np.arange(20), both, [Item(f"old {i}") for i in range(20)])
    changed = np.array([25, 3, 17])
    index.upsert(changed, codes[20:23], [Item(f"new {i}") for i in changed])
    assert len(index) == 21
    kept = np.setdiff1d(np.arange(20), changed)
    ids = np.concatenate([kept, changed])
    now = Codes(np.concatenate([codes.packed[kept], codes.packed[20:23]]), 32)
    assert_ranking(index.search(queries, 21), queries, now, ids, 21)
    assert_ranking(index.search(queries, 21, modality="text"), queries, codes[kept], kept, 21)
    assert [item.key for item in index.get([3, 4])] == ["new 3", "old 4"]
    assert index.ids_of(["old 3", "new 3", "old 4"]) == {"new 3": 3, "old 4": 4}


NASTY = [
    "it's",
    'say "hi"',
    "back\\slash",
    "naïve 文字 😀",
    "",
    " a ",
    "%_like*",
    "tab\tline\n",
    "a';--",
]


def items_of_many_kinds():
    """Items with missing fields, and with values of several kinds in one field."""
    rng = np.random.default_rng(0)
    kinds = [2015, 2016.5, "2015", True, False, -3, 0, 1e-7, "Zürich"]
    items = []
    for row in range(60):
        metadata = {"year": 2000 + row} if row % 3 else {}
        metadata |= {"mixed": kinds[row % len(kinds)]} if row % 4 else {}
        metadata |= {"word": NASTY[row % len(NASTY)]}
        metadata |= {"rare": 3} if row == 7 else {}
        labels = rng.choice(["dog", "cat", *NASTY], rng.integers(0, 3), replace=False).tolist()
        path = f"{row}.jpg" if row % 2 else ""
        items.append(Item(f"key {row}", NASTY[row % 7], labels, metadata, path))
    return items


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


FILTERS = [
    *(f"mixed {sign} 2015" for sign in ("=", "!=", "<", "<=", ">", ">=")),
    *(f"mixed {sign} '2015'" for sign in ("=", "!=", "<", ">=")),
    *("mixed = true", "mixed != true", "mixed = false", "not mixed = true", "mixed > -3.5"),
    *("mixed = 1e-7", "year >= 2010 and year < 2030.5", "not (year > 2020)", "rare = 3"),
    *("not rare = 3", "key > 'key 3' and key <= 'key 5'", "key = 3", "not text = 3"),
    *("path != ''", "'dog' in labels and not 'cat' in labels", "'dog' in labels or year = 2004"),
    "(year < 2010 or year > 2050) and not ('cat' in labels or mixed = 2015)",
    *(f"word = {quoted(word)}" for word in NASTY),
    *(f"text != {quoted(word)}" for word in NASTY[:4]),
    *(f"{quoted(word)} in labels" for word in NASTY),
    *(f"word >= {quoted(word)}" for word in NASTY[:3]),
]


def test_filters_select_the_same_items_in_every_engine(uri):
    index = open_index(uri, 16)
    codes, items = random_codes(60, 16), items_of_many_kinds()
    index.add(np.arange(60), {"image": codes, "text": codes}, items)
    for text in FILTERS:
        wanted = parse_filter(text)
        expected = np.array([i for i in range(60) if holds(wanted, items[i].fields())], dtype=int)
        assert index.select(text).tolist() == expected.tolist(), text
        for modality in MODALITIES:
            ranking = index.search(codes[:1], 60, where=text, modality=modality)
            assert sorted(ranking.rows[0].tolist()) == expected.tolist(), text
        if len(expected):
            nearest = index.search(codes[:3], 5, where=wanted)
            assert_ranking(nearest, codes[:3], codes[expected], expected, 5)


def test_repeated_filter_sees_changes(uri):
    index = open_index(uri, 16)
    codes = random_codes(9, 16)

    def items(*kept):
        return [Item(f"{i} {kind}", metadata={"kept": kind}) for i, kind in enumerate(kept)]

    index.add(np.arange(4), codes[:4], items(1, True, 1, 0))
    for where, ids in (("kept = 1", [0, 2]), ("kept = true", [1]), ("kept = 1", [0, 2])):
        for _ in range(2):
            assert sorted(index.search(codes[:1], 9, where=where).rows[0]) == ids
    index.add([7], codes[7:8], [Item("new", metadata={"kept": 1})])
    assert sorted(index.search(codes[:1], 9, where="kept = 1").rows[0]) == [0, 2, 7]
    index.delete([0])
    assert sorted(index.search(codes[:1], 9, where="kept = 1").rows[0]) == [2, 7]
    index.upsert([3], codes[8:], [Item("3 0", metadata={"kept": 1})])
    ranking = index.search(codes[8:], 9, where="kept = 1")
    assert sorted(ranking.rows[0]) == [2, 3, 7]
    assert ranking.distances[0, 0] == 0


def test_items_round_trip(uri):
    index = open_index(uri, 16)
    items = items_of_many_kinds()
    items[5] = Item(
        "a", thumbnail=b"\x00jpeg\xff", image_continuous=b"\x01\x00", stamp="s", content="c"
    )
    items[6] = Item("b", thumbnail=bytes(range(256)) * 100, text_continuous=b"\x02")
    rows = np.arange(60)
    image, text = random_codes(59, 16), random_codes(59, 16, seed=1)
    codes = {"image": (np.delete(rows, 6), image), "text": (np.delete(rows, 5), text)}
    index.add(rows * 10, codes, items)
    assert index.get([50, 7, 0, 60], FIELDS) == [items[5], None, items[0], items[6]]
    assert index.get([50])[0] == Item("a")
    assert index.get([60], ["thumbnail"])[0] == Item(thumbnail=items[6].thumbnail)
    assert index.get([]) == []
    assert index.ids_of(["key 7", "nobody", "a"]) == {"key 7": 70, "a": 50}
    batches = list(index.batches(25))
    assert [len(batch) for batch in batches] == [25, 25, 10]
    assert [item for batch in batches for item in batch.items] == items
    assert np.concatenate([batch.ids for batch in batches]).tolist() == (rows * 10).tolist()
    assert np.concatenate([b.rows["text"] + 25 * i for i, b in enumerate(batches)]).tolist() == (
        np.delete(rows, 5).tolist()
    )
    packed = np.concatenate([batch.codes["text"].packed for batch in batches])
    np.testing.assert_array_equal(packed, text.packed)


def test_items_are_found_by_content(uri):
    index = open_index(uri, 16)
    codes = random_codes(5, 16)
    contents = ["aa", "", "bb", "aa", ""]
    items = [Item(f"key {i}", content=content) for i, content in enumerate(contents)]
    index.add([8, 1, 5, 2, 4], {"image": codes, "text": codes}, items)
    assert index.ids_of_content(["aa", "bb", "cc", ""]) == {"aa": [2, 8], "bb": [5]}
    index.upsert([8], codes[:1], [Item("key 0", content="cc")])
    index.delete([5])
    assert index.ids_of_content(["aa", "bb", "cc"]) == {"aa": [2], "cc": [8]}
    assert index.ids_of_content([]) == {}


def test_description_can_change(scheme, uri):
    about = {"root": "old", "more": [1, None, 'a "quoted" ü']}
    index = ENGINES[scheme].open(uri, 16, about)
    index.add([0], random_codes(1, 16))
    for root in ("new", "newer"):
        index.describe(root=root)
        assert index.about["root"] == root
        if scheme != "memory:":
            again = open_index(uri, 16)
            assert {name: again.about[name] for name in about} == {**about, "root": root}
    assert len(index) == 1


def test_select_sees_uncommitted_writes(uri):
    index = open_index(uri, 16)
    with index.writing():
        index.add([3, 2], random_codes(2, 16), [Item("a"), Item("b")])
        assert index.select("key >= 'a'").tolist() == [2, 3]
        assert index.select("key > 'b'").tolist() == []


def test_codes_without_items_have_empty_items(uri):
    index = open_index(uri, 16)
    index.add([4], random_codes(1, 16))
    assert index.get([4]) == [Item()]


def test_new_ids_are_unused(scheme, uri):
    index = open_index(uri, 16)
    codes, keys = random_codes(8, 16), [f"key {i}" for i in range(8)]
    first = index.new_ids(keys[:4])
    index.add(first, codes[:4], [Item(key) for key in keys[:4]])
    with index.writing():
        then = index.new_ids(["", "", *keys[4:6]])
        index.add(then, codes[4:])
        assert len(index.new_ids([])) == 0
    ids = np.concatenate([first, then])
    assert len(set(ids.tolist())) == 8
    if scheme != "milvus://":
        assert (np.diff(ids) > 0).all()  # so that their codes can be appended


def test_k_above_the_size_returns_everything(uri):
    index = open_index(uri, 16)
    codes = random_codes(5, 16)
    assert index.search(codes, 10).rows.shape == (5, 0)
    index.add(np.arange(5), codes)
    assert index.search(codes, 10).rows.shape == (5, 5)
    assert index.search(codes, 100_000).rows.shape == (5, 5)
    assert len(index.search(codes[:0], 10)) == 0
    assert index.search(codes, 10, modality="text").rows.shape == (5, 0)


def test_invalid_input_raises_and_changes_nothing(uri):
    index = open_index(uri, 16)
    codes = random_codes(3, 16)
    index.add([0, 1, 2], codes)
    with pytest.raises(InputError, match="Id 2 is already stored"):
        index.add([2], codes[:1])
    with pytest.raises(InputError, match="Id 7 is given more than once"):
        index.add([7, 7], codes[:2])
    with pytest.raises(InputError, match="got 2 ids and 3 codes"):
        index.add([8, 9], codes)
    with pytest.raises(InputError, match="got 3 ids and 1 items"):
        index.add([7, 8, 9], codes, [Item("a")])
    with pytest.raises(
        InputError, match="needs an image code or a text code, got 2 items and codes for 1"
    ):
        index.upsert([7, 8], {"text": ([1], codes[:1])})
    with pytest.raises(InputError, match="got 8 and 16 bits"):
        index.search(random_codes(1, 8))
    with pytest.raises(InputError, match="got 8 and 16 bits"):
        index.add([9], random_codes(1, 8))
    with pytest.raises(InputError, match="Key 'a' is given to more than one item"):
        index.add([8, 9], codes[:2], [Item("a"), Item("a")])
    for ids in ([1.5], [2**64 - 1], [-1]):
        with pytest.raises(InputError, match="ids must be integers from 0 to 2\\^62"):
            index.add(ids, codes[:1])
    for k in (0, -1, 2.5):
        with pytest.raises(InputError, match=f"k must be a positive integer, got {k}"):
            index.search(codes, k)
    with pytest.raises(InputError, match="radius must be a non-negative integer, got -1"):
        index.search(codes, radius=-1)
    with pytest.raises(InputError, match="modality must be 'image' or 'text', got 'sound'"):
        index.search(codes, modality="sound")
    with pytest.raises(InputError, match="Cannot parse the filter 'year ='"):
        index.search(codes, where="year =")
    with pytest.raises(InputError, match="Unknown field 'colour'"):
        index.get([0], ["colour"])
    assert len(index) == 3


def test_reopened_index_has_all_items(scheme, uri):
    if scheme == "memory:":
        pytest.skip("memory: stores nothing")
    index = open_index(uri, 32)
    codes = random_codes(20, 32)
    index.add(np.arange(20), codes, [Item(str(i)) for i in range(20)])
    again = open_index(uri, 32)
    assert_ranking(again.search(codes, 20), codes, codes, np.arange(20), 20)
    assert again.get([3]) == [Item("3")]
    with pytest.raises(InputError, match="stores codes of 32 bits, expected 16"):
        open_index(uri, 16)


def test_next_search_sees_writes_of_another_instance(scheme, uri):
    if scheme == "memory:":
        pytest.skip("memory: is not shared")
    one, other = open_index(uri, 32), open_index(uri, 32)
    codes, queries = random_codes(40, 32), random_codes(3, 32, seed=1)
    one.add(np.arange(20), codes[:20])
    assert_ranking(other.search(queries, 40), queries, codes[:20], np.arange(20), 40)
    other.add(np.arange(20, 40), codes[20:])
    one.delete([3, 30])
    one.upsert([5], codes[3:4])
    ids = np.setdiff1d(np.arange(40), [3, 30])
    now = Codes(np.where(np.arange(40)[:, None] == 5, codes.packed[3], codes.packed)[ids], 32)
    for index in (one, other):
        assert_ranking(index.search(queries, 40), queries, now, ids, 40)
        assert len(index) == 38


def test_many_ids_are_deleted_at_once(scheme, uri):
    n = 2_000 if scheme == "milvus://" else 100_000
    index = open_index(uri, 16)
    index.add(np.arange(n + 10), random_codes(n + 10, 16))
    assert index.delete(np.arange(n)) == n
    assert len(index) == 10
    assert sorted(index.search(random_codes(1, 16), n).rows[0]) == list(range(n, n + 10))


def test_verify_accepts_what_was_written(uri):
    index = open_index(uri, 16)
    codes = random_codes(60, 16)
    index.add(np.arange(60), {"image": codes, "text": codes}, items_of_many_kinds())
    index.delete([3])
    index.upsert([4, 5], codes[:2], [Item("4", metadata={"year": 2.5}), Item()])
    index.verify()


def test_empty_write_changes_nothing(uri):
    index = open_index(uri, 16)
    index.add([], random_codes(0, 16), [])
    assert index.delete([]) == 0
    assert len(index) == 0
    assert list(index.batches()) == []


def test_long_filter_is_not_limited_by_depth(uri):
    index = open_index(uri, 16)
    codes = random_codes(3, 16)
    index.add([0, 1, 2], codes, [Item(str(i), metadata={"year": i}) for i in range(3)])
    where = " or ".join(f"year = {year}" for year in range(1, 2_000))
    assert sorted(index.search(codes[:1], 3, where=where).rows[0]) == [1, 2]


def test_long_conjunction_is_not_limited_by_depth(uri):
    index = open_index(uri, 16)
    codes = random_codes(3, 16)
    index.add([0, 1, 2], codes, [Item(str(i), metadata={"year": i}) for i in range(3)])
    where = " and ".join(f"year != {year}" for year in range(1, 2_000))
    assert index.select(where).tolist() == [0]


SLOW_FILTER = " or ".join(f"text = 'x{number}'" for number in range(2000))


@pytest.fixture
def many_texts(uri):
    index, n = open_index(uri, 16), 1000
    index.add(np.arange(n), random_codes(n, 16), [Item(str(i), f"text {i}") for i in range(n)])
    return index


def test_time_limit_ends_a_slow_filter(many_texts):
    query = random_codes(1, 16)
    began = time.monotonic()
    with pytest.raises(TimeLimitError, match="took longer than 0.002 s"), time_limit(0.002):
        many_texts.search(query, 3, where=SLOW_FILTER)
    with pytest.raises(TimeLimitError), time_limit(0.002):
        many_texts.select(SLOW_FILTER)
    assert time.monotonic() - began < 20  # also on a busy machine
    with time_limit(60):
        assert many_texts.search(query, 3, where="text = 'text 7'").rows.tolist() == [[7]]
        assert many_texts.select("text = 'text 7'").tolist() == [7]
    assert many_texts.search(query, 3, where="text = 'text 8'").rows.tolist() == [[8]]


def test_nobody_waits_for_a_slow_filter(many_texts, monkeypatch):
    """The slow filter stops in the middle until all other requests are answered."""
    query, go = random_codes(1, 16), Event()
    many_texts.search(query, 3)  # loads the codes

    def wait_if_slow():
        assert current_thread() is not slow or go.wait(60)

    slow = Thread(target=many_texts.search, args=(query, 3), kwargs={"where": "text > 'text 8'"})
    engine = "milvus_server" if "Milvus" in repr(many_texts) else "sqlite_filters"
    engine = "memory" if isinstance(many_texts, MemoryIndex) else engine
    monkeypatch.setattr(f"corrhash.index.{engine}.check_time", wait_if_slow)
    slow.start()
    time.sleep(0.05)
    assert many_texts.search(query, 3).k == 3
    assert many_texts.search(query, 3, where="key = '7'").rows.tolist() == [[7]]
    many_texts.upsert([7], query, [Item("7", "new")])
    assert many_texts.get([7])[0].text == "new"
    assert slow.is_alive()
    go.set()
    slow.join()


def test_records_are_returned_in_order_of_appending(uri):
    index = open_index(uri, 16)
    assert index.records("judgment") == []
    index.append("judgment", [{"n": 0, "text": "naïve 'x' 文字"}, {"n": 1}])
    index.append("other", [{"n": 7}])
    index.append("judgment", [{"n": 2}])
    index.append("judgment", [])
    assert [record["n"] for record in index.records("judgment")] == [0, 1, 2]
    assert index.records("judgment")[0]["text"] == "naïve 'x' 文字"
    assert index.records("other") == [{"n": 7}]
    index.add([3], random_codes(1, 16))
    assert len(index) == 1
