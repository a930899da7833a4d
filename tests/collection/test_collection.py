"""Collection: creation in a folder, deletion, pruning, roots, copies and concurrent use."""

import io
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from corrhash import InputError
from corrhash._files import atomic_write, backup_path
from corrhash.collection import Collection
from corrhash.collection.creating import MODEL_FOLDER, creating_in
from corrhash.datasets import PairedDataset, Reader, Vocabulary, make_pairs
from corrhash.datasets.image_features import ImageFeatures
from corrhash.index import ENGINES, FOLDER, engine_of
from corrhash.index.base import checksum
from corrhash.index.filter_grammar import parse_filter
from corrhash.methods import METHODS
from corrhash.model import Model
from tests.collection.world import N, same
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


def test_delete_by_key_and_filter(uri, world):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(12)))
    assert collection.delete(["scene 3", "nobody"]) == 1
    assert collection.delete("scene 4") == 1
    with pytest.raises(InputError, match="No item with the key 'scene 3'"):
        collection.get("scene 3")
    some = {"keys": ["scene 5", "scene 6", "nobody"], "where": "row >= 6 and row < 8"}
    assert collection.delete(**some, dry_run=True) == 1
    assert collection.delete(where=parse_filter("row > 5"), dry_run=True) == 6
    assert len(collection) == 10
    assert collection.delete(**some) == 1
    assert collection.delete(where="row > 5") == 5
    assert sorted(item.key for item in collection.first_items(99)) == [
        *("scene 0", "scene 1", "scene 2", "scene 5")
    ]
    assert collection.delete([]) == 0
    with pytest.raises(InputError, match=r"Pass keys, a filter \(where\) or both"):
        collection.delete()
    with pytest.raises(InputError, match="Cannot parse the filter"):
        collection.delete("scene 0", where="row >")
    assert len(collection) == 4


def test_prune_deletes_only_missing_files_below_a_folder(uri, world, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "deep").mkdir(parents=True)
    (here / "deeper").mkdir()
    there.mkdir()
    files = [here / "deep" / "0.png", here / "deep" / "1.png", here / "deeper" / "2.png"]
    files += [here / "3.png", there / "4.png"]
    for row, file in enumerate(files):
        shutil.copy(world.paths[row], file)
    collection = Collection.create(uri, world.model, root=here)
    collection.add({"key": f"{row}", "image": file} for row, file in enumerate(files))
    collection.add([{"key": "words", "text": world.scenes.captions[0]}])
    for file in files[1:]:
        file.unlink()
    assert collection.prune(here / "deep") == 1
    assert sorted(collection.ids_of(["0", "1", "2", "3", "4", "words"])) == (
        ["0", "2", "3", "4", "words"]
    )
    assert collection.prune(here) == 2
    assert sorted(collection.ids_of(["0", "2", "3", "4"])) == ["0", "4"]
    assert collection.prune(tmp_path) == 1
    for folder in (there, tmp_path / "nowhere", files[0]):
        with pytest.raises(InputError, match="is empty or not a folder, so nothing was pruned"):
            collection.prune(folder)
    assert len(collection) == 2


def test_paths_are_relative_to_a_root_that_can_move(uri, world, tmp_path):
    root = tmp_path / "photos"
    (root / "2015").mkdir(parents=True)
    shutil.copy(world.paths[0], root / "2015" / "0.png")
    shutil.copy(world.paths[1], tmp_path / "1.png")
    collection = Collection.create(uri, world.model, root=root)
    records = [{"image": root / "2015" / ".." / "2015" / "0.png"}, {"image": tmp_path / "1.png"}]
    collection.add({"key": str(n), **record} for n, record in enumerate(records))
    inside, outside = (collection.get(key) for key in "01")
    assert (inside.path, outside.path) == ("2015/0.png", str(tmp_path / "1.png"))
    assert collection.file_of(inside) == root / "2015" / "0.png"
    assert collection.file_of(outside) == tmp_path / "1.png"
    assert len(collection.search(image=world.paths[0], where="path = '2015/0.png'")) == 1
    root.rename(tmp_path / "moved")
    collection.set_root(tmp_path / "moved")
    again = collection if uri == "memory:" else Collection.open(uri, world.model)
    assert again.info()["root"] == str(tmp_path / "moved")
    assert again.file_of(again.get("0")).exists()
    assert again.add([{"key": "0", "image": tmp_path / "moved" / "2015" / "0.png"}]).unchanged == 1
    with pytest.raises(InputError, match="Folder not found: .*photos"):
        collection.set_root(root)


def test_stored_images_have_the_preview_size(uri, world):
    def size_of(key):
        with Image.open(io.BytesIO(collection.get(key, ["thumbnail"]).thumbnail)) as image:
            return max(image.size)

    image = Image.effect_noise((1000, 700), 50).convert("RGB")
    collection = Collection.create(uri, world.model, preview_size=300)
    collection.add([{"key": "0", "image": image}])
    collection.set_preview_size(400)
    collection.add([{"key": "1", "image": image}])
    collection.update("0", image=image)
    assert [size_of("0"), size_of("1")] == [400, 400]
    copy = collection.copy_to("memory:")
    copy.add([{"key": "2", "image": image}])
    assert copy.get("2", ["thumbnail"]) == collection.get("1", ["thumbnail"])
    for wrong in (255, 2049, 640.5):
        with pytest.raises(InputError, match="preview_size must be an integer from 256 to 2048"):
            collection.set_preview_size(wrong)


def test_open_rejects_another_model(scheme_of, world, tmp_path):
    with new_uri(scheme_of, tmp_path) as uri:
        Collection.create(uri, world.model).add(world.records(range(5)))
        world.model.save(tmp_path / "model")
        again = Collection.open(uri, tmp_path / "model")
        assert len(again) == 5
        assert again.search(image=world.paths[2], k=1)[0].key == "scene 2"
        pairs = world.reader.read(PairedDataset(world.scenes.images, world.scenes.captions))
        other = METHODS["cvh"](n_bits=24, ridge=0.5).fit(pairs)
        with pytest.raises(
            InputError, match="was encoded with another model: expected fingerprint"
        ):
            Collection.open(uri, Model(other, world.reader))
        fewer = Vocabulary(world.reader.vocabulary.terms[:-1])
        with pytest.raises(InputError, match="was encoded with another model"):
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
        with pytest.raises(InputError, match="was encoded with another model"):
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


def test_two_writers_of_one_key_leave_one_item(uri, world):
    """Two writers add, update and delete the same keys; the last write of each key is whole."""
    first = Collection.create(uri, world.model)
    writers = [first, first if uri == "memory:" else Collection.open(uri, world.model)]
    together = threading.Barrier(2)

    def write(number):
        for step in range(5):
            together.wait(30)
            row = 2 * step + number
            new = {"key": "one", "text": world.scenes.captions[row], "metadata": {"row": row}}
            writers[number].add([new, {**new, "key": f"step {step}"}])
            together.wait(30)
            writers[number].update_many([{"key": "one", "metadata": {"writer": number}}])
            if step == 2:
                writers[number].delete("one")

    with ThreadPoolExecutor(2) as pool:
        for writing in [pool.submit(write, number) for number in range(2)]:
            writing.result()
    for collection in writers:
        ids = collection.ids_of(["one", *(f"step {step}" for step in range(5))])
        assert len(collection) == len(ids) == len(set(ids.values())) == 6
        for key, number in ids.items():
            item = collection.get(key)
            row = item.metadata["row"]
            assert item.text == world.scenes.captions[row]
            codes = collection.codes_of([number], "text")[number]
            assert same(codes, world.codes("text")[row])


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
    ids = collection.ids_of(["words", *(f"scene {row}" for row in range(4))])
    first = sorted(ids, key=ids.__getitem__)[:3]
    assert [item.key for item in collection.first_items(3)] == first
    assert len(collection.first_items(99)) == 5
