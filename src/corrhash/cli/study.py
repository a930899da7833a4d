"""Commands of a study: ``run`` a plan and ``report`` its results."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from corrhash._files import caching_in
from corrhash.cli.options import CacheOption, DeviceOption
from corrhash.cli.output import err, out, print_line
from corrhash.errors import InputError

if TYPE_CHECKING:
    from corrhash.experiments.study import StudyState


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan of the study, a TOML file.")],
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results.")],
    jobs: Annotated[
        int, typer.Option(min=1, help="Models to train at the same time, one thread each.")
    ] = 1,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LOCATION", help="Location of a dataset in the plan; repeatable."
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", metavar="NAME", help="Run only this method; repeatable."),
    ] = None,
    bits: Annotated[
        list[int] | None,
        typer.Option("--bits", metavar="N", help="Override the plan's code lengths; repeatable."),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option("--seed", metavar="N", min=0, help="Override the plan's seeds; repeatable."),
    ] = None,
    tune: Annotated[
        bool | None,
        typer.Option("--tune/--no-tune", help="Tune settings on validation items first."),
    ] = None,
    supervision: Annotated[
        str | None, typer.Option(help="labels, pseudo-labels or pairs; overrides the plan.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RESULTS",
            help="results.json of a report, or another folder of results: its experiments are "
            "copied to **--out** and not repeated.",
        ),
    ] = None,
    device: DeviceOption = None,
    cache: CacheOption = None,
) -> None:
    """Train and evaluate everything in a plan: datasets, methods, code lengths, seeds.

    One JSON file and one file of arrays are written per model. Finished work is never repeated: run
    the same command again to resume, or pass **--resume** to continue a study from its results.json
    on another machine. Failures are listed at the end and do not stop the study.

    Example: corrhash run benchmarks/scenes.toml --out results --jobs 2
    """
    from corrhash.experiments.experiment import parse_locations
    from corrhash.experiments.plan import read_plan
    from corrhash.experiments.result_files import unpack_study
    from corrhash.experiments.study import FAILED, run_study

    locations = parse_locations(data or [])
    selected = read_plan(plan).only(
        methods or (), bits or (), seeds or (), tune=tune, supervision=supervision
    )
    for name in locations:
        if name not in selected.sources:
            known = ", ".join(selected.sources)
            raise InputError(f"--data: the plan has no dataset {name!r}. Datasets: {known}.")
    if resume is not None:
        unpack_study(resume, folder)
    started = time.perf_counter()
    with _live_table() as show, caching_in(cache):
        state = run_study(selected, folder, locations, jobs, show)
    out.print(study_table(state))
    spent = timedelta(seconds=round(time.perf_counter() - started))
    print_line(
        f"{state.done - n_failed(state)} of {state.total} done in {spent}. Results: {folder}"
    )
    failed: dict[str, list[str]] = {}
    for what, error in state.failures:
        failed.setdefault(error, []).append(what)
    for error, (first, *others) in failed.items():
        more = f" and {len(others):,} more" if others else ""
        print_line(f"Failed: {first}{more}: {error}")
    if state.failures:
        if (folder / FAILED).exists():
            print_line(f"Tracebacks: {folder / FAILED}. Run the command again to retry.")
        raise typer.Exit(1)
    command = ["corrhash", "report", str(folder), "--out", "report"]
    print_line(f"Next: {shlex.join(command)}")


def report(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS",
            help="Results folder written by **corrhash run**, or results.json of an earlier "
            "report.",
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the report.")],
) -> None:
    """Write tables and figures of a study as one HTML page, Markdown, LaTeX and CSV.

    The report has mAP of all methods, variants of CHN, the cost of binarization, a check of the CHN
    paper's claims, significance tests, curves and histograms. It also has results.json and
    results.npz, from which the same report can be written again.
    """
    from corrhash.experiments.report.page import write_report

    page = write_report(results, folder)
    print_line(f"Open {page}")


def study_table(state: StudyState) -> Table:
    """Show the progress of each row and the mAP of its latest model."""
    table = Table(title=progress_of(state), title_justify="left", box=None, pad_edge=False)
    for column in ("dataset", "method"):
        table.add_column(column, overflow="fold")
    for column in ("trials", "models", "now", "failed", "bits", "mAP I→T", "mAP T→I"):
        table.add_column(column, justify="right", no_wrap=True)
    for (dataset, name), row in state.rows.items():
        last = ("", "", "")
        if row.last is not None:
            last = (str(row.last[0]), f"{row.last[1]:.3f}", f"{row.last[2]:.3f}")
        trials = f"{row.trials_done}/{row.trials}" if row.trials else ""
        models = f"{row.runs_done}/{row.runs}"
        table.add_row(
            dataset, name, trials, models, str(row.running or ""), str(row.failed or ""), *last
        )
    return table


def n_failed(state: StudyState) -> int:
    """Return the number of failed trials and models."""
    return sum(row.failed for row in state.rows.values())


@contextmanager
def _live_table() -> Iterator[Callable[[StudyState], None]]:
    """Yield a function that shows progress: a live table, or lines without a terminal."""
    if err.is_terminal:
        with Live(console=err, transient=True, refresh_per_second=4) as live:
            yield lambda state: live.update(study_table(state))
        return
    shown = -1

    def report_progress(state: StudyState) -> None:
        nonlocal shown
        if state.done != shown:
            shown = state.done
            err.print(progress_of(state), highlight=False, soft_wrap=True)

    yield report_progress


def progress_of(state: StudyState) -> str:
    """Return a line such as ``12 of 90 done, about 0:14:05 left``."""
    left = state.seconds_left
    time_left = f", about {timedelta(seconds=round(left))} left" if left else ""
    return f"{state.done} of {state.total} done{time_left}"
