"""Terminal output of the verbs: lines, progress and tables of scores."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from corrhash._progress import Step, listening

if TYPE_CHECKING:
    from corrhash.datasets.base import RetrievalSplit
    from corrhash.metrics import Scores

SHOWN_METRICS = {"loss": "loss", "validation_map": "validation mAP"}
"""Metrics of a training that are shown beside its progress, with their titles."""

SECONDS_BETWEEN_LINES = 60.0
"""Interval of progress lines if there is no terminal."""

out = Console()
err = Console(stderr=True)


def print_line(line: str) -> None:
    """Print a line as it is: file names can look like markup."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def print_skipped(skipped: Mapping[str, str]) -> None:
    """Print the first keys of skipped items with the reasons."""
    for key, reason in list(skipped.items())[:5]:
        print_line(f"Skipped {key}: {reason}")
    if len(skipped) > 5:
        print_line(f"Skipped in total: {len(skipped):,}")


@contextmanager
def progress_bars() -> Iterator[None]:
    """Show progress reports: as bars on a terminal, else as a line from time to time."""
    with _bars() if err.is_terminal else _lines():
        yield


@contextmanager
def _bars() -> Iterator[None]:
    """Show one bar per task, and remove them at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(step: Step) -> None:
            if step.task not in tasks:
                tasks[step.task] = bars.add_task(step.task)
            title = "  ".join([step.task, *_metrics(step)])
            bars.update(tasks[step.task], description=title, completed=step.done, total=step.total)

        with listening(show):
            yield


@contextmanager
def _lines() -> Iterator[None]:
    """Print a report as a line, at most one per ``SECONDS_BETWEEN_LINES``."""
    printed = time.monotonic()

    def show(step: Step) -> None:
        nonlocal printed
        if time.monotonic() - printed >= SECONDS_BETWEEN_LINES:
            printed = time.monotonic()
            line = ", ".join([f"{step.task} {step.done:,} of {step.total:,}", *_metrics(step)])
            err.print(line, markup=False, highlight=False, soft_wrap=True)

    with listening(show):
        yield


def _metrics(step: Step) -> list[str]:
    return [
        f"{title} {step.metrics[name]:.3g}"
        for name, title in SHOWN_METRICS.items()
        if step.metrics.get(name) is not None
    ]


def print_split(split: RetrievalSplit) -> None:
    """Print the sizes and the fingerprint of a dataset."""
    print_line(
        f"Dataset: {split.name}, {len(split.train):,} training, {len(split.query):,} query and "
        f"{len(split.database):,} database items"
    )
    if split.fingerprint is not None:
        print_line(f"Fingerprint: {split.fingerprint}")


def score_table(
    title: str, *columns: str, directions: Iterable[str] = ("image->text", "text->image")
) -> Table:
    """Create a table with a column for each retrieval direction."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column)
    for direction in directions:
        table.add_column(direction.replace("->", " → "), justify="right")
    return table


def add_map_row(table: Table, scores: dict[str, Scores], *cells: str) -> None:
    """Add the mAP of both directions."""
    table.add_row(*cells, *(f"{of_direction.map:.3f}" for of_direction in scores.values()))


def print_scores(
    scores: dict[str, Scores], without_training_items: dict[str, Scores] | None = None
) -> None:
    """Print the metrics of each direction as a table."""
    first, *_ = scores.values()
    by = {"hamming": "Hamming distance", "cosine": "cosine similarity"}[first.ranked_by]
    table = score_table(
        f"Ranked by {by}, mAP definition: {first.definition}, ties: {first.ties}",
        "",
        directions=scores,
    )
    add_map_row(table, scores, "mAP")
    if without_training_items is not None:
        add_map_row(table, without_training_items, "mAP, database without training items")
    rows: dict[str, list[Any]] = {
        "precision@1": [s.precision_at.get(1) for s in scores.values()],
        "precision@100": [s.precision_at.get(100) for s in scores.values()],
        "precision within Hamming radius 2": [s.precision_within_2 for s in scores.values()],
        "NDCG@100": [s.ndcg_at.get(100) for s in scores.values()],
    }
    for k in first.recall_at or ():
        rows[f"Recall@{k} of the paired sample"] = [(s.recall_at or {})[k] for s in scores.values()]
    for name, values in rows.items():
        if None not in values:
            table.add_row(name, *(f"{value:.3f}" for value in values))
    if first.median_rank is not None:
        ranks = [f"{s.median_rank:.1f}" for s in scores.values()]
        table.add_row("median rank of the paired sample", *ranks)
    counts = {
        "queries": "n_queries",
        "  without a relevant item": "n_without_relevant",
        "  without a relevant item above the cut-off": "n_without_relevant_in_top",
        "  without a known term": "n_empty_text",
        "database items": "n_database",
        "distinct query codes": "n_distinct_queries",
        "distinct database codes": "n_distinct_database",
    }
    for name, attribute in counts.items():
        numbers = [getattr(of_direction, attribute) for of_direction in scores.values()]
        if None not in numbers and (any(numbers) or attribute != "n_empty_text"):
            table.add_row(name, *(f"{number:,}" for number in numbers))
    out.print(table)


def first_line(thing: Any) -> str:
    """Return the first line of a docstring."""
    return (thing.__doc__ or "").strip().partition("\n")[0]


def reflow(docstring: str) -> str:
    """Join the lines of paragraphs and list entries, so that a terminal can wrap them.

    >>> print(reflow("One\\nsentence.\\n\\nParameters\\n---\\na : long\\n    text.\\nb : short."))
    One sentence.
    <BLANKLINE>
    Parameters
    ---
    a : long text.
    b : short.
    """
    return "\n\n".join(_reflow_block(block) for block in docstring.split("\n\n"))


def _reflow_block(block: str) -> str:
    if ">>>" in block:
        return block
    if re.search("^---", block, flags=re.MULTILINE):
        return re.sub(r"\n +", " ", block)  # only continuation lines are indented
    return " ".join(block.splitlines())
