"""Experiments: names that identify every setting, and loading of their data."""

import json
from dataclasses import replace

import numpy as np
import pytest

from corrhash import InputError
from corrhash.experiments import experiment as module
from corrhash.experiments.experiment import (
    Experiment,
    _feature_file,
    check_data,
    experiment_grid,
    image_features_of,
    load_split,
    parse_locations,
    settings,
)

ONE = Experiment("synthetic", "cvh", 16, 0, params=settings({"ridge": 0.5}))


def test_row_defaults_to_the_method():
    assert ONE.row == "cvh"
    assert Experiment("synthetic", "cvh", 16, 0, row="plain").row == "plain"


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "scenes"},
        {"method": "scm", "row": "cvh"},
        {"n_bits": 32},
        {"n_bits": "labels"},
        {"seed": 1},
        {"row": "other"},
        {"params": settings({"ridge": 0.6})},
        {"options": settings({"n": 900})},
        {"image_features": "simple"},
        {"supervision": "pairs"},
        {"paper_settings": True},
        {"unseen": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_name_depends_on_every_field(change):
    assert replace(ONE, **change).name != ONE.name


def test_name_ignores_the_order_of_settings():
    one, other = (
        Experiment("synthetic", "imh", 16, 0, params=settings(params))
        for params in ({"ridge": 1.0, "smoothness": 2.0}, {"smoothness": 2.0, "ridge": 1.0})
    )
    assert one.name == other.name


def test_name_is_a_valid_file_name():
    named = replace(ONE, row="chn, end to end / 2", dataset="../photos")
    assert set(named.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")


def test_json_round_trip():
    written = json.loads(json.dumps(replace(ONE, params=settings({"a": [1, 2]})).as_dict()))
    again = Experiment.from_dict(written)
    assert again == replace(ONE, params=(("a", (1, 2)),))
    with pytest.raises(InputError, match="An experiment has the fields dataset"):
        Experiment.from_dict({"dataset": "synthetic"})


def test_grid_has_every_combination_sorted_by_data():
    cells = experiment_grid(
        ["a", "b"], ["cvh", "scm"], [16, 32], [0, 1], params={"cvh": {"ridge": 1.0}}
    )
    assert len(set(cells)) == 16
    assert [(e.dataset, e.seed) for e in cells[::4]] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert {e.params for e in cells if e.method == "cvh"} == {(("ridge", 1.0),)}
    assert {e.params for e in cells if e.method == "scm"} == {()}


def test_zero_bits_are_rejected():
    with pytest.raises(InputError, match="n_bits"):
        Experiment("synthetic", "cvh", 0, 0)
    for seed in (-1, 0.5, True):
        with pytest.raises(InputError, match=f"A seed must be an integer >= 0, got {seed}"):
            Experiment("synthetic", "cvh", 16, seed)


def test_parse_locations():
    assert parse_locations(["a=b=c", "d=e"]) == {"a": "b=c", "d": "e"}
    for wrong in ("photos", "=DIR", "photos="):
        with pytest.raises(InputError, match="NAME=LOCATION"):
            parse_locations([wrong])


def test_missing_files_are_found_before_they_are_read(tmp_path):
    named = Experiment("photos", "cvh", 16, 0, image_features="features.npy")
    with pytest.raises(InputError, match="'photos' has no location. Pass --data photos=FOLDER"):
        check_data([named], {})
    with pytest.raises(InputError, match="is neither a dataset nor an existing file"):
        check_data([named], {"photos": str(tmp_path / "nowhere")})
    with pytest.raises(InputError, match=r"reads features.npy from the folder of photos"):
        check_data([named], {"photos": str(tmp_path)})
    (tmp_path / "features.npy").touch()
    check_data([named], {"photos": str(tmp_path)})
    published = Experiment("mirflickr25k", "cvh", 16, 0)
    with pytest.raises(InputError, match="Pass its folder: --data mirflickr25k=FOLDER"):
        check_data([published], {"mirflickr25k": str(tmp_path)})


def test_unknown_options_are_found_before_data_is_read():
    for options, message in (
        ({"m": 5}, "synthetic has no option 'm'. Valid options: n"),
        ({"texts.tpo": 5}, "Unknown text option 'tpo'"),
    ):
        experiment = Experiment("synthetic", "cvh", 16, 0, options=settings(options))
        with pytest.raises(InputError, match=message):
            check_data([experiment], {})


def test_features_lie_in_a_folder_that_the_plan_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    experiment = Experiment("photos", "cvh", 16, 0, image_features="features.npy")
    with pytest.raises(InputError, match=r"from the folder of photos, photos, which has no such"):
        check_data([experiment], {})
    (tmp_path / "photos" / "features.npy").touch()
    check_data([experiment], {})


def test_load_split_uses_location_options_and_seed():
    options = settings({"n": 780})
    one = load_split(Experiment("mine", "cvh", 16, 0, options=options), {"mine": "synthetic"})
    again = load_split(Experiment("mine", "scm", 32, 0, options=options), {"mine": "synthetic"})
    other = load_split(Experiment("synthetic", "cvh", 16, 1, options=options), {})
    assert len(one.pairs) == 780
    assert again is one
    assert not np.array_equal(other.pairs.images, one.pairs.images)


def test_image_features_default_to_those_of_the_method():
    assert image_features_of(Experiment("scenes", "cvh", 16, 0)) == "simple"
    assert image_features_of(Experiment("scenes", "chn", 16, 0)) == "raw"
    chosen = Experiment("scenes", "chn", 16, 0, image_features="simple")
    assert image_features_of(chosen) == "simple"


def test_feature_file_next_to_the_data_is_found(tmp_path):
    (tmp_path / "features.npy").touch()
    (tmp_path / "manifest.jsonl").touch()
    for location in (tmp_path, tmp_path / "manifest.jsonl"):
        assert _feature_file("features.npy", str(location)) == str(tmp_path / "features.npy")
    assert _feature_file("simple", str(tmp_path)) == "simple"


def test_location_of_a_named_dataset_is_its_root(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "load_dataset", lambda name, **given: calls.append((name, given)))
    load_split(Experiment("scenes", "chn", 16, 5), {"scenes": "DIR"})
    expected = {"seed": 5, "image_features": None, "root": "DIR"}
    assert calls == [("scenes", expected)]


def test_another_name_of_a_dataset_loads_its_source():
    small = settings({"n": 780})
    whole = load_split(Experiment("synthetic", "cvh", 16, 0, options=small), {})
    named = Experiment("other", "cvh", 16, 0, options=settings({"n": 780, "source": "synthetic"}))
    split = load_split(named, {})
    np.testing.assert_array_equal(split.pairs.images, whole.pairs.images)
    np.testing.assert_array_equal(split.query_rows, whole.query_rows)


def test_text_features_replace_the_texts(tmp_path):
    features = np.random.default_rng(0).normal(size=(300, 5))
    np.save(tmp_path / "texts.npy", features)
    options = settings({"n": 300, "text_features": str(tmp_path / "texts.npy")})
    split = load_split(Experiment("scenes", "cvh", 16, 0, options=options), {})
    np.testing.assert_array_equal(split.pairs.texts, features.astype(np.float32))
    np.save(tmp_path / "texts.npy", features[1:])
    module._load.cache_clear()
    with pytest.raises(InputError, match="has 299 rows, but the dataset has 300 items"):
        load_split(Experiment("scenes", "cvh", 16, 0, options=options), {})


def test_text_features_are_found_next_to_the_data(tmp_path):
    rows = [
        {"image": f"{i}.jpg", "text": f"word{i % 5}", "labels": [f"l{i % 2}"]} for i in range(40)
    ]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)))
    features = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    np.save(tmp_path / "images.npy", features)
    np.save(tmp_path / "texts.npy", -features)
    experiment = Experiment(
        "photos, embeddings",
        "cvh",
        16,
        0,
        options=settings({"source": "photos", "text_features": "texts.npy"}),
        image_features="images.npy",
    )
    pairs = load_split(experiment, {"photos": str(tmp_path)}).pairs
    np.testing.assert_array_equal(pairs.images, features)
    np.testing.assert_array_equal(pairs.texts, -features)
