"""Fair measurements: contenders take turns in one process, and only ratios are reported."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from corrhash.kernels.threads import split_over_threads


@dataclass(frozen=True)
class Row:
    """One measurement.

    Parameters
    ----------
    label : what was measured.
    ratio : the measured value, in ``unit``.
    target : the minimum that the value should reach.
    limit : the maximum that it should not exceed.
    memory : additional MB at the peak.
    """

    label: str
    ratio: float
    unit: str
    target: float | None = None
    note: str = ""
    limit: float | None = None
    memory: float | None = None

    @property
    def verdict(self) -> str:
        if self.limit is not None:
            return "reached" if self.ratio <= self.limit else "missed"
        if self.target is None:
            return ""
        return "reached" if self.ratio >= self.target else "missed"


def best_times(
    contenders: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Return the shortest time of each contender; taking turns evens out load on the machine."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best


def cpu_features() -> dict[str, bool]:
    """Return the CPU features that decide the speed of popcount; False if unknown."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    return {name: name in flags for name in ("avx2", "avx512f", "avx512_vpopcntdq")}


def peak_memory(run: Callable[[], object]) -> float:
    """Return by how many MB the process grows at its peak during a call; NaN if unknown."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return float("nan")
    ctypes.CDLL(None).malloc_trim(0)  # otherwise freed memory would be reused unnoticed

    def read(name: str) -> int:
        return next(int(line.split()[1]) for line in status.open() if line.startswith(name))

    reset.write_text("5")  # reset the peak
    before = read("VmRSS:")
    run()
    return (read("VmHWM:") - before) / 1024


@contextmanager
def on_two_cores() -> Iterator[None]:
    """Pin this thread to one core and the helper threads of the library to another.

    On a busy system both could otherwise stay on one core for the whole measurement.
    """
    cores = sorted(os.sched_getaffinity(0))
    split_over_threads(lambda start, stop: time.sleep(0.01), 2, 2)  # starts a helper thread
    helpers = [thread for thread in threading.enumerate() if thread.name.startswith("corrhash")]
    try:
        os.sched_setaffinity(0, cores[:1])
        for helper in helpers:
            os.sched_setaffinity(helper.native_id or 0, cores[1:2] or cores)
        yield
    finally:
        for number in (0, *(helper.native_id or 0 for helper in helpers)):
            os.sched_setaffinity(number, cores)


def print_rows(title: str, rows: list[Row]) -> None:
    """Print the table of one benchmark."""
    table = Table(
        "", "value", "", "target", "", "peak MB", "note", title=title, title_justify="left"
    )
    for row in rows:
        target = "" if row.target is None else f"{row.target:g}"
        target = target if row.limit is None else f"at most {row.limit:g}"
        memory = "" if row.memory is None else f"{row.memory:.1f}"
        table.add_row(
            row.label, f"{row.ratio:.2f}", row.unit, target, row.verdict, memory, row.note
        )
    Console(width=170).print(table)
