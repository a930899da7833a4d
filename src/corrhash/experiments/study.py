"""A study: a plan run to its end, done work never repeated, failures told and not fatal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corrhash.atomic_write import atomic_write, make_folder
from corrhash.errors import InputError
from corrhash.experiments.directions import DIRECTIONS
from corrhash.experiments.experiment import Experiment
from corrhash.experiments.plan import Plan
from corrhash.experiments.results import find_result, find_trial, load_trials
from corrhash.experiments.run import run, try_settings
from corrhash.experiments.workers import Workers

FAILED = "failed"
"""The folder of what went wrong, below that of the results."""

Work = Callable[[Experiment, Path, Mapping[str, str]], Any]


@dataclass
class RowState:
    """How far a row of the tables is on one dataset."""

    trials: int = 0
    trials_done: int = 0
    runs: int = 0
    runs_done: int = 0
    failed: int = 0
    running: int = 0
    last: tuple[int, float, float] | None = None
    """Bits and MAP of both directions of the last that was done."""


@dataclass
class StudyState:
    """How far a study is: what a live table shows.

    ``seconds_left`` takes unfinished work to last as long as finished work of its row, else as long
    as the mean of all; None before anything is known.
    """

    rows: dict[tuple[str, str], RowState]
    n_workers: int
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return sum(row.trials_done + row.runs_done + row.failed for row in self.rows.values())

    @property
    def total(self) -> int:
        return sum(row.trials + row.runs for row in self.rows.values())

    @property
    def seconds_left(self) -> float | None:
        known = [value for values in self.seconds.values() for value in values]
        if not known:
            return None
        mean = sum(known) / len(known)
        left = 0.0
        for key, row in self.rows.items():
            own = self.seconds.get(key, [])
            missing = row.trials + row.runs - row.trials_done - row.runs_done - row.failed
            left += missing * (sum(own) / len(own) if own else mean)
        return left / self.n_workers


def run_study(
    plan: Plan,
    folder: str | Path,
    places: Mapping[str, str] | None = None,
    n_workers: int = 1,
    show: Callable[[StudyState], None] = lambda state: None,
) -> StudyState:
    """Tune, then run everything that ``folder`` does not hold yet."""
    folder = make_folder(folder)
    if n_workers < 1:
        raise InputError(f"There must be at least one job at a time. Got {n_workers}.")
    trials = plan.trials()
    rows = {(e.dataset, e.row): RowState() for e in plan.experiments({})}
    state = StudyState(rows, n_workers)
    for key, tried in trials.items():
        rows[key].trials = len(tried)
    for experiment in plan.experiments({}):
        rows[experiment.dataset, experiment.row].runs += 1
    with Workers(n_workers) as workers:
        study = _Study(state, folder, dict(places or {}), workers, show)
        study.finish([e for tried in trials.values() for e in tried], try_settings)
        chosen, hopeless = choose(trials, folder)
        study.give_up(hopeless)
        cells = [e for e in plan.experiments(chosen) if (e.dataset, e.row) not in hopeless]
        study.finish(cells, run)
    return state


def choose(
    trials: Mapping[tuple[str, str], list[Experiment]], folder: Path
) -> tuple[dict[tuple[str, str], dict[str, Any]], set[tuple[str, str]]]:
    """The settings of each row that served validation items best, and rows where none worked.

    Of equals, the first that is listed.
    """
    chosen, hopeless = {}, set()
    for key, tried in trials.items():
        reached = {}
        for experiment in tried:
            trial = find_trial(experiment, folder)
            if trial is not None and trial["validation_map"] is not None:
                reached[experiment] = trial["validation_map"]
        if reached:
            chosen[key] = dict(max(reached, key=reached.__getitem__).params)
        else:
            hopeless.add(key)
    return chosen, hopeless


class _Study:
    """A run of one plan: what is done is noted in the state, and shown."""

    def __init__(
        self,
        state: StudyState,
        folder: Path,
        places: dict[str, str],
        workers: Workers,
        show: Callable[[StudyState], None],
    ) -> None:
        self.state, self.folder, self.places = state, folder, places
        self.workers, self.show = workers, show

    def finish(self, wanted: Iterable[Experiment], work: Work) -> None:
        """Do what has no file yet, each in a process of its own."""
        find = find_result if work is run else find_trial
        missing = []
        for experiment in wanted:
            found: Any = find(experiment, self.folder)
            if found is None:
                missing.append(experiment)
            else:
                self._note(experiment, found, work)
        self.show(self.state)
        jobs = [(experiment, self.folder, self.places) for experiment in missing]
        began: dict[int, float] = {}

        def started(number: int) -> None:
            began[number] = time.perf_counter()
            self._row(missing[number]).running += 1
            self.show(self.state)

        for number, outcome in self.workers.run_jobs(jobs, work, started):
            experiment = missing[number]
            self._row(experiment).running -= 1
            if outcome.error is None:
                seconds = time.perf_counter() - began[number]
                key = experiment.dataset, experiment.row
                self.state.seconds.setdefault(key, []).append(seconds)
                self._note(experiment, outcome.value, work)
            else:
                self._fail(experiment, outcome.error, outcome.traceback)
            self.show(self.state)

    def give_up(self, rows: Iterable[tuple[str, str]]) -> None:
        """Rows of which no settings could be trained: what was planned of them has failed."""
        errors = {
            (t["experiment"]["dataset"], t["experiment"]["row"]): t["error"]
            for t in load_trials(self.folder)
            if t["error"]
        }
        for key in rows:
            row = self.state.rows[key]
            row.failed += row.runs
            reason = errors.get(key, "every trial failed, see there")
            what = f"{key[1]} on {key[0]}, {row.runs} models"
            self.state.failures.append((what, f"no settings could be trained ({reason})"))

    def _row(self, experiment: Experiment) -> RowState:
        return self.state.rows[experiment.dataset, experiment.row]

    def _note(self, experiment: Experiment, found: Any, work: Work) -> None:
        row = self._row(experiment)
        if work is run:
            row.runs_done += 1
            if not experiment.unseen:  # whose MAP compares with nothing else
                row.last = found.n_bits, *(found.map(direction) for direction in DIRECTIONS)
        else:
            row.trials_done += 1

    def _fail(self, experiment: Experiment, error: str, trace: str) -> None:
        self._row(experiment).failed += 1
        self.state.failures.append((str(experiment), error))
        if trace:
            path = make_folder(self.folder / FAILED) / f"{experiment.name}.txt"
            with atomic_write(path) as file:
                file.write(trace.encode())
