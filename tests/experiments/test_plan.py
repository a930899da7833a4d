"""Plans: a file becomes experiments, and mistakes are found before anything runs."""

import pytest

from corrhash import InputError
from corrhash.experiments.plan import configurations, parse_plan, read_plan

PLAN = """
datasets = ["synthetic"]
methods = ["cvh", "chn", "own"]
n_bits = [16, 32]
seeds = [3, 4]

[data.synthetic]
n = 900
image_features = "simple"

[params.chn]
"training.epochs" = 2

[grid.chn]
"training.learning_rate" = [1e-3, 1e-2]

[rows.own]
method = "classifier"
n_bits = ["labels"]
seeds = [3]
image_features = "raw"

[params.own]
one_bit_per_label = true

[unseen]
methods = ["chn"]
n_bits = [32]
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    return read_plan(tmp_path / "plan.toml")


def test_rows_have_their_code_lengths_and_seeds(plan):
    cells = plan.experiments({})
    seen = [(e.row, e.n_bits, e.seed) for e in cells if not e.unseen]
    expected = [(row, b, s) for row in ("cvh", "chn") for b in (16, 32) for s in (3, 4)]
    assert sorted(map(str, seen)) == sorted(map(str, [*expected, ("own", "labels", 3)]))
    unseen = [(e.row, e.n_bits, e.seed) for e in cells if e.unseen]
    assert unseen == [("chn", 32, 3), ("chn", 32, 4)]
    own = next(e for e in cells if e.row == "own")
    assert (own.method, own.image_features) == ("classifier", "raw")
    assert dict(own.options) == {"n": 900}
    assert {e.image_features for e in cells if e.row == "cvh"} == {"simple"}


def test_experiments_are_sorted_by_data(plan):
    cells = plan.experiments({})
    groups = [(e.unseen, e.seed, e.image_features) for e in cells]
    assert groups == sorted(groups)


def test_trials_use_32_bits_and_the_first_seed(plan):
    trials = plan.trials()
    assert set(trials) == {("synthetic", name) for name in ("cvh", "chn", "own")}
    chn = trials["synthetic", "chn"]
    assert {(e.n_bits, e.seed) for e in chn} == {(32, 3)}
    assert [dict(e.params)["training.learning_rate"] for e in chn] == [1e-3, 1e-2]
    assert {dict(e.params)["training.epochs"] for e in chn} == {2}
    assert {e.n_bits for e in trials["synthetic", "own"]} == {"labels"}
    assert len(trials["synthetic", "cvh"]) == 5  # its own grid


def test_part_of_a_plan_is_tuned_like_the_whole(plan):
    trials = plan.only(seeds=[4]).trials()
    assert {e.seed for of_row in trials.values() for e in of_row} == {3}


def test_tuned_settings_apply_to_all_lengths_and_seeds(plan):
    cells = plan.experiments({("synthetic", "chn"): {"training.learning_rate": 0.5}})
    rates = {dict(e.params).get("training.learning_rate") for e in cells if e.row == "chn"}
    assert rates == {0.5}


def test_only_selects_a_part_of_the_plan(plan):
    part = plan.only(["cvh", "own"], [64], [7], tune=False, supervision="pairs")
    assert [(e.row, e.n_bits, e.seed, e.supervision) for e in part.experiments({})] == [
        ("cvh", 64, 7, "pairs")
    ]
    assert part.trials() == {}
    assert [e.n_bits for e in plan.only(["own"], seeds=[3]).experiments({})] == ["labels"]
    with pytest.raises(InputError, match="The plan has no method 'scm'. Choose one of: cvh; chn"):
        plan.only(["scm"])


def test_configurations_combine_all_values():
    tried = configurations({"ridge": (0.1, 1.0), "other": ("a", "b", "c")})
    assert len(tried) == 6
    assert tried[0] == {"ridge": 0.1, "other": "a"}
    assert tried[-1] == {"ridge": 1.0, "other": "c"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": []}, "Unknown key in a plan: 'bits'. Choose one of: datasets"),
        ({"n_bits": []}, r"n_bits is missing. Add it, for example: n_bits = \[16, 32\]"),
        ({"n_bits": 16}, "n_bits of a plan must be an array, got 16"),
        ({"methods": ["cvhh"]}, "Unknown method 'cvhh'"),
        ({"params": {"scm": {}}}, r"\[params\] names a method that the plan does not list: 'scm'"),
        ({"params": {"cvh": {"epps": 1}}}, "CVH has no parameter 'epps'"),
        (
            {"grid": {"cvh": {"ridge": [1, 2, 3, 4, 5, 6, 7, 8, 9]}}},
            "has 9 combinations. Tuning is limited to 8",
        ),
        ({"rows": {"cvh": {"bits": []}}}, r"Unknown key in \[rows.cvh\]: 'bits'"),
        ({"rows": {"cvh": {"paper_settings": True}}}, "CVH has no paper settings"),
        (
            {"data": {"scenes": {}}},
            r"\[data\] names a dataset that the plan does not list: 'scenes'",
        ),
        ({"unseen": {"methods": ["x"]}}, r"\[unseen\] names a method that the plan does not list"),
        ({"supervision": "vibes"}, "Unknown supervision 'vibes'"),
        ({"seeds": []}, r"seeds is missing. Add it, for example: seeds = \[0, 1, 2\]"),
        ({"params": {"cvh": 5}}, r"cvh of \[params\] must be a table, got 5"),
        ({"grid": {"cvh": {"ridge": 0.1}}}, r"ridge of \[grid.cvh\] must be an array, got 0.1"),
        ({"grid": {"cvh": {"ridge": []}}}, r"ridge of \[grid.cvh\] is empty. List values"),
    ],
)
def test_invalid_plans_are_rejected(change, message):
    content = {"datasets": ["synthetic"], "methods": ["cvh"], "n_bits": [16], **change}
    with pytest.raises(InputError, match=message):
        parse_plan(content)


def test_unreadable_plans_are_named(tmp_path):
    with pytest.raises(InputError, match="Cannot read the plan .*: No such file"):
        read_plan(tmp_path / "missing.toml")
    (tmp_path / "plan.toml").write_text("datasets = [")
    with pytest.raises(InputError, match="is not valid TOML"):
        read_plan(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_text("tune = 1")
    with pytest.raises(
        InputError, match=r"In the plan .*plan.toml: tune of a plan must be a boolean"
    ):
        read_plan(tmp_path / "plan.toml")


def test_rows_can_have_their_own_supervision():
    content = {
        "datasets": ["synthetic"],
        "methods": ["chn", "chn, pairs"],
        "n_bits": [16],
        "rows": {"chn, pairs": {"method": "chn", "supervision": "pairs"}},
    }
    cells = parse_plan(content).experiments({})
    assert {e.row: e.supervision for e in cells} == {"chn": "labels", "chn, pairs": "pairs"}
    content["rows"]["chn, pairs"]["supervision"] = "clicks"
    with pytest.raises(InputError, match="Unknown supervision 'clicks'"):
        parse_plan(content)


def test_several_names_can_stand_for_one_dataset():
    content = {
        "datasets": ["synthetic", "synthetic, small"],
        "methods": ["cvh"],
        "n_bits": [16],
        "data": {"synthetic, small": {"source": "synthetic", "n": 780}},
    }
    plan = parse_plan(content)
    assert plan.sources == ("synthetic",)
    assert [dict(e.options) for e in plan.experiments({})] == [
        {},
        {"source": "synthetic", "n": 780},
    ]


def test_a_dataset_can_have_the_settings_of_another():
    content = {
        "datasets": ["synthetic", "synthetic, small"],
        "methods": ["cvh", "imh"],
        "n_bits": [16],
        "data": {
            "synthetic, small": {"source": "synthetic", "n": 780, "settings_of": "synthetic"},
        },
        "grid": {"imh": {"ridge": [0.1]}},
    }
    plan = parse_plan(content)
    assert list(plan.trials()) == [("synthetic", "cvh")]  # the grid of imh has one setting only
    cells = plan.experiments({("synthetic", "cvh"): {"ridge": 0.01}})
    assert [(e.dataset, e.row, dict(e.params)) for e in cells] == [
        ("synthetic", "cvh", {"ridge": 0.01}),
        ("synthetic", "imh", {}),
        ("synthetic, small", "cvh", {"ridge": 0.01}),
        ("synthetic, small", "imh", {}),
    ]
    assert dict(cells[-1].options) == {"source": "synthetic", "n": 780}


@pytest.mark.parametrize("named", ["coco16k", "b"])
def test_settings_come_from_a_dataset_of_the_plan_that_is_tuned(named):
    content = {
        "datasets": ["synthetic", "a", "b"],
        "methods": ["cvh"],
        "n_bits": [16],
        "data": {
            "a": {"source": "synthetic", "settings_of": named},
            "b": {"source": "synthetic", "settings_of": "synthetic"},
        },
    }
    message = f"settings_of of 'a' must name a dataset that is tuned, got '{named}'. "
    with pytest.raises(InputError, match=message + "Choose one of: synthetic."):
        parse_plan(content)


def test_methods_of_other_packages_have_an_import_path():
    path = "corrhash.methods.cvh:CVH"
    content = {
        "datasets": ["synthetic"],
        "methods": [path, "own"],
        "n_bits": [16],
        "rows": {"own": {"method": path}},
    }
    plan = parse_plan(content)
    assert [(row.name, row.method) for row in plan.rows] == [(path, path), ("own", path)]
    for wrong, message in (
        ("no_such_module:Hash", "Cannot load 'no_such_module:Hash'"),
        ("corrhash.codes:Codes", "corrhash.codes:Codes is not a hashing method"),
    ):
        with pytest.raises(InputError, match=message):
            parse_plan({**content, "methods": [wrong], "rows": {}})
