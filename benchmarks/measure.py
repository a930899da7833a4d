"""Measuring fairly: contenders take turns in one run, and only their ratios are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One line of a table: ``ratio`` is what was reached, ``target`` what should be.

    ``limit`` is what it should not exceed, where less is better.
    """

    what: str
    ratio: float
    unit: str
    target: float | None = None
    note: str = ""
    limit: float | None = None

    @property
    def verdict(self) -> str:
        if self.limit is not None:
            return "kept" if self.ratio <= self.limit else "exceeded"
        if self.target is None:
            return ""
        return "reached" if self.ratio >= self.target else "missed"


def best_times(
    contenders: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """The shortest time of each contender; they take turns, so that all see the same machine."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best


def cpu_features() -> dict[str, bool]:
    """What decides the speed of counting bits; empty where the system does not tell."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    return {name: name in flags for name in ("avx2", "avx512f", "avx512_vpopcntdq")}


def print_rows(title: str, rows: list[Row]) -> None:
    """The table of one benchmark."""
    table = Table("", "ratio", "", "target", "", "note", title=title, title_justify="left")
    for row in rows:
        target = "" if row.target is None else f"{row.target:g}"
        target = target if row.limit is None else f"at most {row.limit:g}"
        table.add_row(row.what, f"{row.ratio:.2f}", row.unit, target, row.verdict, row.note)
    Console(width=150).print(table)
