"""The exact scan against faiss and against the memory: ratios from one interleaved run.

Each contender is timed in turn, several rounds long, and its best round counts: CPU time of one
thread, except for the row on two threads. Times are not printed, because the machine is shared.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import faiss
import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from benchmarks.measure import Row, best_times, cpu_features
from corrhash.kernels import scan
from corrhash.kernels.vectors import emit_prefetch


def random_codes(n: int, n_bits: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random codes as faiss wants them, (n, n_bits / 8), and as the scan does, (n_words, n)."""
    packed = np.random.default_rng(seed).integers(0, 256, (n, n_bits // 8), dtype=np.uint8)
    return packed, np.ascontiguousarray(packed.view(np.uint64).T)


def faiss_index(packed: np.ndarray) -> faiss.IndexBinaryFlat:
    index = faiss.IndexBinaryFlat(packed.shape[1] * 8)
    index.add(packed)
    return index


def faiss_search(
    index: faiss.IndexBinaryFlat, packed: np.ndarray, k: int, heap: bool
) -> tuple[np.ndarray, np.ndarray]:
    index.use_heap = heap
    distances, rows = index.search(packed, k)
    return rows, distances


def compare(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]) -> str:
    """Whether two answers agree, as far as the order of equal distances lets them.

    faiss orders equal distances as it likes. Distances must be the same; rows must be the same
    once ties stand in row order, except at the last distance, where each may keep other rows.
    """
    (rows, distances), (their_rows, their_distances) = ours, theirs
    if not np.array_equal(distances, their_distances):
        return "distances differ"
    if np.array_equal(rows, their_rows):
        return "ids identical outright"
    order = np.lexsort((their_rows, their_distances), axis=1)
    differ = rows != np.take_along_axis(their_rows, order, axis=1)
    inner = distances < distances[:, -1:]
    return "ids differ" if (differ & inner).any() else "ids identical but for ties"


def against_faiss(
    n: int, n_bits: int, n_queries: int, k: int, target: float | None = None, rounds: int = 7
) -> Row:
    """How many times faster than the better of the two modes of ``IndexBinaryFlat``."""
    packed, planes = random_codes(n, n_bits, seed=0)
    packed_queries, query_planes = random_codes(n_queries, n_bits, seed=1)
    index = faiss_index(packed)

    def ours() -> tuple[np.ndarray, np.ndarray]:
        return scan.nearest(query_planes, planes, n_bits, k, threads=1)

    note = compare(ours(), faiss_search(index, packed_queries, k, heap=True))
    best = best_times(
        {
            "ours": ours,
            "heap": lambda: faiss_search(index, packed_queries, k, heap=True),
            "counts": lambda: faiss_search(index, packed_queries, k, heap=False),
        },
        rounds,
        time.thread_time,
    )
    ratio = min(best["heap"], best["counts"]) / best["ours"]
    what = f"{n:,} x {n_bits} bits, {n_queries:,} queries, k = {k:,}"
    return Row(what, ratio, "x faiss", target, note)


def two_threads(n: int, n_queries: int, rounds: int = 30) -> Row:
    """How many times faster two threads are than one, by the clock on the wall.

    On a busy machine two threads share one core's worth of time: the note gives the load, and the
    CPU time of both threads together, which tells what two free cores would give.
    """
    _, planes = random_codes(n, 64, seed=2)
    _, query_planes = random_codes(n_queries, 64, seed=3)
    contenders = {
        "one": lambda: scan.nearest(query_planes, planes, 64, 100, threads=1),
        "two": lambda: scan.nearest(query_planes, planes, 64, 100, threads=2),
    }
    wall = best_times(contenders, rounds, time.perf_counter)
    cpu = best_times(contenders, rounds, time.process_time)
    what = f"{n:,} x 64 bits, {n_queries:,} queries, k = 100, two threads"
    note = f"wall clock at load {os.getloadavg()[0]:.1f}; CPU {cpu['two'] / cpu['one']:.2f}x"
    return Row(what, wall["one"] / wall["two"], "x one thread", 1.8, note)


@intrinsic
def prefetch(typing_context: Any, plane: Any, index: Any) -> Any:
    """Ask for the cache line of ``plane[index]``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(plane)(context, builder, arguments[0]).data
        emit_prefetch(builder, builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return types.none(plane, types.int64), emit


@njit(nogil=True, boundscheck=False)
def read(plane: np.ndarray) -> int:
    """Add up all words, with the prefetch of the scan: as fast as the memory gives them."""
    total = np.uint64(0)
    step = np.uint64(64)
    for start in range(np.uint64(0), np.uint64(len(plane)) // step * step, step):
        for line in range(0, 64, 8):
            prefetch(plane, start + scan.AHEAD + line)
        for i in range(step):
            total += plane[start + i]
    return total


def one_query(n: int, n_databases: int = 3, rounds: int = 12) -> list[Row]:
    """One query on a database that the cache does not hold, against reading it and against faiss.

    The contenders walk round several databases, so that none finds its own in the cache.
    """
    packed_query, query_planes = random_codes(1, 64, seed=4)
    codes = [random_codes(n, 64, seed=5 + i) for i in range(n_databases)]
    indexes = [faiss_index(packed) for packed, _ in codes]
    turn = iter(range(10**9))

    def planes() -> np.ndarray:
        return codes[next(turn) % n_databases][1]

    def flat(heap: bool) -> None:
        faiss_search(indexes[next(turn) % n_databases], packed_query, 100, heap)

    contenders = {
        "ours": lambda: scan.nearest(query_planes, planes(), 64, 100, threads=1),
        "read": lambda: read(planes()[0]),
        "heap": lambda: flat(heap=True),
        "counts": lambda: flat(heap=False),
    }
    contenders["read"]()  # compiles
    best = best_times(contenders, rounds, time.thread_time)
    what = f"{n:,} x 64 bits, one query, k = 100, cold"
    return [
        Row(what, best["read"] / best["ours"], "of a prefetching read", 0.9),
        Row(what, min(best["heap"], best["counts"]) / best["ours"], "x faiss"),
    ]


def rows(quick: bool = False) -> list[Row]:
    """All measurements; a tenth of the size if ``quick``, for which the targets are not meant."""
    faiss.omp_set_num_threads(1)
    part = 10 if quick else 1
    batched = 10.0 if cpu_features()["avx512_vpopcntdq"] else 3.0
    measured = [
        against_faiss(1_000_000 // part, 64, 100, 100, target=batched),
        against_faiss(200_000 // part, 64, 2000, 10),
        against_faiss(200_000 // part, 64, 2000, 100),
        against_faiss(200_000 // part, 64, 300, 1000, target=4.0),
        against_faiss(1_000_000 // part, 128, 100, 100),
        two_threads(1_000_000 // part, 400),
        *one_query(10_000_000 // part),
    ]
    return [replace(row, target=None) for row in measured] if quick else measured
