"""Searching an index: encoded queries, re-ranking and packed continuous codes."""

import io
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.distance import cosine as cosine_distance

from corrhash import Codes, InputError
from corrhash.codes import unit_rows
from corrhash.collection import Added, Collection, SearchOptions, search
from corrhash.collection.base import Query
from corrhash.collection.search import EncodedQueries, pack_continuous, unpack_continuous
from corrhash.datasets import PairedDataset
from corrhash.errors import NotFoundError
from corrhash.index import open_index
from tests.collection.world import (
    N,
    keys,
    linear_calibration,
    nearest_rows,
    nearest_scenes,
)


def cosine(query, items):
    return unit_rows(items) @ unit_rows(query[None])[0]


def test_cosine_of_unit_rows_equals_that_of_scipy():
    rng = np.random.default_rng(0)
    query, items = rng.standard_normal(24), rng.standard_normal((7, 24))
    expected = [1 - cosine_distance(query, item) for item in items]
    np.testing.assert_allclose(cosine(query, items), expected)
    np.testing.assert_array_equal(cosine(query, np.zeros((1, 24))), [0])


@pytest.mark.parametrize("k", [3, 10, 40])
def test_several_queries_are_re_ranked_as_one_by_one(monkeypatch, k):
    """Few bits, so that cosines and distances tie: then the smaller id comes first."""
    monkeypatch.setattr(search, "RERANKED", 12)
    rng = np.random.default_rng(0)
    index = open_index("memory:", 5)
    codes = Codes.from_continuous(rng.standard_normal((30, 5)))
    index.add(np.arange(30) * 3, codes)
    continuous = rng.integers(-2, 3, (4, 5)) + 0.5
    queries = EncodedQueries(Codes.from_continuous(continuous), continuous, [0, 3, 6, 999])
    together = search.find_matches(index, queries, SearchOptions(k=k, offset=2))
    for row, matches in enumerate(together):
        ranking = index.search(queries.codes[[row]], 30)
        ranked = list(zip(ranking.rows[0].tolist(), ranking.distances[0].tolist(), strict=True))
        signs = dict(zip((np.arange(30) * 3).tolist(), codes.signs(), strict=True))
        scores = {i: float(cosine(continuous[row], signs[i][None])[0].round(6)) for i in signs}
        top = sorted(ranked[:12], key=lambda one: (-scores[one[0]], one[1], one[0]))
        expected = [(i, d, scores[i]) for i, d in top] + [(i, d, None) for i, d in ranked[12:]]
        expected = [one for one in expected if one[0] != queries.excluded[row]][2 : 2 + k]
        assert [(match.id, match.distance, match.score) for match in matches] == expected


def test_packing_keeps_directions_at_any_scale():
    rng = np.random.default_rng(0)
    continuous = rng.standard_normal((5, 64)) * np.array([[1e-9], [1.0], [1e9], [3.0], [0.0]])
    packed = pack_continuous(continuous)
    assert [len(row) for row in packed] == [128] * 5
    again = np.stack([unpack_continuous(row) for row in packed])
    for row in range(4):
        assert cosine(continuous[row], again[row : row + 1])[0] > 0.99999
    assert (again[4] == 0).all()


def test_leading_items_are_re_ranked_by_cosine(world, monkeypatch):
    monkeypatch.setattr(search, "RERANKED", 30)
    text = world.scenes.captions[4]
    query = world.hasher.embed_text(world.reader.read_texts([text]))[0]
    images = world.hasher.embed_image(world.reader.read_images(world.scenes.images))
    for store in (False, True):
        collection = Collection.create("memory:", world.model, store_continuous=store)
        collection.add(world.records())
        vectors = images if store else world.codes("image").signs()
        cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
        nearest, _ = nearest_rows(Codes.from_continuous(query[None]), world.codes("image"), N)
        expected = [*sorted(nearest[:30], key=lambda row: -cosines[row]), *nearest[30:]]
        matches = collection.search(text, k=N)
        found = [match.item.metadata["row"] for match in matches]
        if store:  # float16 can swap near ties
            assert np.abs(cosines[found[:30]] - cosines[expected[:30]]).max() < 1e-3
        else:
            np.testing.assert_allclose(cosines[found[:30]], cosines[expected[:30]])
        assert found[30:] == [int(row) for row in expected[30:]]
        assert matches[0].score == pytest.approx(cosines[found[0]], abs=1e-3)
        assert matches[40].score is None
        assert set(found[:30]) == set(nearest[:30].tolist())


def test_key_queries_use_the_image_code_or_the_text_code(world):
    for store in (False, True):
        collection = Collection.create("memory:", world.model, store_continuous=store)
        text = world.scenes.captions[4]
        collection.add([*world.records(range(8)), {"key": "text", "text": text}])
        query = Query("key", ["scene 7", "text"])
        encoded = search.encode_queries(query, collection.model, collection.index)
        expected = [world.codes("image")[7], world.codes("text")[4]]
        for row, code in enumerate(expected):
            np.testing.assert_array_equal(encoded.codes[row].packed, code.packed)
        assert list(encoded.excluded) == list(collection.ids_of(["scene 7", "text"]).values())
        np.testing.assert_array_equal(
            Codes.from_continuous(encoded.continuous).packed, encoded.codes.packed
        )


def test_items_deleted_during_a_search_are_dropped(monkeypatch):
    index = open_index("memory:", 8)
    codes = Codes.from_continuous(np.random.default_rng(0).standard_normal((6, 8)))
    index.add(np.arange(6), codes)
    plain = index.get
    monkeypatch.setattr(index, "get", lambda *a: (index.delete([2]), plain(*a))[1])
    for continuous in (None, codes[:1].signs()):
        queries = EncodedQueries(codes[:1], continuous)
        (found,) = search.find_matches(index, queries, SearchOptions(k=6))
        assert sorted(match.id for match in found) == [0, 1, 3, 4, 5]
        index.upsert([2], codes[2])


def test_search_in_every_direction(uri, world):
    collection = Collection.create(uri, world.model)
    assert collection.add(world.records()) == Added(new=N)
    assert len(collection) == N
    text, image = world.scenes.captions[4], world.paths[7]
    queries = {
        "text": world.hasher.encode_text(world.reader.read_texts([text])),
        "image": world.codes("image")[7],
    }
    for modality in ("image", "text"):
        results = {
            "text": collection.search(text, k=8, find=modality, rerank=False),
            "image": collection.search(image=image, k=8, find=modality, rerank=False),
        }
        for kind, matches in results.items():
            rows, distances = nearest_scenes(collection, queries[kind], world.codes(modality), 8)
            assert keys(matches) == [f"scene {row}" for row in rows]
            assert [match.distance for match in matches] == distances.tolist()
            first = world.record(rows[0])
            assert matches[0].item.text == first["text"]
            assert list(matches[0].item.labels) == first["labels"]
            assert matches[0].item.metadata == {"row": rows[0]}
            assert matches[0].item.path == str(first["image"])


def test_vectors_are_read_as_they_are(world, filled):
    read = world.reader.read(PairedDataset(world.scenes.images, world.scenes.captions))
    collection = Collection.create("memory:", world.model)
    raw = PairedDataset(world.scenes.images, world.scenes.captions)
    assert collection.add_pairs(read, raw).new == N
    matches = collection.search(read.texts[:3], k=5)
    assert [[m.distance for m in of_query] for of_query in matches] == [
        [m.distance for m in filled.search(world.scenes.captions[row], k=5)] for row in range(3)
    ]
    assert collection.search(image=read.images[4])[0].distance == 0
    assert collection.get("4", ["thumbnail"]).thumbnail
    assert collection.get("4").text == world.scenes.captions[4]


def test_filter_radius_and_paging(filled, world):
    text = world.scenes.captions[4]
    everything = filled.search(text, k=N)
    assert len(everything) == N
    pages = [filled.search(text, k=20, offset=start) for start in range(0, N, 20)]
    assert [key for page in pages for key in keys(page)] == keys(everything)
    some = filled.search(text, k=N, where="row >= 10 and row < 30")
    assert {match.item.metadata["row"] for match in some} == set(range(10, 30))
    near = filled.search(text, k=N, radius=8)
    assert sorted(keys(near)) == sorted(keys(m for m in everything if m.distance <= 8))
    assert filled.search(text, offset=N) == []
    assert filled.search(text, where="row > 1000") == []
    matches = filled.search(text, k=2, thumbnails=True)
    with Image.open(io.BytesIO(matches[0].item.thumbnail)) as small:
        assert small.size == (48, 48)
    assert filled.search(text, k=2)[0].item.thumbnail is None


def test_invalid_searches_raise(filled, world, tmp_path):
    text = world.scenes.captions[0]
    with pytest.raises(InputError, match="offset must be a non-negative integer, got -1"):
        filled.search(text, offset=-1)
    with pytest.raises(InputError, match="offset must be a non-negative integer, got -1"):
        filled.search(key="scene 1", offset=-1)
    with pytest.raises(InputError, match="k must be a positive integer"):
        filled.search(text, k=0)
    with pytest.raises(InputError, match="text must be a string or a list of strings, got 3"):
        filled.search(3)
    with pytest.raises(InputError, match="Image not found: nowhere.jpg"):
        filled.search(image="nowhere.jpg")
    images_only = Collection.create("memory:", world.model)
    assert images_only.search(text) == []
    images_only.add([{"image": path} for path in world.paths[:3]])
    with pytest.raises(InputError, match="has text codes. Search its image codes: find='image'"):
        images_only.search(text, find="text")


def test_search_by_key_excludes_the_item(uri, world):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(30)))
    for modality in ("image", "text"):
        query, database = world.codes("image")[7], world.codes(modality)[:30]
        rows, _ = nearest_scenes(collection, query, database, 30)
        expected = [f"scene {row}" for row in rows if row != 7]
        found = collection.search(key="scene 7", k=30, find=modality, rerank=False)
        assert keys(found) == expected
        page = collection.search(key="scene 7", k=5, find=modality, rerank=False, offset=3)
        assert keys(page) == expected[3:8]
    narrowed = collection.search(key="scene 7", k=30, where="row < 9")
    assert set(keys(narrowed)) == {f"scene {row}" for row in range(9) if row != 7}
    with pytest.raises(InputError, match="No item with the key 'nobody'"):
        collection.search(key="nobody")


@pytest.mark.parametrize("store_continuous", [False, True])
@pytest.mark.parametrize("after", ["ids_of", "codes_of", "view", "get"])
def test_item_is_deleted_during_a_search_by_key(uri, world, monkeypatch, after, store_continuous):
    collection = Collection.create(uri, world.model, store_continuous=store_continuous)
    collection.add(world.records(range(6)))
    index = collection.index
    original = getattr(index, after)

    def delete_afterwards(*given, **options):
        answer = original(*given, **options)
        monkeypatch.setattr(index, after, original)
        collection.delete(["scene 3", "scene 4"])
        return answer

    monkeypatch.setattr(index, after, delete_afterwards)
    found = None
    with suppress(NotFoundError):  # if the code was not read yet
        found = keys(collection.search(key="scene 3", k=6))
    assert found is not None or after in ("ids_of", "codes_of")
    if found is not None:
        assert set(found) - {"scene 4"} == {"scene 0", "scene 1", "scene 2", "scene 5"}
    with pytest.raises(NotFoundError, match="No item with the key 'scene 3'"):
        collection.search(key="scene 3")


def test_item_without_image_searches_by_text(world):
    collection = Collection.create("memory:", world.model, store_continuous=True)
    collection.add([*world.records(range(5)), {"key": "words", "text": world.scenes.captions[4]}])
    first = collection.search(key="words", k=1, find="text")[0]
    assert (first.key, first.distance) == ("scene 4", 0)
    assert first.score == pytest.approx(1, abs=1e-3)


def test_lists_ask_many_queries(uri, world):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(30)))
    texts, images = world.scenes.captions[:3], list(world.scenes.images[:3])
    for options in ({}, {"rerank": False, "where": "row > 9", "offset": 2, "find": "text"}):
        for kind, queries in (("text", texts), ("image", images), ("key", ["scene 3", "scene 5"])):
            together = collection.search(**{kind: queries}, **options)
            alone = [collection.search(**{kind: query}, **options) for query in queries]
            assert together == alone
    by_codes = collection.search(codes=world.codes("text")[:3])
    assert by_codes == collection.search(texts, rerank=False)
    assert collection.search([]) == collection.search(image=[]) == collection.search(key=[]) == []


def test_unknown_words_are_reported_beside_the_results(world, caplog):
    collection = Collection.create("memory:", world.model)
    collection.add([world.record(row) for row in range(6)])
    assert collection.search("boat xyzzy") == collection.search("boat")
    assert caplog.messages == ["'xyzzy' is not in this collection's vocabulary."]
    with pytest.raises(InputError, match="contains no words"):
        collection.search("!?")


@pytest.fixture(params=[False, True], ids=["signs", "continuous"])
def calibrated(world, request):
    model = replace(world.model, calibration=linear_calibration(24))
    collection = Collection.create("memory:", model, store_continuous=request.param)
    collection.add(world.records())
    return collection


def test_probabilities_follow_what_results_are_ranked_by(calibrated, monkeypatch):
    monkeypatch.setattr(search, "RERANKED", 20)
    matches = calibrated.search("boat", k=30)
    for match in matches:
        if match.score is None:
            expected = 1 - match.distance / 24
        else:
            expected = ((match.score + 1) / 2) ** (1 + calibrated.stores_continuous)
        assert match.probability == pytest.approx(expected / 3, abs=1e-4)  # text->image
    assert [match.score is None for match in matches] == [False] * 20 + [True] * 10
    plain = calibrated.search("boat", rerank=False, find="text")[0]
    assert plain.probability == pytest.approx((1 - plain.distance / 24) / 4, abs=1e-4)


def test_items_as_queries_have_probabilities_of_their_own(calibrated):
    for match in calibrated.search(key="scene 3"):
        by_cosine = (match.score + 1) / 2
        expected = by_cosine if calibrated.stores_continuous else 1 - match.distance / 24
        assert match.probability == pytest.approx(expected**2, abs=1e-3)


@pytest.mark.parametrize("rerank", [False, True])
@pytest.mark.parametrize("query", [{"text": "boat"}, {"key": "scene 3"}])
def test_min_probability_equals_filtering_all_matches(calibrated, monkeypatch, query, rerank):
    monkeypatch.setattr(search, "RERANKED", 20)
    every = calibrated.search(**query, k=N, rerank=rerank)
    least = float(np.median([match.probability for match in every]))
    likely = [match for match in every if match.probability >= least]
    assert 0 < len(likely) < len(every)
    assert calibrated.search(**query, k=N, rerank=rerank, min_probability=least) == likely
    pages = [
        calibrated.search(**query, k=7, offset=offset, rerank=rerank, min_probability=least)
        for offset in range(0, N, 7)
    ]
    assert [match for page in pages for match in page] == likely


def test_matches_have_no_probability_without_calibration(filled):
    assert [match.probability for match in filled.search("boat", k=3)] == [None] * 3
    with pytest.raises(InputError, match="The model is not calibrated"):
        filled.search("boat", min_probability=0.5)


def test_codes_and_missing_directions_have_no_probability(calibrated):
    codes = calibrated.model.hasher.encode_text(calibrated.model.reader.read_texts(["boat"]))
    assert calibrated.search(codes=codes)[0][0].probability is None
    with pytest.raises(InputError, match="A search by code has no probabilities"):
        calibrated.search(codes=codes, min_probability=0.5)
    directions = calibrated.model.calibration.directions
    del directions["text->image"]
    assert calibrated.search("boat")[0].probability is None
    with pytest.raises(InputError, match=r"not calibrated for text->image, only for image->image"):
        calibrated.search("boat", min_probability=0.5)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "high"])
def test_min_probability_must_be_a_probability(filled, value):
    with pytest.raises(InputError, match="min_probability must be between 0 and 1"):
        filled.search("boat", min_probability=value)
