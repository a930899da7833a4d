"""The verbs of a study: ``run`` a plan, ``report`` what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from corrhash.cache_folder import caching_in
from corrhash.cli.options import CacheOption
from corrhash.cli.terminal import err, out, say

if TYPE_CHECKING:
    from corrhash.experiments.study import StudyState


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, as TOML.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")],
    jobs: Annotated[int, typer.Option(min=1, help="Models at a time, a thread each.")] = 1,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PLACE", help="Where a dataset of the plan is; repeatable."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", metavar="NAME", help="Only this method of the plan; repeatable."),
    ] = None,
    bits: Annotated[
        list[int] | None,
        typer.Option("--bits", metavar="N", help="Only codes of this length; repeatable."),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option("--seed", metavar="N", help="Only this seed; repeatable."),
    ] = None,
    tune: Annotated[
        bool | None,
        typer.Option("--tune/--no-tune", help="Choose settings on validation items first, or not."),
    ] = None,
    supervision: Annotated[
        str | None, typer.Option(help="labels, words or pairs, in place of the plan's.")
    ] = None,
    cache: CacheOption = None,
) -> None:
    """Train and measure everything in a plan: datasets, methods, lengths, seeds.

    Every model leaves one JSON file and its arrays, named by what was run. Done work is never
    repeated: an interrupted run goes on when it is started again. What fails is told at the end
    and does not stop the rest.

    Example: corrhash run benchmarks/scenes.toml --out results --jobs 2
    """
    from corrhash.experiments.plan import read_plan
    from corrhash.experiments.sources import parse_places
    from corrhash.experiments.study import FAILED, run_study

    places = parse_places(data or [])
    wanted = read_plan(plan).only(
        methods or (), bits or (), seeds or (), tune=tune, supervision=supervision
    )
    started = time.perf_counter()
    with _shown() as show, caching_in(cache):
        state = run_study(wanted, folder, places, jobs, show)
    out.print(study_table(state))
    spent = timedelta(seconds=round(time.perf_counter() - started))
    say(f"{state.done - n_failed(state)} of {state.total} done in {spent}. Results: {folder}")
    for what, error in state.failures:
        say(f"Failed: {what}: {error}")
    if state.failures:
        if (folder / FAILED).exists():
            say(f"Tracebacks: {folder / FAILED}. Run the plan again for what failed.")
        raise typer.Exit(1)
    say(f"Next: corrhash report {folder} --out report")


def report(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="A folder that **corrhash run** wrote.")
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the report.")],
) -> None:
    """Make tables and figures of results: Markdown, LaTeX, CSV and one HTML page.

    MAP of all methods, variants of CHN, what rounding to codes costs, the claims of the paper, what
    is better than what, curves, histograms. Made of the result files and of nothing else.
    """
    from corrhash.experiments.report import write_report

    page = write_report(results, folder)
    say(f"Open {page}")


def study_table(state: StudyState) -> Table:
    """How far each row is, and what its last model reached."""
    table = Table(title=progress_of(state), title_justify="left", box=None, pad_edge=False)
    for column in ("dataset", "method"):
        table.add_column(column, overflow="fold")
    for column in ("trials", "models", "now", "failed", "last bits", "i→t", "t→i"):
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
    """How many pieces of work failed."""
    return sum(row.failed for row in state.rows.values())


@contextmanager
def _shown() -> Iterator[Callable[[StudyState], None]]:
    """Something to hand states to: a live table, or a line a model where no terminal is."""
    if err.is_terminal:
        with Live(console=err, transient=True, refresh_per_second=4) as live:
            yield lambda state: live.update(study_table(state))
        return
    said = -1

    def report_progress(state: StudyState) -> None:
        nonlocal said
        if state.done != said:
            said = state.done
            err.print(progress_of(state), highlight=False, soft_wrap=True)

    yield report_progress


def progress_of(state: StudyState) -> str:
    """``12 of 90 done, about 0:14:05 left``."""
    left = state.seconds_left
    time_left = f", about {timedelta(seconds=round(left))} left" if left else ""
    return f"{state.done} of {state.total} done{time_left}"
