"""Stopwatch: the seconds and the peak memory of each stage of a piece of work."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
PEAK = "VmHWM:"


class Stopwatch:
    """Notes of stages, by name.

    Peak memory is that of the stage on Linux. Elsewhere nothing tells it, and it is the largest
    that the process has had so far.

    >>> watch = Stopwatch()
    >>> with watch.stage("nothing"):
    ...     pass
    >>> list(watch.seconds), watch.peak_mb["nothing"] > 1
    (['nothing'], True)
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak_mb: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note what the block takes."""
        _forget_peak()
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 3)
        self.peak_mb[name] = round(_peak_mb(), 1)


def _forget_peak() -> None:
    with contextlib.suppress(OSError):  # not Linux: the peak of the whole process has to do
        RESET.write_text("5")


def _peak_mb() -> float:
    try:
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith(PEAK))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration):
        import resource  # not on every system, hence not above

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1024 / (1024 if sys.platform == "darwin" else 1)
