"""What commands say: lines, errors and how far they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from corrhash.progress import Step, listening

WATCHED = ("loss", "validation_map", "distinct_codes", "quantization_active")
"""Numbers of a training that are shown beside its bar."""

SECONDS_BETWEEN_LINES = 60.0
"""Where there is no terminal for bars."""

out = Console()
err = Console(stderr=True)


def say(line: str) -> None:
    """A line as it is: names of files may look like markup."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress_bars() -> Iterator[None]:
    """How far work is: a bar for each task on a terminal, elsewhere a line now and then."""
    with _bars() if err.is_terminal else _lines():
        yield


@contextmanager
def _bars() -> Iterator[None]:
    """A bar for each task that reports how far it is; gone when all are done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(step: Step) -> None:
            if step.task not in tasks:
                tasks[step.task] = bars.add_task(step.task)
            words = "  ".join([step.task, *_watched(step)])
            bars.update(tasks[step.task], description=words, completed=step.done, total=step.total)

        with listening(show):
            yield


@contextmanager
def _lines() -> Iterator[None]:
    """For logs of long work: what was reported last, once in a while."""
    told = time.monotonic()

    def show(step: Step) -> None:
        nonlocal told
        if time.monotonic() - told >= SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            line = ", ".join([f"{step.task} {step.done:,} of {step.total:,}", *_watched(step)])
            err.print(line, markup=False, highlight=False, soft_wrap=True)

    with listening(show):
        yield


def _watched(step: Step) -> list[str]:
    return [
        f"{name.replace('_', ' ')} {step.numbers[name]:.3g}"
        for name in WATCHED
        if name in step.numbers
    ]
