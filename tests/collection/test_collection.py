"""The folder of a new collection: interrupted creations are repeated, other files are kept."""

import shutil
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash._files import atomic_write, backup_path
from corrhash.collection import Added, Collection
from corrhash.collection import collection as collection_module
from corrhash.collection.collection import MODEL_FOLDER, creating_in
from corrhash.datasets import PairedDataset, Reader, Vocabulary, make_pairs
from corrhash.datasets.image_features import ImageFeatures
from corrhash.index import ENGINES, FOLDER, engine_of
from corrhash.index.base import checksum
from corrhash.index.items import FIELDS
from corrhash.methods import METHODS
from corrhash.model import Model
from tests.collection.world import N, keys, same
from tests.engine_uris import new_uri

KILLED_WHILE_WRITING = """
    import os, sys
    from corrhash.collection import Collection
    from corrhash.datasets import Reader, make_pairs
    from corrhash.methods import METHODS
    from corrhash.model import Model

    uri, owner, name = sys.argv[1:]
    if owner == "Reader":
        Reader.save = lambda self, folder: os._exit(9)
    else:
        plain, os.fsync = os.fsync, lambda handle: (
            os._exit(9) if name in os.readlink(f"/proc/self/fd/{handle}") else plain(handle)
        )
    Collection.create(uri, Model(METHODS["cvh"](n_bits=8).fit(make_pairs(60, seed=0))))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="finds the moment by the names of open files")
@pytest.mark.parametrize(("owner", "left"), [("Reader", ".model."), ("file", ".collection.db.")])
def test_killed_creation_is_repeated(tmp_path, owner, left):
    code = textwrap.dedent(KILLED_WHILE_WRITING)
    command = [sys.executable, "-c", code, str(tmp_path / "c"), owner, left]
    assert subprocess.run(command, check=False).returncode == 9
    assert [path for path in (tmp_path / "c").iterdir() if path.name.startswith(left)]
    hasher = METHODS["cvh"](n_bits=8).fit(make_pairs(60, seed=0))
    assert len(Collection.create(tmp_path / "c", Model(hasher))) == 0
    assert not [path for path in (tmp_path / "c").iterdir() if path.name.endswith(".tmp")]


def test_only_temporary_files_are_removed(tmp_path):
    (tmp_path / "model").mkdir()
    backup_path(tmp_path / MODEL_FOLDER).mkdir()
    (tmp_path / ".collection.db.0123abcd.tmp").write_text("{")
    with creating_in(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {"model", ".creating.lock"}
    for name in (".letter.0123abcd.tmp", ".collection.db.mine.tmp", "letter.txt"):
        (tmp_path / name).write_text("mine")
        with (
            pytest.raises(InputError, match=f"contains other files, such as {name}"),
            creating_in(tmp_path),
        ):
            pass
        (tmp_path / name).unlink()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="file is a file"), creating_in(tmp_path / "file"):
        pass


def test_one_process_creates_at_a_time(tmp_path):
    seen = []

    def create(number):
        with creating_in(tmp_path), atomic_write(tmp_path / "collection.db"):
            seen.append(number)
            time.sleep(0.02)
            seen.append(number)

    threads = [threading.Thread(target=create, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen[::2] == seen[1::2]
    assert sorted(seen[::2]) == [0, 1, 2, 3]


def test_items_can_lack_an_image_or_a_text(filled, world, tmp_path):
    collection = Collection.create(tmp_path / "d", world.model)
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
    found = {match.key for match in collection.search(image=world.paths[0])}
    assert found == {str(world.paths[0]), "pixels", "opened"}
    assert keys(collection.search(world.scenes.captions[0], find="text")) == ["words"]
    assert collection.search(image=world.scenes.images[2])[0].key == "pixels"


def test_unchanged_items_are_not_encoded_again(uri, world, monkeypatch):
    collection = Collection.create(uri, world.model)
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


def test_numpy_metadata_equals_python_metadata(world):
    collection = Collection.create("memory:", world.model)
    of_numpy = {"year": np.int64(2015), "seen": np.bool_(True), "size": np.float32(0.5)}
    of_python = {"year": 2015, "seen": True, "size": 0.5}
    assert collection.add([world.record(0, metadata=of_numpy)]).new == 1
    assert collection.get("scene 0").metadata == of_python
    assert collection.add([world.record(0, metadata=of_python)]).unchanged == 1


def test_items_without_codes_are_skipped(world, tmp_path):
    (tmp_path / "cut.png").write_bytes(world.paths[0].read_bytes()[:200])
    collection = Collection.create("memory:", world.model)
    added = collection.add(
        [
            world.record(0),
            {"key": "cut", "image": tmp_path / "cut.png"},
            {"key": "gone", "image": tmp_path / "gone.png"},
            {"key": "unknown", "text": "xyzzy"},
            world.record(1, text="xyzzy"),
            {"key": "text remain", "image": tmp_path / "cut.png", "text": "sea"},
        ]
    )
    assert added.new == 3
    assert set(added.skipped) == {"cut", "gone", "unknown"}
    assert "Cannot decode the image" in added.skipped["cut"]
    assert "No term of its text" in added.skipped["unknown"]
    with pytest.raises(InputError, match="No term of 'xyzzy' is in the model's vocabulary"):
        collection.search("xyzzy")


def test_delete_and_update_by_key(uri, world):
    collection = Collection.create(uri, world.model, store_continuous=True)
    collection.add(world.records(range(12)))
    assert collection.delete(["scene 3", "nobody"]) == 1
    assert collection.delete("scene 4") == 1
    assert len(collection) == 10
    with pytest.raises(InputError, match="No item with the key 'scene 3'"):
        collection.get("scene 3")
    text = world.scenes.captions[40]
    collection.update("scene 5", text=text, metadata={"year": 1999})
    item = collection.get("scene 5")
    assert (item.text, item.metadata) == (text, {"year": 1999})
    assert list(item.labels) == world.record(5)["labels"]
    assert collection.search(text, k=1, find="text")[0].distance == 0
    assert collection.search(image=world.paths[5], k=1)[0].key == "scene 5"
    collection.update("scene 6", image=world.paths[50])
    nearest = collection.search(image=world.paths[50], k=1)[0]
    assert (nearest.key, nearest.distance) == ("scene 6", 0)
    assert nearest.score == pytest.approx(1, abs=1e-3)
    collection.update("scene 7", text="")
    assert "scene 7" not in keys(collection.search(text, k=50, find="text"))
    with pytest.raises(InputError, match="Cannot update 'colour'"):
        collection.update("scene 7", colour="red")
    collection.add([{"key": "words", "text": text}])
    with pytest.raises(InputError, match="neither an image nor a text. Delete it"):
        collection.update("words", text="")


def test_update_is_atomic(uri, world, tmp_path):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(3)))
    before = collection.get("scene 1", FIELDS), collection.search(key="scene 1", k=3)
    with pytest.raises(InputError, match="'scene 1' is unchanged. No term of its text"):
        collection.update("scene 1", image=world.paths[50], text="xyzzy")
    with pytest.raises(InputError, match="Image not found: .*gone.png"):
        collection.update("scene 1", image=tmp_path / "gone.png", text=world.scenes.captions[2])
    assert (collection.get("scene 1", FIELDS), collection.search(key="scene 1", k=3)) == before
    collection.update("scene 1", image=world.paths[50], text=world.scenes.captions[40])
    number = collection.ids_of(["scene 1"])["scene 1"]
    for modality, row in (("image", 50), ("text", 40)):
        assert same(collection.codes_of([number], modality)[number], world.codes(modality)[row])
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


def test_concurrent_updates_are_both_kept(uri, world, monkeypatch):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(3)))
    other = collection if uri == "memory:" else Collection.open(uri, world.model)
    other.search(key="scene 1", k=1)  # it remembers how codes were
    assert collection.search(key="scene 1", k=1)
    while_encoding(monkeypatch, lambda: other.update("scene 1", image=world.paths[50]))
    collection.update("scene 1", text=world.scenes.captions[40])
    number = collection.ids_of(["scene 1"])["scene 1"]
    for modality, row in (("image", 50), ("text", 40)):
        assert same(collection.codes_of([number], modality)[number], world.codes(modality)[row])
    assert collection.get("scene 1").path == str(world.paths[50])


def test_update_does_not_restore_a_deleted_item(uri, world, monkeypatch):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(3)))
    while_encoding(monkeypatch, lambda: collection.delete("scene 1"))
    with pytest.raises(InputError, match="No item with the key 'scene 1'"):
        collection.update("scene 1", text=world.scenes.captions[40])
    assert len(collection) == 2


def test_open_rejects_another_model(scheme_of, world, tmp_path):
    with new_uri(scheme_of, tmp_path) as uri:
        Collection.create(uri, world.model).add(world.records(range(5)))
        world.model.save(tmp_path / "model")
        again = Collection.open(uri, tmp_path / "model")
        assert len(again) == 5
        assert again.search(image=world.paths[2], k=1)[0].key == "scene 2"
        pairs = world.reader.read(PairedDataset(world.scenes.images, world.scenes.captions))
        other = METHODS["cvh"](n_bits=24, ridge=0.5).fit(pairs)
        with pytest.raises(InputError, match="come from another model: expected fingerprint"):
            Collection.open(uri, Model(other, world.reader))
        fewer = Vocabulary(world.reader.vocabulary.terms[:-1])
        with pytest.raises(InputError, match="come from another model"):
            Collection.open(uri, Model(world.hasher, Reader(fewer, ImageFeatures("simple"))))
        with pytest.raises(InputError, match="A collection already exists at"):
            Collection.create(uri, world.model)


@pytest.fixture(params=[scheme for scheme in ENGINES if scheme != "memory:"])
def scheme_of(request):
    return request.param


def test_folder_can_be_moved(filled, world, tmp_path):
    text = world.scenes.captions[4]
    before = filled.search(text)
    shutil.move(filled.uri, tmp_path / "moved")
    moved = Collection.open(tmp_path / "moved")
    assert moved.search(text) == before
    assert repr(moved).endswith("90 items, CVH of 24 bits)")
    assert moved.info()["items"] == N


def test_interrupted_creation_is_repeated(world, tmp_path):
    Collection.create(tmp_path / "c", world.model)
    (tmp_path / "c" / "collection.db").unlink()
    with pytest.raises(InputError, match="No collection at"):
        Collection.open(tmp_path / "c")
    assert len(Collection.create(tmp_path / "c", world.model)) == 0
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="contains other files"):
        Collection.create(tmp_path / "d", world.model)


def test_first_of_two_concurrent_creations_wins(scheme_of, world, tmp_path, monkeypatch):
    pairs = world.reader.read(PairedDataset(world.scenes.images, world.scenes.captions))
    other = METHODS["cvh"](n_bits=24, ridge=0.5).fit(pairs)
    with new_uri(scheme_of, tmp_path) as uri:
        engine = engine_of(uri)
        plain = engine.look

        def looks_before_the_other_creates(uri):
            monkeypatch.setattr(engine, "look", plain)
            found = plain(uri)
            Collection.create(uri, world.model).add(world.records(range(3)))
            return found

        monkeypatch.setattr(engine, "look", looks_before_the_other_creates)
        with pytest.raises(InputError, match="come from another model"):
            Collection.create(uri, Model(other, world.reader))
        assert len(Collection.open(uri, world.model)) == 3
        if scheme_of == FOLDER:
            assert len(Collection.open(uri)) == 3  # with the model that it holds
        monkeypatch.setattr(engine, "look", lambda uri: setattr(engine, "look", plain))
        assert len(Collection.create(uri, world.model)) == 3


def test_copies_are_identical(uri, filled, world):
    if uri == "memory:":
        pytest.skip("a copy in memory has no uri to come back from")
    filled.delete("scene 3")
    filled.add([{"key": "words", "text": world.scenes.captions[3]}])
    there = filled.copy_to(uri)
    assert checksum(there.index) == checksum(filled.index)
    back = there.copy_to(filled.uri + "-back")
    for row in range(0, N, 9):
        text = world.scenes.captions[row]
        assert back.search(text, k=20) == filled.search(text, k=20)
        assert there.search(text, k=20) == filled.search(text, k=20)
    assert len(filled.copy_to(uri)) == N  # again
    with pytest.raises(InputError, match="The destination is the collection itself"):
        there.copy_to(uri)
    there.add([{"key": "more", "text": world.scenes.captions[5]}])
    with pytest.raises(InputError, match="differs from .*: 91 and 90 items"):
        filled.copy_to(uri)


def test_concurrent_adds_and_searches(uri):
    pairs = make_pairs(240, seed=2)
    hasher = METHODS["cvh"](n_bits=100).fit(pairs)
    collection = Collection.create(uri, Model(hasher))
    collection.add_pairs(pairs.take(range(40)))
    done = threading.Event()

    def add(part):
        for start in range(40 + part, 240, 20):
            rows = range(start, start + 20, 4)
            collection.add(
                {"key": f"row {row}", "image": pairs.images[row], "term_vector": pairs.texts[[row]]}
                for row in rows
            )

    def search():
        while not done.is_set():
            collection.search(pairs.texts[:2], k=20)
            len(collection)

    with ThreadPoolExecutor(6) as pool:
        searching = [pool.submit(search) for _ in range(2)]
        try:
            for adding in [pool.submit(add, part) for part in range(4)]:
                adding.result()
        finally:
            done.set()
        for each in searching:
            each.result()
    assert len(collection) == 240
    ids = collection.ids_of([f"row {row}" for row in range(40, 240)])
    for modality, encoded in (
        ("image", hasher.encode_image(pairs.images)),
        ("text", hasher.encode_text(pairs.texts)),
    ):
        codes = collection.codes_of(list(ids.values()), modality)
        for key, number in ids.items():
            assert same(codes[number], encoded[int(key.removeprefix("row "))])


def test_codes_and_items_by_id(uri, world):
    collection = Collection.create(uri, world.model)
    collection.add([*world.records(range(4)), {"key": "words", "text": world.scenes.captions[4]}])
    ids = collection.ids_of(["scene 2", "nobody", "words"])
    assert set(ids) == {"scene 2", "words"}
    asked = [ids["words"], 999, ids["scene 2"]]
    codes = collection.codes_of(asked, "image")
    assert list(codes) == [ids["scene 2"]]
    assert same(codes[ids["scene 2"]], world.codes("image")[2])
    assert set(collection.codes_of(asked, "text")) == set(ids.values())
    text, missing, scene = collection.items_of(asked)
    assert missing is None
    assert (text.key, scene.key) == ("words", "scene 2")
    (small,) = collection.items_of([ids["scene 2"]], ["thumbnail"])
    assert small.thumbnail
    assert [item.key for item in collection.first_items(3)] == ["scene 0", "scene 1", "scene 2"]
    assert len(collection.first_items(99)) == 5
