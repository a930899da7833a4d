"""Study: run a plan in worker processes, never repeat finished work, continue past failures."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import BrokenProcessPool

from corrhash._files import atomic_write, cache_folder, make_folder
from corrhash.errors import InputError
from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.experiment import Experiment, check_data
from corrhash.experiments.plan import Plan
from corrhash.experiments.result_files import find_result, find_trial, load_trials
from corrhash.experiments.runner import run, try_settings

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
"""Set to 1 in every worker: sums then come out the same whatever the number of cores."""

WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Outcome:
    """The value of a job, or why it failed."""

    value: Any = None
    error: str | None = None
    traceback: str = ""


class Workers:
    """A pool of processes, each running one job at a time; it ends with the ``with`` block."""

    def __init__(self, n: int) -> None:
        self.workers = [_Worker() for _ in range(n)]

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.stop()

    def run_jobs(
        self,
        jobs: list[tuple[Any, ...]],
        work: Callable[..., Any],
        started: Callable[[int], None],
    ) -> Iterator[tuple[int, Outcome]]:
        """Call ``work(*job)`` for every job; yield the number and outcome of each as it ends.

        ``started`` is called with the number of a job when it starts.
        """
        free: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self.workers:
            free.put(worker)

        leaving = threading.Event()

        def run_one(number: int) -> Outcome:
            worker = free.get()
            try:
                if leaving.is_set():
                    return Outcome(error="Not started.")
                started(number)
                return worker.run(work, jobs[number])
            finally:
                free.put(worker)

        threads = ThreadPoolExecutor(len(self.workers))
        pending = {threads.submit(run_one, number): number for number in range(len(jobs))}
        try:
            while pending:
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield pending.pop(future), future.result()
        finally:
            leaving.set()
            while pending:  # closed early: interrupt what is running instead of waiting for it
                for worker in self.workers:
                    worker.interrupt()
                done, _ = wait(pending, timeout=WATCH_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    del pending[future]
            threads.shutdown()


class _Worker:
    """One process, started on its first job and restarted if it died."""

    def __init__(self) -> None:
        self.executor: ProcessPoolExecutor | None = None
        self.process_id: int | None = None

    def run(self, work: Callable[..., Any], job: tuple[Any, ...]) -> Outcome:
        try:
            if self.executor is None:
                self.executor = self._start()
            outcome: Outcome = self.executor.submit(_run_safely, work, job).result()
            return outcome
        except BrokenProcessPool:
            self.stop()
            return Outcome(error="The process died: out of memory, or killed.")

    def _start(self) -> ProcessPoolExecutor:
        environment = dict.fromkeys(THREADS, "1") | {"CORRHASH_CACHE": str(cache_folder())}
        executor = ProcessPoolExecutor(
            1, env=environment, initializer=_exit_with, initargs=(os.getpid(),)
        )
        self.process_id = executor.submit(os.getpid).result()
        return executor

    def interrupt(self) -> None:
        """Terminate the process at once."""
        if self.process_id is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process_id, signal.SIGTERM)

    def stop(self) -> None:
        """Let the process finish its job and exit."""
        if self.executor is not None:
            self.executor.shutdown(wait=True)
        self.executor = self.process_id = None


def _run_safely(work: Callable[..., Any], job: tuple[Any, ...]) -> Outcome:
    """Run a job in the worker and return an exception as text."""
    try:
        return Outcome(work(*job))
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return Outcome(error=f"{kind}{error}", traceback=traceback.format_exc())


def _exit_with(parent: int) -> None:
    """Exit when the parent is gone, so that two processes never run the same job."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


FAILED = "failed"
"""The folder of tracebacks, inside the folder of results."""

Work = Callable[[Experiment, Path, Mapping[str, str]], Any]
RowKey = tuple[str, str]
"""Dataset and row."""


@dataclass
class RowState:
    """The progress of a row on one dataset."""

    trials: int = 0
    trials_done: int = 0
    runs: int = 0
    runs_done: int = 0
    failed: int = 0
    running: int = 0
    last: tuple[int, float, float] | None = None
    """Code length and mAP of both directions of the latest finished model."""


@dataclass
class StudyState:
    """The progress of a study, as a live table shows it.

    ``seconds_left`` assumes that unfinished work takes as long as finished work of its row, or
    else as the mean of all; None before anything is finished.
    """

    rows: dict[RowKey, RowState]
    n_workers: int
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: dict[RowKey, list[float]] = field(default_factory=dict)

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
            of_row = self.seconds.get(key, [])
            missing = row.trials + row.runs - row.trials_done - row.runs_done - row.failed
            left += missing * (sum(of_row) / len(of_row) if of_row else mean)
        return left / self.n_workers


def run_study(
    plan: Plan,
    folder: str | Path,
    locations: Mapping[str, str] | None = None,
    n_workers: int = 1,
    show: Callable[[StudyState], None] = lambda state: None,
) -> StudyState:
    """Tune, then run every experiment of a plan whose result is not in ``folder`` yet.

    Parameters
    ----------
    locations : names of datasets and where their files are.
    n_workers : models that are trained at the same time, each on one thread.
    show : called with the progress whenever it changes.
    """
    folder = make_folder(folder)
    if n_workers < 1:
        raise InputError(f"n_workers must be at least 1, got {n_workers}.")
    trials = plan.trials()
    rows = {(e.dataset, e.row): RowState() for e in plan.experiments({})}
    state = StudyState(rows, n_workers)
    for key, experiments in trials.items():
        rows[key].trials = len(experiments)
    for experiment in plan.experiments({}):
        rows[experiment.dataset, experiment.row].runs += 1
    check_data(_missing(plan, trials, folder), locations or {})
    with Workers(n_workers) as workers:
        study = _Study(state, folder, dict(locations or {}), workers, show)
        study.finish([e for experiments in trials.values() for e in experiments], try_settings)
        tuned, untuned = choose_settings(trials, folder)
        failed = [key for key in rows if (plan.tuned_on(key[0]), key[1]) in untuned]
        study.fail_rows({key: (plan.tuned_on(key[0]), key[1]) for key in failed})
        remaining = [e for e in plan.experiments(tuned) if (e.dataset, e.row) not in failed]
        study.finish(remaining, run)
    return state


def _missing(
    plan: Plan, trials: Mapping[RowKey, list[Experiment]], folder: Path
) -> list[Experiment]:
    """Return the trials and models to run, as far as settings are known before tuning."""
    tried = [e for of_row in trials.values() for e in of_row if find_trial(e, folder) is None]
    tuned, _ = choose_settings(trials, folder)
    return tried + [e for e in plan.experiments(tuned) if find_result(e, folder) is None]


def choose_settings(
    trials: Mapping[RowKey, list[Experiment]], folder: Path
) -> tuple[dict[RowKey, dict[str, Any]], set[RowKey]]:
    """Return the settings of each row with the best validation mAP, and rows without any.

    The first of equal settings wins.
    """
    chosen: dict[RowKey, dict[str, Any]] = {}
    failed: set[RowKey] = set()
    for key, experiments in trials.items():
        maps = {}
        for experiment in experiments:
            trial = find_trial(experiment, folder)
            if trial is not None and trial["validation_map"] is not None:
                maps[experiment] = trial["validation_map"]
        if maps:
            chosen[key] = dict(max(maps, key=maps.__getitem__).params)
        else:
            failed.add(key)
    return chosen, failed


class _Study:
    """One run of a plan, which updates the state and shows it."""

    def __init__(
        self,
        state: StudyState,
        folder: Path,
        locations: dict[str, str],
        workers: Workers,
        show: Callable[[StudyState], None],
    ) -> None:
        self.state, self.folder, self.locations = state, folder, locations
        self.workers, self.show = workers, show

    def finish(self, experiments: Iterable[Experiment], work: Work) -> None:
        """Do the work that has no file yet."""
        find = find_result if work is run else find_trial
        missing = []
        for experiment in experiments:
            stored: Any = find(experiment, self.folder)
            if stored is None:
                missing.append(experiment)
            else:
                self._count(experiment, stored, work)
        self.show(self.state)
        jobs = [(experiment, self.folder, self.locations) for experiment in missing]
        start_times: dict[int, float] = {}

        def started(number: int) -> None:
            start_times[number] = time.perf_counter()
            self._row(missing[number]).running += 1
            self.show(self.state)

        for number, outcome in self.workers.run_jobs(jobs, work, started):
            experiment = missing[number]
            self._row(experiment).running -= 1
            if outcome.error is None:
                seconds = time.perf_counter() - start_times[number]
                key = experiment.dataset, experiment.row
                self.state.seconds.setdefault(key, []).append(seconds)
                self._count(experiment, outcome.value, work)
            else:
                self._fail(experiment, outcome.error, outcome.traceback)
            self.show(self.state)

    def fail_rows(self, rows: Mapping[RowKey, RowKey]) -> None:
        """Mark all models of rows as failed, given the rows whose tuning trials failed."""
        errors = {
            (t["experiment"]["dataset"], t["experiment"]["row"]): t["error"]
            for t in load_trials(self.folder)
            if t["error"]
        }
        for key, tuned in rows.items():
            row = self.state.rows[key]
            row.failed += row.runs
            reason = errors.get(tuned, "see the failed trials")
            what = f"{key[1]} on {key[0]}, {row.runs} models"
            self.state.failures.append((what, f"all tuning trials failed ({reason})"))

    def _row(self, experiment: Experiment) -> RowState:
        return self.state.rows[experiment.dataset, experiment.row]

    def _count(self, experiment: Experiment, stored: Any, work: Work) -> None:
        row = self._row(experiment)
        if work is not run:
            row.trials_done += 1
            return
        row.runs_done += 1
        if not experiment.unseen:  # mAP on unseen labels is not comparable
            row.last = stored.n_bits, *(stored.map(direction) for direction in DIRECTIONS)

    def _fail(self, experiment: Experiment, error: str, trace: str) -> None:
        self._row(experiment).failed += 1
        self.state.failures.append((str(experiment), error))
        if trace:
            path = make_folder(self.folder / FAILED) / f"{experiment.name}.txt"
            with atomic_write(path) as file:
                file.write(trace.encode())
