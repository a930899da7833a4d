"""What the verbs say of a split and of the numbers that were measured on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from corrhash.cli.terminal import out, say

if TYPE_CHECKING:  # heavy parts are imported by the verbs that need them: help comes at once
    from corrhash.datasets.base import RetrievalSplit
    from corrhash.metrics import Scores


def say_split(split: RetrievalSplit) -> None:
    sizes = (
        f"{len(split.train):,} to train on, {len(split.query):,} queries, "
        f"{len(split.database):,} in the database"
    )
    say(f"{split.name}: {sizes}")
    if split.fingerprint is not None:
        say(f"Fingerprint: {split.fingerprint}")


def score_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column)
    table.add_column("image → text", justify="right")
    table.add_column("text → image", justify="right")
    return table


def add_scores(table: Table, scores: dict[str, Scores], *cells: str) -> None:
    table.add_row(*cells, *(f"{of_direction.map:.3f}" for of_direction in scores.values()))


def print_scores(scores: dict[str, Scores], without: dict[str, Scores] | None) -> None:
    """The numbers of both directions and the choices they rest on."""
    first, *_ = scores.values()
    table = score_table(
        f"ranked by {first.ranked_by}, reading={first.reading}, ties={first.ties}", ""
    )
    add_scores(table, scores, "MAP")
    if without is not None:
        add_scores(table, without, "MAP, database without training items")
    rows = {
        "precision@1": lambda s: s.precision_at.get(1),
        "precision@100": lambda s: s.precision_at.get(100),
        "precision within radius 2": lambda s: s.precision_within_2,
        "NDCG@100": lambda s: s.ndcg_at.get(100),
    }
    for name, number in rows.items():
        values = [number(s) for s in scores.values()]
        table.add_row(name, *("-" if v is None else f"{v:.3f}" for v in values))
    for rank in first.recall_at or ():
        values = [(s.recall_at or {})[rank] for s in scores.values()]
        table.add_row(f"partner among the first {rank}", *(f"{v:.3f}" for v in values))
    counts = {
        "queries": "n_queries",
        "  without a relevant item": "n_empty",
        "  without one in the top": "n_empty_top",
        "  without a known word": "n_untagged",
        "database": "n_database",
        "distinct codes of queries": "n_distinct_queries",
        "distinct codes of the database": "n_distinct_database",
    }
    for name, attribute in counts.items():
        numbers = [getattr(s, attribute) for s in scores.values()]
        if None not in numbers:
            table.add_row(name, *(f"{number:,}" for number in numbers))
    out.print(table)
