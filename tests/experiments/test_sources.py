"""Sources: where data and features are found."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.experiments import sources
from corrhash.experiments.experiment import Experiment, settings
from corrhash.experiments.sources import _found, image_features_of, load_split, parse_places


def test_places_are_named():
    assert parse_places(["a=b=c", "d=e"]) == {"a": "b=c", "d": "e"}
    for wrong in ("photos", "=DIR", "photos="):
        with pytest.raises(InputError, match="NAME=PLACE"):
            parse_places([wrong])


def test_a_dataset_is_loaded_from_its_place_with_its_options_and_seed():
    options = settings({"n": 780})
    one = load_split(Experiment("mine", "cvh", 16, 0, options=options), {"mine": "synthetic"})
    again = load_split(Experiment("mine", "scm", 32, 0, options=options), {"mine": "synthetic"})
    other = load_split(Experiment("synthetic", "cvh", 16, 1, options=options), {})
    assert len(one.pairs) == 780
    assert again is one
    assert not np.array_equal(other.pairs.images, one.pairs.images)


def test_the_experiment_says_what_pictures_become_or_else_the_method():
    assert image_features_of(Experiment("scenes", "cvh", 16, 0)) == "simple"
    assert image_features_of(Experiment("scenes", "chn", 16, 0)) == "pictures"
    chosen = Experiment("scenes", "chn", 16, 0, image_features="simple")
    assert image_features_of(chosen) == "simple"


def test_a_file_of_features_beside_the_data_is_found(tmp_path):
    (tmp_path / "features.npy").touch()
    (tmp_path / "manifest.jsonl").touch()
    for place in (tmp_path, tmp_path / "manifest.jsonl"):
        assert _found("features.npy", str(place)) == str(tmp_path / "features.npy")
    assert _found("simple", str(tmp_path)) == "simple"


def test_the_place_of_a_dataset_of_the_table_is_its_root(monkeypatch):
    asked = []
    monkeypatch.setattr(sources, "load_dataset", lambda name, **given: asked.append((name, given)))
    load_split(Experiment("scenes", "chn", 16, 5), {"scenes": "DIR"})
    expected = {"seed": 5, "image_features": None, "root": "DIR"}
    assert asked == [("scenes", expected)]
