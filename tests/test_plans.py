"""Plans in benchmarks/ are valid and give every method the same tuning budget."""

from pathlib import Path

import pytest

from corrhash.experiments.experiment import Experiment
from corrhash.experiments.plan import read_plan
from corrhash.experiments.result_files import load_results, load_trials
from corrhash.methods import METHODS

PLANS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.toml"))
UNMEASURED = {"chn", "chn-m", "chn-i", "chn-q", "chn-plus"}
"""Rows whose results can be missing from the committed file."""

PAPER = {"cvh", "imh", "cmssh", "rahh", "scm", "seph", "mmnn", "dcmh", "chn"}

WITHOUT_LABELS = {"cvh", "imh", "mmnn-pairs", "djsrh", "ucch", "chn-plus, pairs"}
WITH_LABELS = {"dcmh", "dchmt", "dsph", "chn", "chn-plus"}


PARTS = {"modern", "mirflickr_features", "pixels"}
"""Plans with some of the methods of the paper."""


@pytest.mark.parametrize(
    "path", [path for path in PLANS if path.stem not in PARTS], ids=lambda path: path.stem
)
def test_plan_has_methods_and_variants_of_the_paper(path):
    plan = read_plan(path)
    names = {row.name for row in plan.rows}
    assert names >= PAPER | {"chn-m", "chn-i", "chn-q", "chn-plus", "classifier"}
    assert {16, 32} <= set(plan.n_bits)
    assert all(len(tried) <= 8 for tried in plan.trials().values())
    unseen = any(experiment.unseen for experiment in plan.experiments({}))
    assert unseen != (path.stem == "mirflickr")  # the protocol of the paper has no unseen labels


def test_modern_plan_compares_methods_on_equal_terms():
    plan = read_plan(PLANS[0].parent / "modern.toml")
    assert {row.name for row in plan.rows} == WITHOUT_LABELS | WITH_LABELS
    assert plan.sources == ("mirflickr25k", "coco16k", "mirflickr25k-24", "coco6k")
    trials = plan.trials()
    assert set(trials) == {(d, r.name) for d in ("mirflickr25k", "coco16k") for r in plan.rows}
    assert all(1 < len(tried) <= 8 for tried in trials.values())
    supervision = {e.row: e.supervision for e in plan.experiments({})}
    assert supervision.pop("chn-plus, pairs") == "pairs"
    assert set(supervision.values()) == {"labels"}
    for row in WITHOUT_LABELS - {"chn-plus, pairs"}:
        assert not METHODS[row].needs_labels
    features = {
        (e.image_features, dict(e.options).get("text_features")) for e in plan.experiments({})
    }
    assert features == {
        ("features_efficientnet_lite0.npy", None),
        ("features_dinov2.npy", "features_minilm.npy"),
    }


def test_other_features_have_the_settings_chosen_on_alexnet_features():
    results = load_results(PLANS[0].parent / "results" / "mirflickr.json")
    chosen = {result.experiment.row: dict(result.experiment.params) for result in results}
    plan = read_plan(PLANS[0].parent / "mirflickr_features.toml")
    assert {row.name for row in plan.rows} == PAPER | {"chn-plus"}
    for experiment in plan.experiments({}):
        params = dict(experiment.params)
        expected = chosen[experiment.row]
        differing = {
            name for name in {*params, *expected} if params.get(name) != expected.get(name)
        }
        assert not differing, f"{experiment.row}: {differing}"


def test_pixel_plan_trains_alexnet_along():
    plan = read_plan(PLANS[0].parent / "pixels.toml")
    for experiment in plan.experiments({}):
        assert experiment.image_features == "raw"
        assert dict(experiment.params)["networks.image"] == "alexnet-pool5"


def test_scenes_plan_has_every_method():
    plan = read_plan(next(path for path in PLANS if path.stem == "scenes"))
    derived = {"chn-b"}  # CHN without binarization, part of every result
    assert {row.method for row in plan.rows} == set(METHODS) - derived


def test_committed_results_belong_to_their_plan():
    plan = read_plan(PLANS[0].parent / "coco.toml")
    results = PLANS[0].parent / "results" / "coco.json"
    experiments = [result.experiment for result in load_results(results)]
    settings = {(e.dataset, e.row): e.params for e in experiments}
    tuned = {key: dict(params) for key, params in settings.items() if key in plan.trials()}
    expected = plan.experiments(tuned)
    assert set(experiments) <= set(expected)
    missing = set(expected) - set(experiments)
    assert {experiment.row for experiment in missing} <= UNMEASURED
    trials = [Experiment.from_dict(trial["experiment"]) for trial in load_trials(results)]
    planned = [experiment for tried in plan.trials().values() for experiment in tried]
    assert set(trials) <= set(planned)
