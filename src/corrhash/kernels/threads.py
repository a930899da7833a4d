"""Splitting work over threads: the compiled loops release the lock, so Python threads suffice.

Numba's own parallel loops are not used: their default threading layer must not be entered from
several Python threads at once, which is what a server does.

The thread that asks works too. Its helpers wait for the next call: to start a thread takes as long
as to compare 200,000 codes, to wake one a third of that.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from corrhash.errors import InputError

SLICES_PER_THREAD = 4
"""More slices than threads, so that a thread on a busy core does not hold up the others."""

MOST_HELPERS = 256
"""Threads that are started at most, one at a time as they are needed."""


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

    A slice holds ``at_least`` queries, save the last. With one thread there is one slice, and no
    helper. What ``work`` raises is raised here, after all threads have come to an end.
    """
    threads = n_threads(threads)
    size = max(at_least, -(-n_queries // (threads * SLICES_PER_THREAD)))
    if threads == 1 or size >= n_queries:
        work(0, n_queries)
        return
    starts = range(0, n_queries, size)
    left = iter(starts)  # which all threads take from

    def take() -> None:
        for start in left:
            work(start, min(start + size, n_queries))

    pool = _helpers(os.getpid())
    helpers = [pool.submit(take) for _ in range(min(threads, len(starts)) - 1)]
    try:
        take()
    finally:
        # Helpers that are busy with other calls are not waited for: nothing is left to take.
        helpers = [helper for helper in helpers if not helper.cancel()]
        wait(helpers)
    for helper in helpers:
        helper.result()


@functools.cache
def _helpers(process: int) -> ThreadPoolExecutor:
    """The threads of this process: a fork leaves its child without those of its parent."""
    return ThreadPoolExecutor(MOST_HELPERS, thread_name_prefix="corrhash")
