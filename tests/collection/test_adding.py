"""Adding records: what is encoded, what is skipped, and how moved files are recognized."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash._progress import listening
from corrhash.collection import Added, Collection, Record
from corrhash.collection import adding as adding_module
from corrhash.collection.encoding import LazyImages
from corrhash.index.items import FIELDS
from tests.collection.world import keys, same


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
    plain = adding_module.encode_records
    monkeypatch.setattr(
        adding_module,
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
            {"key": "damaged", "image": tmp_path / "cut.png", "text": "sea"},
        ]
    )
    assert added.new == 2
    assert set(added.skipped) == {"cut", "gone", "unknown", "damaged"}
    assert "Cannot decode the image" in added.skipped["cut"]
    assert "None of the terms in its text" in added.skipped["unknown"]
    with pytest.raises(
        InputError, match="'xyzzy' is not in this collection's vocabulary. Use words from"
    ):
        collection.search("xyzzy")


@pytest.fixture
def photos(world, tmp_path):
    """A folder of 9 images under names of their own."""
    folder = tmp_path / "photos"
    for row in range(9):
        path = folder / str(row % 3) / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(world.paths[row], path)
    return folder


def records_in(folder, world):
    """The images of a folder under relative paths, as a folder of images is read."""
    files = sorted(folder.rglob("*.png"))
    return [
        Record(file.relative_to(folder).as_posix(), file, world.scenes.captions[int(file.stem[0])])
        for file in files
    ]


def everything(collection):
    """What is stored of each item, by key, without paths and stamps."""
    ids = collection.ids_of([item.key for item in collection.first_items(99)])
    stored = {}
    for key, number in ids.items():
        (item,) = collection.index.get([number], FIELDS)
        codes = [collection.codes_of([number], name)[number].packed for name in ("image", "text")]
        stored[key] = replace(item, path="", stamp=""), np.concatenate(codes).tolist()
    return stored


def open_no_image(monkeypatch):
    def refuse(images, row):
        raise AssertionError(f"{images.records[row].key} is opened again")

    monkeypatch.setattr(LazyImages, "__getitem__", refuse)


@pytest.mark.parametrize("store_continuous", [False, True])
def test_moved_folder_is_not_encoded_again(uri, photos, world, monkeypatch, store_continuous):
    collection = Collection.create(uri, world.model, store_continuous=store_continuous, root=photos)
    assert collection.add(records_in(photos, world)).new == 9
    before, ids = everything(collection), collection.ids_of([f"1/{n}.png" for n in (1, 4, 7)])
    moved = photos.rename(photos.with_name("moved"))
    open_no_image(monkeypatch)
    assert collection.add(records_in(moved, world), batch=4) == Added(moved=9)
    assert everything(collection) == before
    assert collection.ids_of(list(ids)) == ids
    assert collection.get("1/4.png").path == str(moved / "1" / "4.png")
    assert collection.add(records_in(moved, world)) == Added(unchanged=9)


def test_renamed_files_keep_id_and_edits_under_a_new_key(uri, photos, world, monkeypatch):
    collection = Collection.create(uri, world.model, root=photos)
    collection.add(records_in(photos, world))
    collection.update("1/4.png", labels=["edited"])
    before, (number,) = everything(collection), collection.ids_of(["1/4.png"]).values()
    (photos / "1").rename(photos / "one")
    (photos / "0" / "3.png").rename(photos / "0" / "3 again.png")
    open_no_image(monkeypatch)
    assert collection.add(records_in(photos, world), batch=2) == Added(moved=4, unchanged=5)
    assert len(collection) == 9
    assert collection.ids_of(["1/4.png", "one/4.png"]) == {"one/4.png": number}
    after = everything(collection)
    for old, new in {"1/4.png": "one/4.png", "0/3.png": "0/3 again.png"}.items():
        assert after[new] == (replace(before[old][0], key=new), before[old][1])
    assert after["one/4.png"][0].labels == ("edited",)


def test_old_key_of_a_moved_item_can_be_used_again(uri, photos, world):
    collection = Collection.create(uri, world.model, root=photos)
    collection.add(records_in(photos, world))
    (photos / "0" / "0.png").rename(photos / "1" / "0.png")
    assert collection.add(records_in(photos, world)).moved == 1
    shutil.copy(world.paths[50], photos / "0" / "0.png")
    assert collection.add(records_in(photos, world)) == Added(new=1, unchanged=9)
    ids = collection.ids_of(["0/0.png", "1/0.png"])
    for key, row in (("0/0.png", 50), ("1/0.png", 0)):
        assert same(collection.codes_of([ids[key]], "image")[ids[key]], world.codes("image")[row])


def test_moved_file_with_another_text_is_updated(uri, photos, world, monkeypatch):
    collection = Collection.create(uri, world.model, root=photos)
    collection.add(records_in(photos, world))
    (number,) = collection.ids_of(["2/5.png"]).values()
    (photos / "2" / "5.png").rename(photos / "6.png")  # takes the caption of 6
    open_no_image(monkeypatch)
    assert collection.add(records_in(photos, world)) == Added(moved=1, unchanged=8)
    assert collection.ids_of(["6.png", "2/5.png"]) == {"6.png": number}
    assert same(collection.codes_of([number], "image")[number], world.codes("image")[5])
    assert same(collection.codes_of([number], "text")[number], world.codes("text")[6])
    assert collection.get("6.png").text == world.scenes.captions[6]


def test_copied_file_is_a_new_item_with_the_same_code(uri, photos, world, monkeypatch):
    collection = Collection.create(uri, world.model, root=photos)
    collection.add(records_in(photos, world))
    before = everything(collection)
    shutil.copy(photos / "0" / "0.png", photos / "0 copy.png")
    open_no_image(monkeypatch)
    assert collection.add(records_in(photos, world)) == Added(new=1, unchanged=9)
    after = everything(collection)
    assert after["0 copy.png"][1] == before["0/0.png"][1]
    assert after["0 copy.png"][0].thumbnail == before["0/0.png"][0].thumbnail
    assert {key: after[key] for key in before} == before


def test_touched_and_exchanged_files_are_not_encoded_again(uri, photos, world, monkeypatch):
    collection = Collection.create(uri, world.model, root=photos)
    records = [replace(record, text="") for record in records_in(photos, world)]
    collection.add(records)
    os.utime(photos / "0" / "0.png", (0, 0))
    for old, new in (("1/1.png", "aside"), ("2/2.png", "1/1.png"), ("aside", "2/2.png")):
        (photos / old).rename(photos / new)
    open_no_image(monkeypatch)
    assert collection.add(records) == Added(updated=2, unchanged=7)
    ids = collection.ids_of(["1/1.png", "2/2.png"])
    for key, row in (("1/1.png", 2), ("2/2.png", 1)):
        assert same(collection.codes_of([ids[key]], "image")[ids[key]], world.codes("image")[row])
    assert collection.add(records) == Added(unchanged=9)


def test_chosen_keys_are_never_renamed(uri, photos, world, monkeypatch):
    collection = Collection.create(uri, world.model, root=photos)
    collection.add([Record("my dog", photos / "0" / "0.png", labels=["dog"])])
    (photos / "0" / "0.png").rename(photos / "dog.png")
    open_no_image(monkeypatch)
    assert collection.add([Record("dog.png", photos / "dog.png")]).new == 1
    assert collection.get("my dog").labels == ("dog",)
    moved = Record("my dog", photos / "dog.png", labels=["dog"])
    assert collection.add([moved]) == Added(moved=1)
    assert collection.get("my dog").path == "dog.png"


def test_changed_content_under_the_same_name_is_encoded(uri, photos, world):
    collection = Collection.create(uri, world.model, root=photos)
    collection.add(records_in(photos, world))
    shutil.copy(world.paths[50], photos / "0" / "0.png")
    assert collection.add(records_in(photos, world)) == Added(updated=1, unchanged=8)
    (number,) = collection.ids_of(["0/0.png"]).values()
    assert same(collection.codes_of([number], "image")[number], world.codes("image")[50])


def test_progress_covers_all_batches(photos, world):
    collection = Collection.create("memory:", world.model)
    steps = []
    with listening(steps.append):
        collection.add(records_in(photos, world), batch=4, total=9)
    assert {(step.task, step.total) for step in steps} == {("Adding", 9)}
    done = [step.done for step in steps]
    assert done == sorted(done)
    assert {4, 8, 9} <= set(done)
