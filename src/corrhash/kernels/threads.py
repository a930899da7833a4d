"""Splitting work over threads: compiled loops release the GIL, so Python threads suffice.

Numba's parallel loops are not used: their default threading layer must not be entered from several
Python threads at once, as a server does.

The calling thread works too, and helper threads stay alive between calls: starting a thread takes
as long as comparing 200,000 codes, waking one a third of that.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
from numpy.typing import NDArray

from corrhash.errors import InputError


def read_only(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a read-only view in C order: numba compiles a loop once per kind of array."""
    view = np.ascontiguousarray(words).view()
    view.flags.writeable = False
    return view


SLICES_PER_THREAD = 4
"""Slices per thread, so that a thread on a busy core does not delay the others."""

MAX_HELPERS = 256
"""Most helper threads; they are started when needed."""


def n_threads(threads: int | None) -> int:
    """Return ``threads``, or the number of cores that this process can use if it is None."""
    if threads is None:
        # Not every operating system has processor affinity.
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if threads < 1:
        raise InputError(f"threads must be at least 1, or None for all cores, got {threads}.")
    return threads


def split_over_threads(
    work: Callable[[int, int], object], n_queries: int, threads: int | None, at_least: int = 1
) -> None:
    """Call ``work(start, stop)`` for slices that together cover ``n_queries``, each query once.

    A slice holds ``at_least`` queries, except the last. One thread gets one slice and no helper.
    Exceptions of ``work`` are raised here, after all threads have ended.
    """
    threads = n_threads(threads)
    size = max(at_least, -(-n_queries // (threads * SLICES_PER_THREAD)))
    if threads == 1 or size >= n_queries:
        work(0, n_queries)
        return
    starts = range(0, n_queries, size)
    left = iter(starts)  # shared by all threads

    def take() -> None:
        for start in left:
            work(start, min(start + size, n_queries))

    pool = _helpers(os.getpid())
    helpers = [pool.submit(take) for _ in range(min(threads, len(starts)) - 1)]
    try:
        take()
    finally:
        # Helpers that have not started are cancelled: no slices are left.
        helpers = [helper for helper in helpers if not helper.cancel()]
        wait(helpers)
    for helper in helpers:
        helper.result()


@functools.cache
def _helpers(process: int) -> ThreadPoolExecutor:
    """Return the threads of this process; a forked child does not inherit them."""
    return ThreadPoolExecutor(MAX_HELPERS, thread_name_prefix="corrhash")
