"""Workers: single-threaded processes, and jobs that fail."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from corrhash.experiments.plan import parse_plan, read_plan
from corrhash.experiments.result_files import load_results, load_trials
from corrhash.experiments.study import (
    WATCH_SECONDS,
    RowState,
    StudyState,
    Workers,
    choose_settings,
    run_study,
)
from tests.experiments.fake_methods import COUNTS_FILE


def job(number):
    if number == 1:
        raise ZeroDivisionError("one")
    if number == 2:
        os._exit(3)
    return number, os.environ["OMP_NUM_THREADS"], os.getpid()


@pytest.fixture(scope="module")
def outcomes():
    started = []
    with Workers(1) as workers:
        ended = dict(workers.run_jobs([(n,) for n in range(4)], job, started.append))
        again = dict(workers.run_jobs([(5,)], job, started.append))
    assert started == [0, 1, 2, 3, 0]
    return ended, again


def test_jobs_run_in_single_threaded_processes(outcomes):
    number, threads, process = outcomes[0][0].value
    assert (number, threads) == (0, "1")
    assert process != os.getpid()


def test_exception_is_returned_as_text(outcomes):
    failed = outcomes[0][1]
    assert failed.error == "ZeroDivisionError: one"
    assert "Traceback" in failed.traceback


def test_dead_process_fails_only_its_own_job(outcomes):
    ended, _ = outcomes
    assert ended[2].error.startswith("The process died")
    assert ended[3].value[0] == 3
    assert ended[3].value[2] != ended[0].value[2]


def test_workers_are_reused_for_more_jobs(outcomes):
    ended, again = outcomes
    assert again[0].value[2] == ended[3].value[2]


def test_closing_early_interrupts_running_jobs():
    began = threading.Event()
    with Workers(2) as workers:
        slow = [(0.0,), (60.0,), (60.0,), (60.0,)]
        running = workers.run_jobs(slow, time.sleep, lambda number: number == 2 and began.set())
        next(running)
        began.wait()
        started = time.perf_counter()
        running.close()
    assert time.perf_counter() - started < 30


METHODS = "tests.experiments.fake_methods"
ROOT = Path(__file__).parent.parent.parent
PLAN = f"""
datasets = ["synthetic"]
methods = ["counted"]
n_bits = [8, 16, 32]
seeds = [0, 1]

[data.synthetic]
n = 780

[rows.counted]
method = "{METHODS}:Counted"
"""


def start(plan, results):
    command = [sys.executable, "-m", "corrhash", "run", plan, "--out", results]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env=environment, cwd=ROOT, **silent)


def maps(folder):
    return {r.experiment.name: r.map("image->text") for r in load_results(folder)}


def test_killed_study_resumes_without_repeating_work(tmp_path, monkeypatch):
    plan, results, counts = (tmp_path / name for name in ("plan.toml", "results", "counts"))
    plan.write_text(PLAN)
    monkeypatch.setenv(COUNTS_FILE, str(counts))
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


def test_failures_do_not_stop_the_study(tmp_path):
    plan = parse_plan(
        {
            "datasets": ["synthetic"],
            "methods": ["broken", "deadly", "cvh"],
            "n_bits": [16, 24],
            "tune": False,
            "data": {"synthetic": {"n": 780}},
            "rows": {
                "broken": {"method": f"{METHODS}:Broken"},
                "deadly": {"method": f"{METHODS}:Deadly"},
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


def test_tuned_settings_have_the_best_validation_map(tmp_path):
    plan = parse_plan(
        {
            "datasets": ["synthetic", "other"],
            "methods": ["cvh", "chn"],
            "n_bits": [16],
            "data": {
                "synthetic": {"n": 780},
                "other": {"source": "synthetic", "n": 640, "settings_of": "synthetic"},
            },
            "grid": {
                "cvh": {"ridge": [1e-6, 1.0]},
                "chn": {"training.learning_rate": [1e12, 1e13]},
            },
            "params": {"chn": {"training.epochs": 1, "networks.width": 8}},
        }
    )
    state = run_study(plan, tmp_path)
    reached = {
        t["experiment"]["params"]["ridge"]: t["validation_map"]
        for t in load_trials(tmp_path)
        if t["experiment"]["row"] == "cvh"
    }
    results = load_results(tmp_path)
    assert {r.experiment.dataset for r in results} == {"synthetic", "other"}
    best = max(reached, key=reached.__getitem__)
    assert [r.facts["params"]["ridge"] for r in results] == [best, best]
    (what, error), (other, same_error) = state.failures
    assert (what, other) == ("chn on synthetic, 1 models", "chn on other, 1 models")
    assert "all tuning trials failed (The training diverged" in error
    assert same_error == error
    assert choose_settings(plan.trials(), tmp_path)[1] == {("synthetic", "chn")}


def test_seconds_left_use_the_row_or_else_the_mean():
    rows = {("d", "fast"): RowState(runs=4, runs_done=2), ("d", "new"): RowState(trials=1, runs=1)}
    state = StudyState(rows, n_workers=2)
    assert state.seconds_left is None
    state.seconds = {("d", "fast"): [1.0, 3.0], ("d", "slow"): [8.0]}
    assert state.seconds_left == pytest.approx((2 * 2 + 2 * 4) / 2)
    assert (state.done, state.total) == (2, 6)
