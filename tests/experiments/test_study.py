"""Studies: tuned, resumed after a kill, and not stopped by what fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corrhash.experiments.plan import parse_plan, read_plan
from corrhash.experiments.results import load_results, load_trials
from corrhash.experiments.study import RowState, StudyState, choose, run_study
from corrhash.experiments.workers import WATCH_SECONDS
from tests.experiments.counted import PLACE

HERE = "tests.experiments.counted"
ROOT = Path(__file__).parent.parent.parent
PLAN = f"""
datasets = ["synthetic"]
methods = ["counted"]
n_bits = [8, 16, 32]
seeds = [0, 1]

[data.synthetic]
n = 780

[rows.counted]
method = "{HERE}:Counted"
"""


def start(plan, results):
    command = [sys.executable, "-m", "corrhash", "run", plan, "--out", results]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env=environment, cwd=ROOT, **silent)


def maps(folder):
    return {r.experiment.name: r.map("image->text") for r in load_results(folder)}


def test_after_a_kill_no_cell_is_lost_and_none_that_was_done_is_run_again(tmp_path, monkeypatch):
    plan, results, counts = (tmp_path / name for name in ("plan.toml", "results", "counts"))
    plan.write_text(PLAN)
    monkeypatch.setenv(PLACE, str(counts))
    killed = start(plan, results)
    while len(list(results.glob("*.json"))) < 2:
        assert killed.poll() is None
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    time.sleep(4 * WATCH_SECONDS)  # its worker notices and ends
    done = {path: path.stat().st_mtime_ns for path in results.rglob("*.json")}
    n_before = len(counts.read_text().splitlines())
    assert 4 <= len(done) < 8  # of two trials and six models in all
    assert len(done) <= n_before <= len(done) + 1
    run_study(read_plan(plan), results)
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert len(counts.read_text().splitlines()) - n_before == 8 - len(done)
    run_study(read_plan(plan), tmp_path / "whole")
    assert maps(results) == maps(tmp_path / "whole")
    assert len(maps(results)) == 6


def test_what_fails_does_not_stop_the_rest(tmp_path):
    plan = parse_plan(
        {
            "datasets": ["synthetic"],
            "methods": ["broken", "deadly", "cvh"],
            "n_bits": [16, 24],
            "tune": False,
            "data": {"synthetic": {"n": 780}},
            "rows": {
                "broken": {"method": f"{HERE}:Broken"},
                "deadly": {"method": f"{HERE}:Deadly"},
            },
        }
    )
    state = run_study(plan, tmp_path)
    assert sorted((r.experiment.row, r.n_bits) for r in load_results(tmp_path)) == [
        ("broken", 24),
        ("cvh", 16),
        ("cvh", 24),
    ]
    assert [what for what, _ in state.failures] == [
        "broken, 16 bits, seed 0 on synthetic",
        "deadly, 16 bits, seed 0 on synthetic",
        "deadly, 24 bits, seed 0 on synthetic",
    ]
    assert state.failures[0][1] == "ZeroDivisionError: sixteen"
    assert (state.done, state.total) == (6, 6)
    assert [path.name[:20] for path in (tmp_path / "failed").iterdir()] == ["synthetic-broken-16-"]


def test_the_best_settings_on_validation_serve_every_length(tmp_path):
    plan = parse_plan(
        {
            "datasets": ["synthetic"],
            "methods": ["cvh", "chn"],
            "n_bits": [16],
            "data": {"synthetic": {"n": 780}},
            "grid": {"cvh": {"eps": [1e-6, 1.0]}, "chn": {"training.learning_rate": [1e12, 1e13]}},
            "params": {"chn": {"training.epochs": 1, "networks.width": 8}},
        }
    )
    state = run_study(plan, tmp_path)
    reached = {
        t["experiment"]["params"]["eps"]: t["validation_map"]
        for t in load_trials(tmp_path)
        if t["experiment"]["row"] == "cvh"
    }
    (result,) = load_results(tmp_path)
    assert result.facts["params"]["eps"] == max(reached, key=reached.__getitem__)
    ((what, error),) = state.failures
    assert what == "chn on synthetic, 1 models"
    assert "no settings could be trained (The training diverged" in error
    assert choose(plan.trials(), tmp_path)[1] == {("synthetic", "chn")}


def test_the_time_left_is_that_of_finished_work_of_the_row_or_else_the_mean():
    rows = {("d", "fast"): RowState(runs=4, runs_done=2), ("d", "new"): RowState(trials=1, runs=1)}
    state = StudyState(rows, n_workers=2)
    assert state.seconds_left is None
    state.seconds = {("d", "fast"): [1.0, 3.0], ("d", "slow"): [8.0]}
    assert state.seconds_left == pytest.approx((2 * 2 + 2 * 4) / 2)
    assert (state.done, state.total) == (2, 6)
