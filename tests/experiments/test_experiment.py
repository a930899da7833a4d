"""Experiments: their names change with every setting, and with nothing else."""

import json
from dataclasses import replace

import pytest

from corrhash import InputError
from corrhash.experiments.experiment import Experiment, grid, settings

ONE = Experiment("synthetic", "cvh", 16, 0, params=settings({"eps": 0.5}))


def test_the_row_is_called_as_its_method_unless_it_has_a_name():
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
        {"params": settings({"eps": 0.6})},
        {"options": settings({"n": 900})},
        {"image_features": "simple"},
        {"supervision": "pairs"},
        {"literal": True},
        {"unseen": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_field_changes_the_name(change):
    assert replace(ONE, **change).name != ONE.name


def test_the_order_of_settings_does_not_change_the_name():
    one, other = (
        Experiment("synthetic", "imh", 16, 0, params=settings(params))
        for params in ({"ridge": 1.0, "smoothness": 2.0}, {"smoothness": 2.0, "ridge": 1.0})
    )
    assert one.name == other.name


def test_the_name_is_fit_for_a_file_whatever_the_row_is_called():
    named = replace(ONE, row="chn, end to end / 2", dataset="../photos")
    assert set(named.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")


def test_an_experiment_comes_back_from_json():
    written = json.loads(json.dumps(replace(ONE, params=settings({"a": [1, 2]})).as_dict()))
    again = Experiment.from_dict(written)
    assert again == replace(ONE, params=(("a", (1, 2)),))
    with pytest.raises(InputError, match="An experiment has dataset"):
        Experiment.from_dict({"dataset": "synthetic"})


def test_a_grid_has_every_combination_and_same_data_stands_together():
    cells = grid(["a", "b"], ["cvh", "scm"], [16, 32], [0, 1], params={"cvh": {"eps": 1.0}})
    assert len(set(cells)) == 16
    assert [(e.dataset, e.seed) for e in cells[::4]] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert {e.params for e in cells if e.method == "cvh"} == {(("eps", 1.0),)}
    assert {e.params for e in cells if e.method == "scm"} == {()}


def test_a_length_that_no_code_has_is_refused():
    with pytest.raises(InputError, match="n_bits"):
        Experiment("synthetic", "cvh", 0, 0)
