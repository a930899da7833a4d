"""Runs of one experiment: metrics, facts, resuming, tuning trials."""

import json
import logging
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.datasets import load_dataset
from corrhash.experiments import runner
from corrhash.experiments.evaluation import validation_map
from corrhash.experiments.experiment import Experiment, settings
from corrhash.experiments.options import new_hasher
from corrhash.experiments.result_files import find_trial, load_results
from corrhash.experiments.runner import Stopwatch, capture_warnings, run, try_settings
from corrhash.methods.chn import CHN
from corrhash.methods.cvh import CVH
from corrhash.metrics import evaluate
from corrhash.training.trainer import Trainer


def test_stages_have_seconds_and_peak_memory():
    watch = Stopwatch()
    with watch.stage("large"):
        np.ones(20_000_000).sum()  # 160 MB
        time.sleep(0.05)
    with watch.stage("small"):
        pass
    assert watch.seconds["large"] > 0.05 > watch.seconds["small"]
    if runner.RESET.exists():
        assert watch.peak_mb["large"] > watch.peak_mb["small"] + 100


def test_peak_memory_without_proc(monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "STATUS", tmp_path / "missing")
    monkeypatch.setattr(runner, "RESET", tmp_path / "missing" / "too")
    watch = Stopwatch()
    with watch.stage("any"):
        pass
    assert watch.peak_mb["any"] > 10


def test_each_warning_is_kept_once():
    log = logging.getLogger("corrhash")
    with capture_warnings() as notes:
        for _ in range(2):
            log.warning("Only %d codes.", 9)
            warnings.warn("slow", stacklevel=1)
        log.info("all is well")
    assert notes == ["Only 9 codes.", "slow"]


def test_log_handlers_are_restored_after_an_error():
    log = logging.getLogger("corrhash")
    before = log.handlers
    with pytest.raises(ZeroDivisionError), capture_warnings():
        raise ZeroDivisionError
    assert log.handlers is before


SMALL = settings({"n": 900})
EXPERIMENT = Experiment("synthetic", "cvh", 16, 1, options=SMALL, params=settings({"ridge": 0.5}))
QUICK = {"training.epochs": 2, "networks.width": 16, "training.validate_every": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def result(folder):
    return run(EXPERIMENT, folder)


@pytest.fixture(scope="module")
def by_hand():
    split = load_dataset("synthetic", seed=1, n=900)
    return split, CVH(16, ridge=0.5).fit(split.train)


def test_metrics_equal_those_of_evaluate(result, by_hand):
    split, hasher = by_hand
    labels = split.query.labels, split.database.labels
    continuous = hasher.embed_image(split.query.images), hasher.embed_text(split.database.texts)
    by_hamming = evaluate(*map(Codes.from_continuous, continuous), *labels)
    assert result.map("image->text") == by_hamming.map
    assert result.map("image->text", "cosine") == evaluate(*continuous, *labels).map
    new = ~split.train_in_database
    without = evaluate(
        Codes.from_continuous(continuous[0]),
        Codes.from_continuous(continuous[1][new]),
        labels[0],
        labels[1][new],
    )
    assert result.map_without_trained("image->text") == without.map
    aps = result.average_precisions("image->text")
    np.testing.assert_allclose(aps, by_hamming.average_precisions, rtol=1e-6)
    metrics = result.scores("image->text")
    assert metrics["n_database"] == len(split.database)
    assert metrics["n_distinct_database"] == by_hamming.n_distinct_database
    assert metrics["precision_at_1"] == by_hamming.precision_at[1]
    assert metrics["precision_at_10"] == by_hamming.precision_at[10]


def test_distance_histograms_count_every_pair_once(result, by_hand):
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


def test_result_states_its_data_and_settings(result, folder):
    facts = json.loads((folder / f"{EXPERIMENT.name}.json").read_text())
    assert facts["params"] == {"n_bits": 16, "ridge": 0.5}
    assert facts["method"] == "corrhash.methods.cvh:CVH"
    assert (
        facts["dataset"]["sizes"]["query"]
        == facts["directions"]["text->image"]["hamming"]["n_queries"]
    )
    assert len(facts["dataset"]["fingerprint"]) == len(facts["dataset"]["split"]) == 16
    assert 0.2 < facts["dataset"]["share_similar_training_pairs"] < 0.5
    assert facts["dataset"]["image_features"] == "feature vectors"
    assert facts["sign"] == "+1 above 0, otherwise -1"
    assert facts["directions"]["image->text"]["hamming"]["depth"] is None
    assert set(facts["seconds"]) == set(facts["peak_mb"]) == {"fit", "encode", "evaluate"}
    assert {"corrhash", "numpy", "torch", "python"} <= set(facts["versions"])


def test_stored_result_is_not_computed_again(result, folder):
    path = folder / f"{EXPERIMENT.name}.json"
    before = path.stat().st_mtime_ns
    again = run(EXPERIMENT, folder)
    assert again.map("text->image") == result.map("text->image")
    assert path.stat().st_mtime_ns == before
    assert [r.experiment for r in load_results(folder)] == [EXPERIMENT]


def test_training_log_of_a_network_is_stored(folder):
    experiment = Experiment("synthetic", "chn", 8, 0, options=SMALL, params=settings(QUICK))
    result = run(experiment, folder / "networks")
    np.testing.assert_array_equal(result.arrays["log.epoch"], [1, 2])
    split = load_dataset("synthetic", **dict(SMALL))
    hasher = new_hasher(CHN, 8, QUICK).fit(split.train, validation=split.validation)
    log = hasher.history_
    assert [entry.get("validation_map") for entry in log] == [None, log[1]["validation_map"]]
    assert np.isnan(result.arrays["log.validation_map"][0])
    assert result.arrays["log.validation_map"][1] == log[1]["validation_map"]
    assert result.facts["validation_map"] == pytest.approx(
        validation_map(hasher, split.validation), abs=1e-12
    )
    assert result.facts["params"]["training"]["checkpoint"] is None


def test_interrupted_training_on_images_resumes(folder, monkeypatch):
    experiment = Experiment(
        "scenes", "chn", 8, 0, options=settings({"n": 120}), params=settings(QUICK)
    )
    whole = run(experiment, folder / "whole")
    assert whole.facts["dataset"]["image_features"] == "raw"
    epochs, epoch = [], Trainer._epoch

    def interrupted(trainer, number):
        epochs.append(number)
        if epochs == [0, 1]:
            raise KeyboardInterrupt
        return epoch(trainer, number)

    monkeypatch.setattr(Trainer, "_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(experiment, folder / "again")
    again = run(experiment, folder / "again")
    assert epochs == [0, 1, 1]
    np.testing.assert_array_equal(
        again.average_precisions("text->image"), whole.average_precisions("text->image")
    )
    assert not (folder / "again" / ".unfinished").exists()


def test_one_bit_per_label(folder):
    own = settings({"one_bit_per_label": True, "n_centres": 20, "ridge": 0.1})
    experiment = Experiment("synthetic", "classifier", "labels", 0, options=SMALL, params=own)
    assert run(experiment, folder / "own").n_bits == 12


def test_evaluation_on_unseen_labels(folder):
    experiment = Experiment("synthetic", "cvh", 16, 1, options=SMALL, unseen=True)
    facts = run(experiment, folder / "unseen").facts
    assert facts["dataset"]["n_labels"] == 3
    assert facts["dataset"]["sizes"]["train"] < 900 * 3 // 8


def test_trials_use_validation_items_only(folder, by_hand):
    split, hasher = by_hand
    trial = try_settings(EXPERIMENT, folder / "tried")
    assert trial["validation_map"] == validation_map(hasher, split.validation)
    kept = find_trial(EXPERIMENT, folder / "tried")
    assert kept["validation_map"] == trial["validation_map"]
    assert "directions" not in kept


def test_dataset_without_validation_items_is_not_tuned(folder, tmp_path):
    """Feature files of public code often have no validation part."""
    random = np.random.default_rng(0)
    parts = {}
    for part, n in {"tr": 60, "te": 20}.items():
        parts[f"I_{part}"], parts[f"T_{part}"] = random.random((n, 6)), random.random((n, 5))
        parts[f"L_{part}"] = np.eye(4)[np.arange(n) % 4]
    np.savez(tmp_path / "a.npz", **parts)
    experiment = Experiment(str(tmp_path / "a.npz"), "cvh", 4, 0)
    result = run(experiment, folder)
    assert result.facts["validation_map"] is None
    assert np.isnan(result.map_without_trained("image->text"))  # the database is the training set
    with pytest.raises(InputError, match="Tuning needs validation items, and .*a.npz has none"):
        try_settings(experiment, folder)


def test_dataset_without_labels_fails_before_training(folder, monkeypatch):
    split = load_dataset("synthetic", n=900)
    bare = replace(split, pairs=split.pairs.without_labels())
    monkeypatch.setattr("corrhash.experiments.runner.load_split", lambda *_: bare)
    monkeypatch.setattr(CVH, "fit", lambda *_: pytest.fail("trained"))
    with pytest.raises(InputError, match="needs labels for evaluation, and synthetic has none"):
        run(Experiment("synthetic", "cvh", 8, 7, options=SMALL), folder)


def test_diverged_training_is_stored_as_a_trial(folder):
    wild = settings({**QUICK, "training.learning_rate": 1e12})
    experiment = Experiment("synthetic", "chn", 8, 0, options=SMALL, params=wild)
    trial = try_settings(experiment, folder / "wild")
    assert trial["validation_map"] is None
    assert "diverged" in find_trial(experiment, folder / "wild")["error"]
    with pytest.raises(InputError, match="diverged"):
        run(experiment, folder / "wild")
