"""Collection: adding, searching in every direction, and staying whole."""

import io
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from corrhash import Codes, InputError
from corrhash import collection as collection_module
from corrhash.collection import Added, Collection
from corrhash.datasets import PairedDataset, Reader, Vocabulary, make_pairs
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.scenes import draw_scenes
from corrhash.index import ENGINES, FOLDER, engine_of
from corrhash.index.contents import checksum
from corrhash.index.item import FIELDS
from corrhash.methods import METHODS
from corrhash.saved_model import save_model
from tests.engine_addresses import new_address

N = 90


class World:
    """Drawn pictures as files, their words, and a model that was trained on them."""

    def __init__(self, folder):
        self.scenes = draw_scenes(N, size=48)
        self.paths = [folder / f"{row:02}.png" for row in range(N)]
        for path, pixels in zip(self.paths, self.scenes.images, strict=True):
            Image.fromarray(pixels).save(path)
        words = Vocabulary.fit(self.scenes.captions, min_count=2)
        self.reader = Reader(words, ImageFeatures("simple"))
        raw = PairedDataset(self.scenes.images, self.scenes.captions)
        self.hasher = METHODS["cvh"](n_bits=24).fit(self.reader.read(raw))

    @property
    def model(self):
        return self.hasher, self.reader

    def record(self, row, **changes):
        labels = np.array(self.scenes.label_names)[self.scenes.labels[row] > 0].tolist()
        return {
            **{"key": f"scene {row}", "image": self.paths[row]},
            **{"text": self.scenes.captions[row], "labels": labels, "metadata": {"row": row}},
        } | changes

    def records(self, rows=range(N)):
        return [self.record(row) for row in rows]

    def codes(self, side):
        if side == "image":
            return self.hasher.encode_image(self.reader.read_images(self.scenes.images))
        return self.hasher.encode_text(self.reader.read_texts(self.scenes.captions))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(params=list(ENGINES))
def address(request, tmp_path):
    with new_address(request.param, tmp_path) as uri:
        yield uri


@pytest.fixture
def filled(world, tmp_path):
    collection = Collection.create(tmp_path / "c", *world.model)
    collection.add(world.records())
    return collection


def keys(matches):
    return [match.key for match in matches]


def same(codes, others):
    return np.array_equal(codes.packed, others.packed)


def nearest_rows(queries, database, k):
    distances = queries.hamming(database).astype(int)[0]
    order = np.argsort(distances, kind="stable")[:k]
    return order, distances[order]


def test_every_direction_is_searched_with_items_and_distances(address, world):
    collection = Collection.create(address, *world.model)
    assert collection.add(world.records()) == Added(new=N)
    assert len(collection) == N
    words, picture = world.scenes.captions[4], world.paths[7]
    asked = {
        "text": world.hasher.encode_text(world.reader.read_texts([words])),
        "image": world.codes("image")[7],
    }
    for side in ("image", "text"):
        answers = {
            "text": collection.search_text(words, 8, side, rerank=False),
            "image": collection.search_image(picture, 8, side, rerank=False),
        }
        for kind, matches in answers.items():
            rows, distances = nearest_rows(asked[kind], world.codes(side), 8)
            assert keys(matches) == [f"scene {row}" for row in rows]
            assert [match.distance for match in matches] == distances.tolist()
            first = world.record(rows[0])
            assert matches[0].item.text == first["text"]
            assert list(matches[0].item.labels) == first["labels"]
            assert matches[0].item.metadata == {"row": rows[0]}
            assert matches[0].item.path == str(first["image"])


def test_pictures_and_texts_may_come_alone(filled, world, tmp_path):
    collection = Collection.create(tmp_path / "d", *world.model)
    with pytest.raises(InputError, match="needs a key"):
        collection.add([{"text": world.scenes.captions[0]}])
    added = collection.add(
        [
            {"image": str(world.paths[0])},
            {"key": "words", "text": world.scenes.captions[1]},
            {"key": "pixels", "image": world.scenes.images[2]},
            {"key": "opened", "image": Image.open(world.paths[3])},
        ]
    )
    assert added.new == 4
    found = {match.key for match in collection.search_image(world.paths[0], find="image")}
    assert found == {str(world.paths[0]), "pixels", "opened"}
    assert keys(collection.search_text(world.scenes.captions[0], find="text")) == ["words"]
    assert collection.search_image(world.scenes.images[2], find="image")[0].key == "pixels"


def test_feature_vectors_and_word_occurrences_are_read_as_they_are(world, filled):
    read = world.reader.read(PairedDataset(world.scenes.images, world.scenes.captions))
    collection = Collection.create("memory:", *world.model)
    shown = PairedDataset(world.scenes.images, world.scenes.captions)
    assert collection.add_pairs(read, shown).new == N
    matches = collection.search_words(read.texts[:3], 5)
    assert [[m.distance for m in of_query] for of_query in matches] == [
        [m.distance for m in filled.search_text(world.scenes.captions[row], 5)] for row in range(3)
    ]
    assert collection.search_image(read.images[4], find="image")[0].distance == 0
    assert collection.get("4", ["thumbnail"]).thumbnail
    assert collection.get("4").text == world.scenes.captions[4]


def test_answers_are_filtered_cut_and_paged(filled, world):
    words = world.scenes.captions[4]
    everything = filled.search_text(words, N)
    assert len(everything) == N
    pages = [filled.search_text(words, 20, offset=start) for start in range(0, N, 20)]
    assert [key for page in pages for key in keys(page)] == keys(everything)
    some = filled.search_text(words, N, where="row >= 10 and row < 30")
    assert {match.item.metadata["row"] for match in some} == set(range(10, 30))
    near = filled.search_text(words, N, radius=8)
    assert sorted(keys(near)) == sorted(keys(m for m in everything if m.distance <= 8))
    assert filled.search_text(words, offset=N) == []
    assert filled.search_text(words, where="row > 1000") == []
    matches = filled.search_text(words, 2, thumbnails=True)
    with Image.open(io.BytesIO(matches[0].item.thumbnail)) as small:
        assert small.size == (48, 48)
    assert filled.search_text(words, 2)[0].item.thumbnail is None


def test_what_is_there_unchanged_is_not_encoded_again(address, world, monkeypatch):
    collection = Collection.create(address, *world.model)
    half = [world.record(row) for row in range(20)]
    seen = []
    plain = collection_module.encode_records
    monkeypatch.setattr(
        collection_module,
        "encode_records",
        lambda records, *a, **k: seen.extend(r.key for r in records) or plain(records, *a, **k),
    )

    def interrupted():
        yield from half
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collection.add(interrupted(), batch=8)
    assert len(collection) == 16
    seen.clear()
    assert collection.add(half, batch=8) == Added(new=4, unchanged=16)
    assert seen == [f"scene {row}" for row in range(16, 20)]
    changed = [world.record(3, labels=["other"]), world.record(4, image=world.paths[5])]
    assert collection.add([*half[:3], *changed]) == Added(updated=2, unchanged=3)
    assert len(collection) == 20
    assert collection.get("scene 3").labels == ("other",)
    assert collection.get("scene 4").path == str(world.paths[5])
    again = [world.record(30, text="sea"), world.record(30)]
    assert collection.add(again).new == 1
    assert collection.get("scene 30").text == world.scenes.captions[30]


def test_numbers_and_truths_of_numpy_are_those_of_python(world):
    collection = Collection.create("memory:", *world.model)
    of_numpy = {"year": np.int64(2015), "seen": np.bool_(True), "size": np.float32(0.5)}
    of_python = {"year": 2015, "seen": True, "size": 0.5}
    assert collection.add([world.record(0, metadata=of_numpy)]).new == 1
    assert collection.get("scene 0").metadata == of_python
    assert collection.add([world.record(0, metadata=of_python)]).unchanged == 1


def test_what_cannot_be_encoded_is_skipped_and_told(world, tmp_path):
    (tmp_path / "cut.png").write_bytes(world.paths[0].read_bytes()[:200])
    collection = Collection.create("memory:", *world.model)
    added = collection.add(
        [
            world.record(0),
            {"key": "cut", "image": tmp_path / "cut.png"},
            {"key": "gone", "image": tmp_path / "gone.png"},
            {"key": "unknown", "text": "xyzzy"},
            world.record(1, text="xyzzy"),
            {"key": "words remain", "image": tmp_path / "cut.png", "text": "sea"},
        ]
    )
    assert added.new == 3
    assert set(added.skipped) == {"cut", "gone", "unknown"}
    assert "Cannot read the picture" in added.skipped["cut"]
    assert "no word of its text" in added.skipped["unknown"]
    with pytest.raises(InputError, match="The model knows no word of 'xyzzy'"):
        collection.search_text("xyzzy")


def test_items_are_deleted_and_updated_by_key(address, world):
    collection = Collection.create(address, *world.model, store_scores=True)
    collection.add(world.records(range(12)))
    assert collection.delete(["scene 3", "nobody"]) == 1
    assert collection.delete("scene 4") == 1
    assert len(collection) == 10
    with pytest.raises(InputError, match="There is no item 'scene 3'"):
        collection.get("scene 3")
    words = world.scenes.captions[40]
    collection.update("scene 5", text=words, metadata={"year": 1999})
    item = collection.get("scene 5")
    assert (item.text, item.metadata) == (words, {"year": 1999})
    assert list(item.labels) == world.record(5)["labels"]
    assert collection.search_text(words, 1, "text")[0].distance == 0
    assert collection.search_image(world.paths[5], 1, "image")[0].key == "scene 5"
    collection.update("scene 6", image=world.paths[50])
    nearest = collection.search_image(world.paths[50], 1, "image")[0]
    assert (nearest.key, nearest.distance) == ("scene 6", 0)
    assert nearest.score == pytest.approx(1, abs=1e-3)
    collection.update("scene 7", text="")
    assert "scene 7" not in keys(collection.search_text(words, 50, "text"))
    with pytest.raises(InputError, match="Items have no 'colour' to change"):
        collection.update("scene 7", colour="red")
    collection.add([{"key": "words", "text": words}])
    with pytest.raises(InputError, match="neither picture nor text. Delete it"):
        collection.update("words", text="")


def test_an_update_changes_all_that_was_given_or_nothing(address, world, tmp_path):
    collection = Collection.create(address, *world.model)
    collection.add(world.records(range(3)))
    before = collection.get("scene 1", FIELDS), collection.search_item("scene 1", 3)
    with pytest.raises(InputError, match="'scene 1' stays as it is. .* no word of its text"):
        collection.update("scene 1", image=world.paths[50], text="xyzzy")
    with pytest.raises(InputError, match="There is no picture .*gone.png"):
        collection.update("scene 1", image=tmp_path / "gone.png", text=world.scenes.captions[2])
    assert (collection.get("scene 1", FIELDS), collection.search_item("scene 1", 3)) == before
    collection.update("scene 1", image=world.paths[50], text=world.scenes.captions[40])
    number = collection.ids_of(["scene 1"])["scene 1"]
    for side, row in (("image", 50), ("text", 40)):
        assert same(collection.codes_of([number], side)[number], world.codes(side)[row])
    item = collection.get("scene 1")
    assert (item.path, item.text) == (str(world.paths[50]), world.scenes.captions[40])


def while_encoding(monkeypatch, deed):
    """Let somebody else do something while an update encodes."""
    plain = collection_module.encode_records

    def encode(*given, **how):
        encoded = plain(*given, **how)
        monkeypatch.setattr(collection_module, "encode_records", plain)
        deed()
        return encoded

    monkeypatch.setattr(collection_module, "encode_records", encode)


def test_updates_at_the_same_time_are_both_kept(address, world, monkeypatch):
    collection = Collection.create(address, *world.model)
    collection.add(world.records(range(3)))
    other = collection if address == "memory:" else Collection.open(address, world.model)
    other.search_item("scene 1", 1)  # it remembers how codes were
    assert collection.search_item("scene 1", 1)
    while_encoding(monkeypatch, lambda: other.update("scene 1", image=world.paths[50]))
    collection.update("scene 1", text=world.scenes.captions[40])
    number = collection.ids_of(["scene 1"])["scene 1"]
    for side, row in (("image", 50), ("text", 40)):
        assert same(collection.codes_of([number], side)[number], world.codes(side)[row])
    assert collection.get("scene 1").path == str(world.paths[50])


def test_an_update_does_not_bring_back_what_was_deleted(address, world, monkeypatch):
    collection = Collection.create(address, *world.model)
    collection.add(world.records(range(3)))
    while_encoding(monkeypatch, lambda: collection.delete("scene 1"))
    with pytest.raises(InputError, match="There is no item 'scene 1'"):
        collection.update("scene 1", text=world.scenes.captions[40])
    assert len(collection) == 2


def test_a_collection_opens_with_its_model_and_refuses_another(scheme_of, world, tmp_path):
    with new_address(scheme_of, tmp_path) as uri:
        Collection.create(uri, *world.model).add(world.records(range(5)))
        save_model(tmp_path / "model", *world.model)
        again = Collection.open(uri, tmp_path / "model")
        assert len(again) == 5
        assert again.search_image(world.paths[2], 1, "image")[0].key == "scene 2"
        pairs = world.reader.read(PairedDataset(world.scenes.images, world.scenes.captions))
        other = METHODS["cvh"](n_bits=24, eps=0.5).fit(pairs)
        with pytest.raises(InputError, match="are not of this model: its fingerprint is"):
            Collection.open(uri, (other, world.reader))
        fewer = Vocabulary(world.reader.vocabulary.words[:-1])
        with pytest.raises(InputError, match="are not of this model"):
            Collection.open(uri, (world.hasher, Reader(fewer, ImageFeatures("simple"))))
        with pytest.raises(InputError, match="There is a collection at .* already"):
            Collection.create(uri, *world.model)


@pytest.fixture(params=[scheme for scheme in ENGINES if scheme != "memory:"])
def scheme_of(request):
    return request.param


def test_a_folder_holds_all_that_it_needs_and_can_be_moved(filled, world, tmp_path):
    words = world.scenes.captions[4]
    before = filled.search_text(words)
    shutil.move(filled.uri, tmp_path / "moved")
    moved = Collection.open(tmp_path / "moved")
    assert moved.search_text(words) == before
    assert repr(moved).endswith("90 items, CVH of 24 bits)")
    assert moved.info()["items"] == N


def test_a_creation_that_was_interrupted_is_done_again(world, tmp_path):
    Collection.create(tmp_path / "c", *world.model)
    (tmp_path / "c" / "collection.json").unlink()
    with pytest.raises(InputError, match="There is no collection at"):
        Collection.open(tmp_path / "c")
    assert len(Collection.create(tmp_path / "c", *world.model)) == 0
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        Collection.create(tmp_path / "d", *world.model)


def test_of_two_that_create_at_the_same_time_the_first_is_kept(
    scheme_of, world, tmp_path, monkeypatch
):
    pairs = world.reader.read(PairedDataset(world.scenes.images, world.scenes.captions))
    other = METHODS["cvh"](n_bits=24, eps=0.5).fit(pairs)
    with new_address(scheme_of, tmp_path) as uri:
        engine = engine_of(uri)
        plain = engine.look

        def looks_before_the_other_creates(address):
            monkeypatch.setattr(engine, "look", plain)
            found = plain(address)
            Collection.create(address, *world.model).add(world.records(range(3)))
            return found

        monkeypatch.setattr(engine, "look", looks_before_the_other_creates)
        with pytest.raises(InputError, match="are not of this model"):
            Collection.create(uri, other, world.reader)
        assert len(Collection.open(uri, world.model)) == 3
        if scheme_of == FOLDER:
            assert len(Collection.open(uri)) == 3  # with the model that it holds
        monkeypatch.setattr(engine, "look", lambda address: setattr(engine, "look", plain))
        assert len(Collection.create(uri, *world.model)) == 3


def test_a_copy_is_the_same_wherever_it_lies(address, filled, world):
    if address == "memory:":
        pytest.skip("a copy in memory has no address to come back from")
    filled.delete("scene 3")
    filled.add([{"key": "words", "text": world.scenes.captions[3]}])
    there = filled.copy_to(address)
    assert checksum(there.index) == checksum(filled.index)
    back = there.copy_to(filled.uri + "-back")
    for row in range(0, N, 9):
        words = world.scenes.captions[row]
        assert back.search_text(words, 20) == filled.search_text(words, 20)
        assert there.search_text(words, 20) == filled.search_text(words, 20)
    assert len(filled.copy_to(address)) == N  # again, onto itself
    there.add([{"key": "more", "text": world.scenes.captions[5]}])
    with pytest.raises(InputError, match="differs from .*: 91 and 90 items"):
        filled.copy_to(address)


def test_questions_that_make_no_sense_are_told(filled, world, tmp_path):
    words = world.scenes.captions[0]
    with pytest.raises(InputError, match="offset must be a whole number from 0 up. Got -1"):
        filled.search_text(words, offset=-1)
    with pytest.raises(InputError, match="offset must be a whole number from 0 up. Got -1"):
        filled.search_item("scene 1", offset=-1)
    with pytest.raises(InputError, match="k must be a whole number"):
        filled.search_text(words, 0)
    with pytest.raises(InputError, match="Words to search with are a text. Got 3"):
        filled.search_text(3)
    with pytest.raises(InputError, match="There is no picture nowhere.jpg"):
        filled.search_image("nowhere.jpg")
    pictures = Collection.create("memory:", *world.model)
    assert pictures.search_text(words) == []
    pictures.add([{"image": path} for path in world.paths[:3]])
    with pytest.raises(InputError, match="has the code of a text. Ask for a picture: --find image"):
        pictures.search_text(words, find="text")


def test_an_item_is_searched_with_and_left_out(address, world):
    collection = Collection.create(address, *world.model)
    collection.add(world.records(range(30)))
    for side in ("image", "text"):
        rows, _ = nearest_rows(world.codes("image")[7], world.codes(side)[:30], 30)
        expected = [f"scene {row}" for row in rows if row != 7]
        found = collection.search_item("scene 7", 30, side, rerank=False)
        assert keys(found) == expected
        page = collection.search_item("scene 7", 5, side, rerank=False, offset=3)
        assert keys(page) == expected[3:8]
    narrowed = collection.search_item("scene 7", 30, where="row < 9")
    assert set(keys(narrowed)) == {f"scene {row}" for row in range(9) if row != 7}
    assert same(collection.code_of("scene 7"), world.codes("image")[7])
    with pytest.raises(InputError, match="There is no item 'nobody'"):
        collection.search_item("nobody")


def test_an_item_without_a_picture_searches_by_its_text(world):
    collection = Collection.create("memory:", *world.model, store_scores=True)
    collection.add([*world.records(range(5)), {"key": "words", "text": world.scenes.captions[4]}])
    assert same(collection.code_of("words"), world.codes("text")[4])
    first = collection.search_item("words", 1, "text")[0]
    assert (first.key, first.distance) == ("scene 4", 0)
    assert first.score == pytest.approx(1, abs=1e-3)


def test_searching_takes_two_steps_or_one(address, world):
    collection = Collection.create(address, *world.model)
    collection.add(world.records(range(30)))
    texts, images = world.scenes.captions[:3], world.scenes.images[:3]
    of_words, of_pictures = collection.score_words(texts), collection.score_pictures(images)
    assert same(Codes.from_scores(of_words), world.codes("text")[:3])
    assert same(Codes.from_scores(of_pictures), world.codes("image")[:3])
    for how in ({}, {"rerank": False, "where": "row > 9", "offset": 2}):
        in_two = collection.search_scores(of_words, 5, "image", **how)
        assert in_two == collection.search_words(texts, 5, "image", **how)
        in_two = collection.search_scores(of_pictures, 5, "text", **how)
        assert in_two == collection.search_pictures(images, 5, "text", **how)


def test_threads_add_while_others_search(address):
    pairs = make_pairs(240, seed=2)
    hasher = METHODS["cvh"](n_bits=100).fit(pairs)
    collection = Collection.create(address, hasher)
    collection.add_pairs(pairs.take(range(40)))
    done = threading.Event()

    def add(part):
        for start in range(40 + part, 240, 20):
            rows = range(start, start + 20, 4)
            collection.add(
                {"key": f"row {row}", "image": pairs.images[row], "words": pairs.texts[[row]]}
                for row in rows
            )

    def search():
        while not done.is_set():
            collection.search_words(pairs.texts[:2], 20)
            len(collection)

    with ThreadPoolExecutor(6) as pool:
        searching = [pool.submit(search) for _ in range(2)]
        for adding in [pool.submit(add, part) for part in range(4)]:
            adding.result()
        done.set()
        for each in searching:
            each.result()
    assert len(collection) == 240
    ids = collection.ids_of([f"row {row}" for row in range(40, 240)])
    for side, encoded in (
        ("image", hasher.encode_image(pairs.images)),
        ("text", hasher.encode_text(pairs.texts)),
    ):
        codes = collection.codes_of(list(ids.values()), side)
        for key, number in ids.items():
            assert same(codes[number], encoded[int(key.removeprefix("row "))])


def test_codes_and_items_come_by_id(address, world):
    collection = Collection.create(address, *world.model)
    collection.add([*world.records(range(4)), {"key": "words", "text": world.scenes.captions[4]}])
    ids = collection.ids_of(["scene 2", "nobody", "words"])
    assert set(ids) == {"scene 2", "words"}
    asked = [ids["words"], 999, ids["scene 2"]]
    codes = collection.codes_of(asked, "image")
    assert list(codes) == [ids["scene 2"]]
    assert same(codes[ids["scene 2"]], world.codes("image")[2])
    assert set(collection.codes_of(asked, "text")) == set(ids.values())
    words, missing, scene = collection.items_of(asked)
    assert missing is None
    assert (words.key, scene.key) == ("words", "scene 2")
    (small,) = collection.items_of([ids["scene 2"]], ["thumbnail"])
    assert small.thumbnail
    assert [item.key for item in collection.first_items(3)] == ["scene 0", "scene 1", "scene 2"]
    assert len(collection.first_items(99)) == 5


OLD = Path(__file__).parent / "data" / "collection-0.1"


def test_a_collection_of_an_older_version_opens(tmp_path):
    """Written by 0.1.0; later versions must read it, add to it and search it."""
    shutil.copytree(OLD, tmp_path / "c")
    expected = json.loads((OLD / "expected.json").read_text())
    collection = Collection.open(tmp_path / "c")
    matches = collection.search_text(expected["words"], 5)
    assert [[match.key, match.distance] for match in matches] == expected["answers"]
    item = collection.get(expected["answers"][0][0])
    assert item.metadata == expected["metadata"]
    collection.add([{"key": "new", "text": expected["words"]}])
    assert collection.search_text(expected["words"], 1, "text")[0].distance == 0
