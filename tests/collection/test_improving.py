"""Improving a collection: learning from judgments, generations, restoring, crashes."""

import base64
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corrhash import InputError, StorageError
from corrhash.calibration import calibrate
from corrhash.collection import Collection, Judgment
from corrhash.collection.improving import _calibrate, _exclusive, improve, restore
from corrhash.collection.item_inputs import ItemInputs, judged_data
from corrhash.datasets import load_dataset
from corrhash.index.sqlite_staging import Staging
from corrhash.methods.fine_tuning import NO_ROW, FineTuning, fine_tune
from corrhash.model import TrainingRun
from tests.collection.photos import Photos

QUICK = FineTuning(steps=3, learning_rate=3e-3)
KILLS = int(os.environ.get("CORRHASH_KILLS", "3"))
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def photos():
    return Photos()


@pytest.fixture
def judged(photos, tmp_path):
    collection = photos.collection(tmp_path / "c")
    photos.judge(collection)
    return collection


@pytest.fixture
def better(monkeypatch):
    """Skip the validation: every new model counts as better."""
    monkeypatch.setattr("corrhash.collection.improving._validate", lambda *_: (0.5, 0.6))


def codes(collection):
    """All codes and continuous codes of a collection, by key and modality."""
    found = {}
    for entries in collection.index.batches():
        for modality, of_modality in entries.codes.items():
            for row, code in zip(entries.rows[modality], of_modality.packed, strict=True):
                item = entries.items[row]
                continuous = getattr(item, f"{modality}_continuous")
                found[item.key, modality] = code.tobytes(), continuous
    return found


def expected_codes(model, collection, photos):
    """The codes that a model gives to the records of a collection."""
    fresh = Collection.create("memory:", model, store_continuous=collection.stores_continuous)
    fresh.add(record for record in photos.records if record.key in collection.ids_of([record.key]))
    return codes(fresh)


@pytest.mark.parametrize("store_continuous", [False, True])
def test_improvement_encodes_all_items_with_the_new_model(
    better, photos, tmp_path, store_continuous
):
    collection = photos.collection(tmp_path / "c", store_continuous=store_continuous)
    photos.judge(collection)
    before = codes(collection)
    found = improve(collection, photos.records, QUICK)
    assert (found.switched, found.generation) == (True, 1)
    assert (found.n_judgments, found.n_queries) == (120, 12)
    assert collection.model.fingerprint != photos.model.fingerprint
    after = codes(collection)
    assert after == expected_codes(collection.model, collection, photos)
    assert after != before
    collection.index.verify()
    again = Collection.open(collection.uri)
    assert again.model.fingerprint == collection.model.fingerprint
    assert restore(again, photos.records) == 2
    assert codes(again) == before
    assert collection.search(key="pair 5", k=3) == again.search(key="pair 5", k=3)
    assert collection.model.fingerprint == photos.model.fingerprint
    again.index.verify()
    assert restore(again, photos.records) == 3
    assert codes(again) == after


def test_items_added_after_an_improvement_are_restored_too(better, judged, photos):
    improve(judged, photos.records, QUICK)
    judged.add(photos.records[200:220])
    judged.update(photos.records[0].key, labels=["new"])
    judged.delete([photos.records[1].key])
    restore(judged, photos.records)
    assert codes(judged) == expected_codes(photos.model, judged, photos)
    assert len(judged) == 219


def test_worse_model_changes_nothing(judged, photos, monkeypatch):
    before, about = codes(judged), dict(judged.index.about)
    monkeypatch.setattr("corrhash.collection.improving._validate", lambda *_: (0.7, 0.7))
    found = improve(judged, photos.records, QUICK)
    assert not found.switched
    assert found.generation == 0
    assert (codes(judged), judged.index.about) == (before, about)
    with pytest.raises(InputError, match="no previous model to restore"):
        restore(judged)


def test_second_improvement_validates_on_new_judgments(judged, photos, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("corrhash.collection.improving._validate", lambda *_: (0.5, 0.6))
        improve(judged, photos.records, QUICK)
    with pytest.raises(InputError, match=r"at least 3 queries, got 0"):
        improve(judged, photos.records, QUICK)
    photos.judge(judged, first=20)
    before = codes(judged)
    second = improve(judged, photos.records, QUICK)
    assert second.n_queries == 24
    assert 0 < second.before < 1
    assert second.switched == (second.after > second.before)
    assert (codes(judged) != before) == second.switched


def test_searches_go_on_and_never_mix_generations(better, judged, photos):
    """Another process' collection answers from the old model and codes, or from the new ones."""
    other, key = Collection.open(judged.uri), photos.records[7].key
    term_vector = photos.split.query.texts[:1]

    def ask(collection):
        return [(m.key, m.distance, m.score) for m in collection.search(term_vector, k=20)[0]]

    answers, done = [ask(other)], threading.Event()

    def search():
        while not done.is_set():
            answers.append(ask(other))

    thread = threading.Thread(target=search)
    thread.start()
    improve(judged, photos.records, QUICK)
    restore(judged, photos.records)
    restore(judged, photos.records)
    done.set()
    thread.join()
    new = ask(judged)
    assert ask(other) == new
    assert {tuple(answer) for answer in answers} <= {tuple(answers[0]), tuple(new)}
    assert other.search(key=key) == judged.search(key=key)


def test_writes_during_the_switch_use_the_new_model(better, judged, photos, monkeypatch):
    """Items that another process adds while all others are encoded get codes of the new model."""
    other, exchange, late = Collection.open(judged.uri), Staging.exchange, iter([200, 230])

    def exchange_late(staging, **about):
        start = next(late, None)
        if start is not None:
            other.add(photos.records[start : start + 30])
            other.update(photos.records[3].key, metadata={"year": start})
        return exchange(staging, **about)

    monkeypatch.setattr(Staging, "exchange", exchange_late)
    improve(judged, photos.records, QUICK)
    other.add(photos.records[260:270])  # encoded with the old model first
    assert len(judged) == 270
    assert codes(judged) == expected_codes(judged.model, judged, photos)
    assert codes(other) == codes(judged)


class Stopped(BaseException):
    """Stands for the death of the process."""


@pytest.mark.parametrize("moment", range(6))
def test_interrupted_improvement_is_resumed(better, judged, photos, monkeypatch, moment):
    """The process ends at some step; the old generation answers, and the next run completes."""
    before, trained = codes(judged), []
    steps = ["save", "start", "stage", "stage", "exchange", "clean"]
    count = {"stage": 3 if moment == 3 else 1}
    place = {
        "save": "corrhash.model.Model.save",
        "clean": "corrhash.collection.improving._clean",
    }.get(steps[moment], f"corrhash.index.sqlite_staging.Staging.{steps[moment]}")
    monkeypatch.setattr("corrhash.collection.improving.BATCH", 50)

    def stop(*_, **__):
        raise Stopped

    with monkeypatch.context() as patch:
        original = Staging.stage

        def stage_some(*arguments):
            count["stage"] -= 1
            if not count["stage"]:
                raise Stopped
            return original(*arguments)

        patch.setattr(place, stage_some if steps[moment] == "stage" else stop)
        with pytest.raises(Stopped):
            improve(judged, photos.records, QUICK)
    fresh = Collection.open(judged.uri)
    fresh.index.verify()
    if steps[moment] == "clean":  # the switch was complete
        assert codes(fresh) == expected_codes(fresh.model, fresh, photos) != before
        return
    assert codes(fresh) == before
    assert fresh.search(key="pair 5", k=3)
    monkeypatch.setattr(
        "corrhash.collection.improving.fine_tune",
        lambda *given: trained.append(given) or fine_tune(*given),
    )
    found = improve(fresh, photos.records, QUICK)
    assert found.switched
    assert codes(fresh) == expected_codes(fresh.model, fresh, photos)
    assert bool(trained) == (moment < 2)  # the trained model is kept


def test_killed_process_leaves_one_generation(better, judged, photos):
    """SIGKILL at random moments of switches: model and codes always belong together."""
    improve(judged, photos.records, QUICK)
    models = [judged.model, photos.model]
    expected = {m.fingerprint: expected_codes(m, judged, photos) for m in models}
    rng, seen = np.random.default_rng(0), set()
    for _ in range(KILLS):
        command = [sys.executable, "-m", "tests.collection.switching", judged.uri]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout.readline()  # the first switch
        time.sleep(rng.uniform(0, 0.3))
        child.kill()
        child.communicate()
        found = Collection.open(judged.uri)
        found.index.verify()
        assert codes(found) == expected[found.model.fingerprint]
        seen.add(found.model.fingerprint)
        assert judged.search(key="pair 5") == found.search(key="pair 5")
    assert len(seen) == 2 or KILLS < 10


def test_new_judgments_make_an_interrupted_model_outdated(better, judged, photos, monkeypatch):
    def stop(*_, **__):
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(Staging, "exchange", stop)
        with pytest.raises(Stopped):
            improve(judged, photos.records, QUICK)
    photos.judge(judged, first=30)
    assert improve(judged, photos.records, QUICK).n_queries == 24


def test_only_network_methods_in_folders_are_improved(filled, world, photos):
    filled.judge("boat", item="scene 1", fits=True)
    with pytest.raises(InputError, match=r"This model \(CVH\) cannot be fine-tuned"):
        improve(filled)
    with pytest.raises(InputError, match="Only a collection in a folder"):
        improve(photos.collection("memory:"))


def test_unknown_feature_vectors_name_the_way_out(judged):
    with pytest.raises(InputError, match="Pass the source of the collection"):
        improve(judged)


def test_two_improvements_exclude_each_other(judged, photos):
    with _exclusive(judged), pytest.raises(InputError, match="Another process is improving"):
        improve(Collection.open(judged.uri), photos.records)


def test_damaged_staged_codes_are_encoded_again(better, judged, photos, monkeypatch):
    exchange, results = Staging.exchange, []

    def damage(staging, **about):
        if not results:
            with staging.index._reading() as connection:
                connection.execute("UPDATE staged_codes SET image = zeroblob(2) WHERE id = 3")
        results.append(exchange(staging, **about))
        return results[-1]

    monkeypatch.setattr(Staging, "exchange", damage)
    improve(judged, photos.records, QUICK)
    assert results == [False, True]
    judged.index.verify()
    assert codes(judged) == expected_codes(judged.model, judged, photos)


def test_item_that_cannot_be_encoded_again_keeps_the_old_codes(better, judged, photos, monkeypatch):
    before = codes(judged)
    monkeypatch.setattr(ItemInputs, "texts", lambda *_: (np.empty(0, np.int64), None))
    with pytest.raises(StorageError, match="Item 0 cannot be encoded again"):
        improve(judged, photos.records, QUICK)
    assert codes(judged) == before


def test_items_that_all_change_while_encoded_are_encoded_again(better, judged, photos, monkeypatch):
    stage, keys = Staging.stage, [record.key for record in photos.records[:200]]
    changes = iter([[{"key": key, "metadata": {"year": 2026}} for key in keys]])

    def change_first(*given):
        judged.update_many(next(changes, []))
        return stage(*given)

    monkeypatch.setattr(Staging, "stage", change_first)
    assert improve(judged, photos.records, QUICK).switched
    assert codes(judged) == expected_codes(judged.model, judged, photos)


def test_judgments_during_the_training_stay_new(better, judged, photos, monkeypatch):
    def judge_meanwhile(*given):
        photos.judge(judged, first=20)
        return fine_tune(*given)

    with monkeypatch.context() as patch:
        patch.setattr("corrhash.collection.improving.fine_tune", judge_meanwhile)
        assert improve(judged, photos.records, QUICK).n_queries == 12
    assert judged.index.about["judged"] == 120
    assert improve(judged, photos.records, QUICK).n_queries == 24


def test_collection_without_texts_is_improved(photos, tmp_path):
    records = [replace(record, term_vector=None) for record in photos.records[:60]]
    collection = Collection.create(tmp_path / "c", photos.model)
    collection.add(records)
    keys = [record.key for record in records]
    collection.add_judgments(
        Judgment("key", keys[row], keys[row + 10], -1 if row % 2 else 1) for row in range(6)
    )
    found = improve(collection, records, QUICK)  # no query has items to rank
    assert (found.switched, found.before) == (False, found.after)
    collection.add_judgments(
        Judgment("key", keys[row], keys[row + 20], 1 if row % 2 else -1) for row in range(6)
    )
    assert improve(collection, records, QUICK).n_judgments == 12


def test_judged_texts_and_unknown_features(judged, photos):
    """A judgment of a found text is about the text; features of another encoder are skipped."""
    keys = [record.key for record in photos.records]
    wrong = base64.b64encode(np.zeros(3, np.float16)).decode()
    judgments = [
        Judgment("key", keys[0], keys[1], 1, "image"),
        Judgment("key", keys[0], keys[1], -1, "text"),
        Judgment("image", "checksum", keys[1], 1, features=wrong),
    ]
    inputs = ItemInputs(judged.index, photos.model, photos.records)
    widths = photos.model.hasher.inputs_
    (query,) = judged_data(judgments, inputs, [True] * 3, widths).queries
    by_image, by_text = query.items
    assert (by_image.verdict, by_text.verdict) == (1, -1)
    assert by_image.image != NO_ROW
    assert (by_text.image, by_text.text) == (NO_ROW, by_image.text)


def test_new_model_is_calibrated_on_the_data_of_the_original(
    better, photos, tmp_path, monkeypatch, caplog
):
    split = load_dataset("synthetic", n=2340)
    monkeypatch.setattr(photos, "model", calibrated(photos.model, split))
    collection = photos.collection(tmp_path / "c")
    photos.judge(collection)
    improve(collection, photos.records, QUICK)
    assert caplog.text == ""
    found, expected = collection.model.calibration, calibrate(collection.model.hasher, split)
    for name, direction in expected.directions.items():
        for measure, table in direction.tables.items():
            np.testing.assert_array_equal(found.directions[name].tables[measure], table)
    query, options = split.query.texts[:1], {"min_probability": 0.01}
    assert collection.search(query, **options)[0][0].probability > 0.01
    other = TrainingRun("synthetic", options={"n": 2500})
    for training, reason in ((other, "have changed"), (TrainingRun("/gone"), "/gone")):
        model = replace(photos.model, training=training)
        assert _calibrate(model, model.hasher) is None
        assert "will have no probability of relevance" in caplog.text
        assert reason in caplog.text
    assert _calibrate(replace(model, calibration=None), model.hasher) is None


def calibrated(model, split):
    training = TrainingRun("synthetic", options={"n": len(split.pairs)})
    return replace(model, calibration=calibrate(model.hasher, split), training=training)


def test_images_without_files_are_read_from_previews(world, caplog):
    collection = Collection.create("memory:", world.model)
    collection.add({"key": f"{row}", "image": world.scenes.images[row]} for row in range(4))
    inputs = ItemInputs(collection.index, world.model)
    with caplog.at_level("INFO", "corrhash"):
        for ids in ([0, 1], [2, 3]):
            rows, vectors = inputs.images(np.array(ids))
            expected = world.reader.read_images(world.scenes.images[ids])
            assert rows.tolist() == [0, 1]
            assert np.corrcoef(vectors.ravel(), expected.ravel())[0, 1] > 0.99
    assert caplog.text.count("previews are used instead") == 1
    code = collection.codes_of([0], "image")[0]
    collection.add([{"key": "ready", "image_code": code}])
    with pytest.raises(InputError, match="image of 'ready' .* stores only its code"):
        inputs.images(np.array([4]))
