"""What commands say: lines, errors and bars of progress on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from corrhash.progress import Step, listening

WATCHED = ("loss", "validation_map", "distinct_codes", "quantization_active")
"""Numbers of a training that are shown beside its bar."""

out = Console()
err = Console(stderr=True)


def say(line: str) -> None:
    """A line as it is: names of files may look like markup."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress_bars() -> Iterator[None]:
    """A bar for each task that reports how far it is; gone when all are done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    options: Any = {"transient": True, "disable": not err.is_terminal}
    with Progress(*columns, TimeRemainingColumn(), console=err, **options) as bars:
        tasks: dict[str, Any] = {}

        def show(step: Step) -> None:
            if step.task not in tasks:
                tasks[step.task] = bars.add_task(step.task)
            words = [f"{name} {step.numbers[name]:.3g}" for name in WATCHED if name in step.numbers]
            description = "  ".join([step.task, *words]).replace("_", " ")
            task = tasks[step.task]
            bars.update(task, description=description, completed=step.done, total=step.total)

        with listening(show):
            yield
