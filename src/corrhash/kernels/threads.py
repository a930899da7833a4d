"""Splitting queries over threads: the compiled loops release the lock, so Python threads suffice.

Numba's own parallel loops are not used: their default threading layer must not be entered from
several Python threads at once, which is what a server does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from corrhash.errors import InputError

SLICES_PER_THREAD = 4
"""More slices than threads, so that a thread on a busy core does not hold up the others."""


def n_threads(threads: int | None) -> int:
    """``threads`` itself, or as many as there are cores that this process may use."""
    if threads is None:
        # Not every system lets a process be tied to some of the cores.
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if threads < 1:
        raise InputError(f"threads must be at least 1, or None for all cores. Got {threads}.")
    return threads


def split_over_threads(
    work: Callable[[int, int], object], n_queries: int, threads: int | None, at_least: int = 1
) -> None:
    """Call ``work(start, stop)`` for slices that together cover ``n_queries``, each query once.

    A slice holds ``at_least`` queries, save the last. With one thread there is one slice and no
    pool. What ``work`` raises is raised here.
    """
    threads = n_threads(threads)
    size = max(at_least, -(-n_queries // (threads * SLICES_PER_THREAD)))
    if threads == 1 or size >= n_queries:
        work(0, n_queries)
        return
    starts = range(0, n_queries, size)
    with ThreadPoolExecutor(min(threads, len(starts))) as pool:
        for _ in pool.map(lambda start: work(start, min(start + size, n_queries)), starts):
            pass  # asking for the results raises what the work raised
