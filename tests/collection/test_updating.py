"""Updating items: what changes, what stays, and what is reported."""

import pytest

from corrhash import InputError
from corrhash.collection import Added, Collection
from corrhash.collection import updating as updating_module
from corrhash.index.items import FIELDS
from tests.collection.world import keys, same


def test_update_by_key(uri, world):
    collection = Collection.create(uri, world.model, store_continuous=True)
    collection.add(world.records(range(12)))
    text = world.scenes.captions[40]
    collection.update("scene 5", text=text, metadata={"year": 1999})
    item = collection.get("scene 5")
    assert (item.text, item.metadata) == (text, {"row": 5, "year": 1999})
    collection.update("scene 5", metadata={"row": None}, labels="sea| calm")
    item = collection.get("scene 5")
    assert (item.text, item.metadata, item.labels) == (text, {"year": 1999}, ("sea", "calm"))
    collection.update("scene 5", labels=world.record(5)["labels"])
    item = collection.get("scene 5")
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
    with pytest.raises(InputError, match="'words'. It would have neither an image nor a text"):
        collection.update("words", text="")


def test_update_is_atomic(uri, world, tmp_path):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(3)))
    before = collection.get("scene 1", FIELDS), collection.search(key="scene 1", k=3)
    with pytest.raises(InputError, match="Cannot update 'scene 1'. None of the terms in its text"):
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
    plain = updating_module.encode_records

    def encode(*given, **how):
        encoded = plain(*given, **how)
        monkeypatch.setattr(updating_module, "encode_records", plain)
        deed()
        return encoded

    monkeypatch.setattr(updating_module, "encode_records", encode)


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
    with pytest.raises(InputError, match="Cannot update 'scene 1'. No item has this key"):
        collection.update("scene 1", text=world.scenes.captions[40])
    assert len(collection) == 2


def test_many_updates_report_what_cannot_change(uri, world):
    collection = Collection.create(uri, world.model)
    collection.add([*world.records(range(6)), {"key": "words", "text": world.scenes.captions[9]}])
    changes = [
        {"key": "scene 0", "text": world.scenes.captions[40]},
        {"key": "nobody", "labels": ["x"]},
        {"key": "scene 1", "text": "xyzzy", "labels": ["lost"]},
        {"key": "scene 2", "metadata": {"row": 2}},
        {"key": "words", "text": ""},
        {"key": "scene 3", "labels": ["a"]},
        {"key": "scene 3", "metadata": {"year": 2015}},
    ]
    for batch in (3, 512):
        updated = collection.update_many(changes, batch=batch)
        assert set(updated.skipped) == {"nobody", "scene 1", "words"}
        assert updated.skipped["nobody"] == "No item has this key."
        assert (updated.updated, updated.unchanged) == ((3, 1) if batch == 3 else (0, 3))
    (number,) = collection.ids_of(["scene 0"]).values()
    assert same(collection.codes_of([number], "text")[number], world.codes("text")[40])
    assert same(collection.codes_of([number], "image")[number], world.codes("image")[0])
    assert list(collection.get("scene 1").labels) == world.record(1)["labels"]
    third = collection.get("scene 3")
    assert (third.labels, third.metadata) == (("a",), {"row": 3, "year": 2015})
    assert collection.get("words").text == world.scenes.captions[9]


def test_updates_last_until_the_record_changes(uri, world):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(3)))
    collection.update("scene 1", labels=["mine"], text=world.scenes.captions[40])
    assert collection.add(world.records(range(3))) == Added(unchanged=3)
    assert collection.get("scene 1").labels == ("mine",)
    assert collection.add([world.record(1, labels=["theirs"])]) == Added(updated=1)
    item = collection.get("scene 1")
    assert (item.labels, item.text) == (("theirs",), world.scenes.captions[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["a"]}, "Each change must have a 'key' that identifies an item, got None"),
        ({"key": 3}, "Each change must have a 'key' that identifies an item, got 3"),
        ({"key": "scene 0", "path": "x"}, "Cannot update 'path'"),
        ({"key": "scene 0", "metadata": ["x"]}, "metadata must be a dictionary"),
        ({"key": "scene 0", "metadata": {"labels": 1}}, "Invalid metadata field name 'labels'"),
        ({"key": "scene 0", "text": None}, "text must be a string"),
    ],
)
def test_invalid_change_changes_nothing(world, change, message):
    collection = Collection.create("memory:", world.model)
    collection.add(world.records(range(1)))
    before = collection.get("scene 0", FIELDS)
    with pytest.raises(InputError, match=message):
        collection.update_many([{"key": "scene 0", "text": "sea"}, change])
    assert collection.get("scene 0", FIELDS) == before
