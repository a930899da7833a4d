"""Damaged files give the same answers, errors, or answers without items that are reported."""

import random

import pytest
from tools.corruption import KINDS, Rounds, ask_collection, ask_model, make_collection, make_model

from corrhash import Collection, InputError
from corrhash.collection.repairing import repair


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corruption")
    make_model(folder / "model")
    make_collection(folder / "collection", folder / "model", folder / "old")
    return folder


def test_damaged_collections_give_no_wrong_answers(folder):
    rounds = Rounds(folder / "collection", ask_collection, folder / "old")
    for number in range(24):
        rounds.run(number)
    assert rounds.failures == []
    assert rounds.counts["error"] > 5
    assert rounds.counts["unharmed"] > 0


def test_damaged_models_give_no_wrong_codes(folder):
    rounds = Rounds(folder / "model", ask_model)
    for number in range(16):
        rounds.run(number)
    assert rounds.failures == []
    assert rounds.counts["error"] > 5


def test_every_kind_of_damage_changes_a_file():
    content = random.Random(0).randbytes(10_000)
    for kind in KINDS:
        assert any(kind(content, random.Random(seed)) != content for seed in range(9))


def test_whole_collections_are_repaired_completely(folder, tmp_path):
    repaired = repair(folder / "collection", tmp_path / "new")
    assert (repaired.n_items, repaired.problems) == (59, [])
    before, _ = ask_collection(folder / "collection")
    assert ask_collection(tmp_path / "new")[0] == before


def test_repair_keeps_what_is_whole(folder, tmp_path):
    collection = Collection.open(folder / "old")
    number = collection.ids_of(["scene 4"])["scene 4"]
    copy = collection.copy_to(tmp_path / "c")
    with copy.index._reading() as connection:
        connection.execute("UPDATE items SET text = 'changed' WHERE id = ?", (number,))
        connection.execute("UPDATE thumbnails SET jpeg = x'00' WHERE id = ?", (number + 1,))
    repaired = repair(tmp_path / "c", tmp_path / "new")
    assert repaired.problems == [
        f"Item {number}: its row is damaged.",
        f"Item {number + 1}: its thumbnails are damaged.",
    ]
    assert repaired.n_items == len(repaired.collection) == len(collection) - 1
    assert repaired.collection.get("scene 5", ["thumbnail"]).thumbnail is None
    repaired.collection.index.verify()


def test_repair_needs_a_collection_and_its_model(folder, tmp_path):
    with pytest.raises(InputError, match="No collection at"):
        repair(tmp_path, tmp_path / "new")
    make_model(tmp_path / "other")
    from corrhash import Reader
    from corrhash.model import Model, load_model

    other = Model(load_model(tmp_path / "other").hasher, Reader())
    with pytest.raises(InputError, match="the fingerprints differ. Pass the original model"):
        repair(folder / "old", tmp_path / "new", other)
