"""Every plan in benchmarks/ can be read, and tunes no method harder than another."""

from pathlib import Path

import pytest

from corrhash.experiments.plan import read_plan
from corrhash.methods import METHODS

PLANS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.toml"))
PARTS = "chn_parts"
"""The plan that is about CHN alone."""
PAPER = {"cvh", "imh", "cmssh", "rahh", "scm", "seph", "mmnn", "dcmh", "chn"}


@pytest.mark.parametrize("path", [p for p in PLANS if p.stem != PARTS], ids=lambda path: path.stem)
def test_a_plan_holds_the_methods_of_the_paper_and_the_variants_of_chn(path):
    plan = read_plan(path)
    names = {row.name for row in plan.rows}
    assert names >= PAPER | {"chn-m", "chn-i", "chn-q", "classifier"}
    assert {16, 32} <= set(plan.n_bits)
    assert all(len(tried) <= 8 for tried in plan.trials().values())
    assert any(experiment.unseen for experiment in plan.experiments({}))


def test_the_scenes_have_every_method():
    plan = read_plan(next(path for path in PLANS if path.stem == "scenes"))
    derived = {"chn-b"}  # CHN before its scores are rounded: part of every result
    assert {row.method for row in plan.rows} == set(METHODS) - derived


def test_the_plan_of_parts_takes_one_away_in_each_row():
    plan = read_plan(next(path for path in PLANS if path.stem == PARTS))
    changed = {
        e.row: [name for name in dict(e.params) if name != "training.weight_decay"]
        for e in plan.experiments({})
    }
    assert changed.pop("chn") == []
    assert all(len(names) == 1 for names in changed.values())
