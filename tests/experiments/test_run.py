"""run(): one experiment, its numbers and its files."""

import json
from dataclasses import replace

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.datasets import load_dataset
from corrhash.experiments.experiment import Experiment, settings
from corrhash.experiments.results import find_trial, load_results
from corrhash.experiments.run import run, try_settings
from corrhash.experiments.tuning import validation_map
from corrhash.methods.cvh import CVH
from corrhash.methods.trainer import Trainer
from corrhash.metrics import evaluate

SMALL = settings({"n": 900})
CELL = Experiment("synthetic", "cvh", 16, 1, options=SMALL, params=settings({"eps": 0.5}))
QUICK = {"training.epochs": 2, "networks.width": 16, "training.validate_every": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def result(folder):
    return run(CELL, folder)


@pytest.fixture(scope="module")
def by_hand():
    split = load_dataset("synthetic", seed=1, n=900)
    return split, CVH(16, eps=0.5).fit(split.train)


def test_the_numbers_are_those_of_evaluate(result, by_hand):
    split, hasher = by_hand
    labels = split.query.labels, split.database.labels
    scores = hasher.score_image(split.query.images), hasher.score_text(split.database.texts)
    by_code = evaluate(*map(Codes.from_scores, scores), *labels)
    assert result.map("image->text") == by_code.map
    assert result.map("image->text", "cosine") == evaluate(*scores, *labels).map
    new = ~split.train_in_database
    without = evaluate(
        Codes.from_scores(scores[0]), Codes.from_scores(scores[1][new]), labels[0], labels[1][new]
    )
    assert result.map_without_trained("image->text") == without.map
    aps = result.average_precisions("image->text")
    np.testing.assert_allclose(aps, by_code.average_precisions, rtol=1e-6)
    numbers = result.scores("image->text")
    assert numbers["n_database"] == len(split.database)
    assert numbers["n_distinct_database"] == by_code.n_distinct_database


def test_histograms_count_every_pair_once(result, by_hand):
    split, hasher = by_hand
    distances = hasher.encode_image(split.query.images).hamming(
        hasher.encode_text(split.database.texts)
    )
    shared = (split.query.labels @ split.database.labels.T).toarray() > 0
    for name, mask in (("similar", shared), ("dissimilar", ~shared)):
        expected = np.bincount(distances[mask], minlength=17)
        np.testing.assert_array_equal(result.arrays[f"image->text.{name}"], expected)
    ones = hasher.encode_text(split.database.texts).signs().mean(axis=0)
    np.testing.assert_allclose(result.arrays["text.bit_means"], ones)


def test_a_result_tells_what_it_rests_on(result):
    facts = json.loads(result.path.read_text())
    assert facts["params"] == {"n_bits": 16, "eps": 0.5}
    assert facts["method"] == "corrhash.methods.cvh:CVH"
    assert (
        facts["dataset"]["sizes"]["query"]
        == facts["directions"]["text->image"]["hamming"]["n_queries"]
    )
    assert len(facts["dataset"]["fingerprint"]) == len(facts["dataset"]["split"]) == 16
    assert 0.2 < facts["dataset"]["share_similar_training_pairs"] < 0.5
    assert facts["dataset"]["image_features"] == "ready vectors"
    assert facts["sign"].startswith("score > 0 gives +1")
    assert facts["directions"]["image->text"]["hamming"]["depth"] is None
    assert set(facts["seconds"]) == set(facts["peak_mb"]) == {"fit", "encode", "evaluate"}
    assert {"corrhash", "numpy", "torch", "python"} <= set(facts["versions"])


def test_a_result_is_read_again_and_not_computed_again(result, folder):
    before = result.path.stat().st_mtime_ns
    again = run(CELL, folder)
    assert again.map("text->image") == result.map("text->image")
    assert result.path.stat().st_mtime_ns == before
    assert [r.experiment for r in load_results(folder)] == [CELL]


def test_a_network_leaves_its_training_log(folder):
    cell = Experiment("synthetic", "chn", 8, 0, options=SMALL, params=settings(QUICK))
    result = run(cell, folder / "networks")
    np.testing.assert_array_equal(result.arrays["log.epoch"], [1, 2])
    assert np.isnan(result.arrays["log.validation_map"][0])
    assert result.arrays["log.validation_map"][1] == pytest.approx(
        result.facts["validation_map"], abs=1e-12
    )
    assert result.facts["params"]["training"]["checkpoint"] is None


def test_an_interrupted_training_on_pictures_goes_on(folder, monkeypatch):
    cell = Experiment("scenes", "chn", 8, 0, options=settings({"n": 120}), params=settings(QUICK))
    whole = run(cell, folder / "whole")
    assert whole.facts["dataset"]["image_features"] == "pictures"
    epochs, epoch = [], Trainer._epoch

    def noted(trainer, number):
        epochs.append(number)
        if epochs == [0, 1]:
            raise KeyboardInterrupt
        return epoch(trainer, number)

    monkeypatch.setattr(Trainer, "_epoch", noted)
    with pytest.raises(KeyboardInterrupt):
        run(cell, folder / "again")
    again = run(cell, folder / "again")
    assert epochs == [0, 1, 1]
    np.testing.assert_array_equal(
        again.average_precisions("text->image"), whole.average_precisions("text->image")
    )
    assert not (folder / "again" / ".unfinished").exists()


def test_the_own_length_of_a_classifier_is_the_number_of_labels(folder):
    own = settings({"own_length": True, "n_centres": 20, "ridge": 0.1})
    cell = Experiment("synthetic", "classifier", "labels", 0, options=SMALL, params=own)
    assert run(cell, folder / "own").n_bits == 12


def test_unseen_labels_are_asked_for(folder):
    cell = Experiment("synthetic", "cvh", 16, 1, options=SMALL, unseen=True)
    facts = run(cell, folder / "unseen").facts
    assert facts["dataset"]["n_labels"] == 3
    assert facts["dataset"]["sizes"]["train"] < 900 * 3 // 8


def test_settings_are_tried_on_validation_items_alone(folder, by_hand):
    split, hasher = by_hand
    trial = try_settings(CELL, folder / "tried")
    assert trial["validation_map"] == validation_map(hasher, split.train, split.validation)
    kept = find_trial(CELL, folder / "tried")
    assert kept["validation_map"] == trial["validation_map"]
    assert "directions" not in kept


def test_without_validation_items_a_method_is_measured_and_not_tuned(folder, tmp_path):
    """Files of ready features, as public code saves them, have no validation part."""
    random = np.random.default_rng(0)
    parts = {}
    for part, n in {"tr": 60, "te": 20}.items():
        parts[f"I_{part}"], parts[f"T_{part}"] = random.random((n, 6)), random.random((n, 5))
        parts[f"L_{part}"] = np.eye(4)[np.arange(n) % 4]
    np.savez(tmp_path / "a.npz", **parts)
    cell = Experiment(str(tmp_path / "a.npz"), "cvh", 4, 0)
    result = run(cell, folder)
    assert result.facts["validation_map"] is None
    assert np.isnan(result.map_without_trained("image->text"))  # the database is what it learned
    with pytest.raises(InputError, match="chosen on validation items, and .*a.npz has none"):
        try_settings(cell, folder)


def test_without_labels_nothing_is_trained_in_vain(folder, monkeypatch):
    split = load_dataset("synthetic", n=900)
    bare = replace(split, pairs=split.pairs.without_labels())
    monkeypatch.setattr("corrhash.experiments.run.load_split", lambda *_: bare)
    monkeypatch.setattr(CVH, "fit", lambda *_: pytest.fail("trained"))
    with pytest.raises(InputError, match="A study measures by labels, and synthetic has none"):
        run(Experiment("synthetic", "cvh", 8, 7, options=SMALL), folder)


def test_a_training_that_diverges_is_a_finding(folder):
    wild = settings({**QUICK, "training.learning_rate": 1e12})
    cell = Experiment("synthetic", "chn", 8, 0, options=SMALL, params=wild)
    trial = try_settings(cell, folder / "wild")
    assert trial["validation_map"] is None
    assert "diverged" in find_trial(cell, folder / "wild")["error"]
    with pytest.raises(InputError, match="diverged"):
        run(cell, folder / "wild")
