"""The exact scan against other programs and against memory bandwidth, as ratios of one run.

Contenders take turns for several rounds, and the best round of each counts: CPU time of one thread,
except for two threads. Times are not printed, because the machine can be shared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import faiss
import numpy as np
import torch
from numba import njit, types
from numba.extending import intrinsic

from benchmarks.baselines import exact_baselines, faiss_index, faiss_search
from benchmarks.measure import Row, best_times, cpu_features, on_two_cores, peak_memory
from corrhash.codes import Codes
from corrhash.index.items import Item
from corrhash.index.memory import MemoryIndex
from corrhash.kernels import scan
from corrhash.kernels.multi_index import MultiIndex
from corrhash.kernels.simd import emit_prefetch


def random_codes(n: int, n_bits: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random codes in the layouts of faiss, (n, n_bits / 8), and the scan, (n_words, n)."""
    packed = np.random.default_rng(seed).integers(0, 256, (n, n_bits // 8), dtype=np.uint8)
    return packed, np.ascontiguousarray(packed.view(np.uint64).T)


def clustered_codes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 64-bit codes that follow several labels per item, like those of a trained model."""
    n_labels, at_once = 24, 500_000
    meaning = np.random.default_rng(0).normal(size=(n_labels, 64)).astype(np.float32)
    random = np.random.default_rng(seed)
    packed = np.empty((n, 8), np.uint8)
    for start in range(0, n, at_once):
        some = packed[start : start + at_once]
        labels = random.random((len(some), n_labels), np.float32) < 0.06
        labels[np.arange(len(some)), random.integers(n_labels, size=len(some))] = True
        noise = random.standard_normal((len(some), 64), np.float32)
        some[:] = np.packbits(labels @ meaning + 0.5 * noise > 0, axis=1)
    return packed, np.ascontiguousarray(packed.view(np.uint64).T)


def compare(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]) -> str:
    """Report whether two results agree, up to the order of ties.

    faiss returns ties in any order. Distances must be equal. Rows must be equal once ties are in
    row order, except at the last distance, where each program can keep other rows.
    """
    (rows, distances), (their_rows, their_distances) = ours, theirs
    if not np.array_equal(distances, their_distances):
        return "distances differ"
    if np.array_equal(rows, their_rows):
        return "ids identical"
    order = np.lexsort((their_rows, their_distances), axis=1)
    differ = rows != np.take_along_axis(their_rows, order, axis=1)
    inner = distances < distances[:, -1:]
    return "ids differ" if (differ & inner).any() else "ids identical except for ties"


def against_faiss(
    n: int,
    n_bits: int,
    n_queries: int,
    k: int,
    target: float | None = None,
    rounds: int = 7,
    with_slow: bool = False,
) -> Row:
    """Measure the speedup over the better of the two modes of ``IndexBinaryFlat``.

    ``with_slow`` also times slower programs, in fewer rounds; the note gives their ratios.
    """
    packed, planes = random_codes(n, n_bits, seed=0)
    packed_queries, query_planes = random_codes(n_queries, n_bits, seed=1)
    index = faiss_index(packed)

    def ours() -> tuple[np.ndarray, np.ndarray]:
        return scan.nearest(query_planes, planes, n_bits, k, threads=1)

    # Compile on a few rows first: the compiler takes more memory than the search.
    scan.nearest(query_planes, np.ascontiguousarray(planes[:, :k]), n_bits, k, threads=1)
    memory = peak_memory(ours)
    rows, distances = ours()
    note = compare((rows, distances), faiss_search(index, packed_queries, k, heap=True))
    best = best_times(
        {
            "ours": ours,
            "heap": lambda: faiss_search(index, packed_queries, k, heap=True),
            "counts": lambda: faiss_search(index, packed_queries, k, heap=False),
        },
        rounds,
        time.thread_time,
    )
    if with_slow:
        note = f"{note}; {against_others(packed, packed_queries, distances, best['ours'])}"
    ratio = min(best["heap"], best["counts"]) / best["ours"]
    what = f"{n:,} x {n_bits} bits, {n_queries:,} queries, k = {k:,}"
    return Row(what, ratio, "x faiss", target, note, memory=memory)


def against_others(
    packed: np.ndarray, packed_queries: np.ndarray, distances: np.ndarray, ours: float
) -> str:
    """Return the speedups over slow programs, whose distances must be equal."""
    contenders = exact_baselines(packed, packed_queries, distances.shape[1])
    for name, run in contenders.items():
        if not np.array_equal(run(), distances):
            raise SystemExit(f"{name} returned other distances.")
    best = best_times(contenders, 2, time.process_time)
    return ", ".join(f"{spent / ours:.0f} x {name}" for name, spent in best.items())


def two_threads(n: int, n_queries: int, target: float | None = 1.8, rounds: int = 30) -> Row:
    """Measure the wall-clock speedup of two threads over one.

    On a busy machine two threads share the time of one core. The note gives the load, and the
    speedup that two idle cores would give, from the CPU time of both threads.
    """
    _, planes = random_codes(n, 64, seed=2)
    _, query_planes = random_codes(n_queries, 64, seed=3)
    contenders = {
        "one": lambda: scan.nearest(query_planes, planes, 64, 100, threads=1),
        "two": lambda: scan.nearest(query_planes, planes, 64, 100, threads=2),
    }
    with on_two_cores():
        wall = best_times(contenders, rounds, time.perf_counter)
        cpu = best_times(contenders, rounds, time.process_time)
    queries = f"{n_queries:,} queries" if n_queries > 1 else "one query"
    what = f"{n:,} x 64 bits, {queries}, k = 100, two threads"
    free = 2 * cpu["one"] / cpu["two"]
    note = f"wall clock at load {os.getloadavg()[0]:.1f}; two idle cores would give "
    return Row(what, wall["one"] / wall["two"], "x one thread", target, f"{note}{free:.2f}")


@intrinsic
def prefetch(typing_context: Any, plane: Any, index: Any) -> Any:
    """Prefetch the cache line of ``plane[index]``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(plane)(context, builder, arguments[0]).data
        emit_prefetch(builder, builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return types.none(plane, types.int64), emit


@njit(nogil=True, boundscheck=False)
def read(plane: np.ndarray) -> int:
    """Sum all words with the prefetch of the scan, at the speed of memory."""
    total = np.uint64(0)
    step = np.uint64(64)
    for start in range(np.uint64(0), np.uint64(len(plane)) // step * step, step):
        for line in range(0, 64, 8):
            prefetch(plane, start + scan.AHEAD + line)
        for i in range(step):
            total += plane[start + i]
    return total


def one_query(n: int, n_databases: int = 3, rounds: int = 12) -> list[Row]:
    """Measure one query on a database outside the cache, against reading it and against faiss.

    The contenders rotate over several databases, so that none is in the cache.
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
    memory = peak_memory(contenders["ours"])
    what = f"{n:,} x 64 bits, one query, k = 100, cold"
    return [
        Row(what, best["read"] / best["ours"], "of a prefetching read", 0.9, memory=memory),
        Row(what, min(best["heap"], best["counts"]) / best["ours"], "x faiss"),
        Row(f"{n:,} x 64 bits, scanned", 8 + memory * 2**20 / n, "bytes/code", limit=9.0),
    ]


def multi_index(n: int, clustered: bool, ks: tuple[int, ...], n_queries: int = 20) -> list[Row]:
    """Measure single queries by multi-index hashing, against the scan and against faiss.

    The tables are built before; the note gives the time.
    """
    draw = clustered_codes if clustered else partial(random_codes, n_bits=64)
    (packed, planes), (_, queries) = draw(n, seed=1), draw(n_queries, seed=2)
    index = faiss_index(packed)
    MultiIndex.build(planes[0, :1], threads=1)  # compiles
    started = time.process_time()
    tables = MultiIndex.build(planes[0], threads=1)
    built = time.process_time() - started
    memory = sum(a.nbytes for a in (tables.begins, tables.codes, tables.rows)) / 2**20
    kind = "clustered" if clustered else "random"
    measured = []
    for k in ks:
        contenders = {
            "tables": lambda query, k=k: tables.nearest(query, planes, k, threads=1),
            "scan": lambda query, k=k: scan.nearest(query, planes, 64, k, threads=1),
            "faiss": lambda query, k=k: faiss_search(index, query.view(np.uint8), k, heap=True),
        }
        spent = single_query_times(contenders, queries)
        what = f"{n:,} x 64 bits, {kind}, one query, k = {k:,}, multi-index"
        note = f"{spent['faiss'] / spent['tables']:.1f} x faiss with a heap; built in {built:.1f} s"
        ratio, target = spent["scan"] / spent["tables"], 2.0 if k == 100 else None
        measured.append(Row(what, ratio, "x the scan", target, note, memory=memory))
    return measured


def single_query_times(
    contenders: dict[str, Callable[[np.ndarray], Any]], queries: np.ndarray
) -> dict[str, float]:
    """Time each contender on all queries, one by one; the first two must agree."""
    spent = dict.fromkeys(contenders, 0.0)
    for q in range(queries.shape[1]):
        query = np.ascontiguousarray(queries[:, q : q + 1])
        runs = {name: partial(run, query) for name, run in contenders.items()}
        ours, theirs = (run() for run in list(runs.values())[:2])
        if not all(np.array_equal(*pair) for pair in zip(ours, theirs, strict=True)):
            raise SystemExit("Multi-index hashing and the scan differ.")
        for name, seconds in best_times(runs, 3, time.thread_time).items():
            spent[name] += seconds
    return spent


def filtered(n: int, share: float) -> Row:
    """Measure a search with a repeated filter, against the same search without one."""
    packed, _ = random_codes(n, 64, seed=1)
    codes, index = Codes(packed, 64), MemoryIndex(64, threads=1)
    years = np.random.default_rng(0).random(n)
    items = [Item(str(i), metadata={"year": year}) for i, year in enumerate(years.tolist())]
    index.add(np.arange(n), codes, items)
    queries, where = codes[:1], f"year < {share}"
    started = time.thread_time()
    index.search(queries, 100, where=where)
    first = time.thread_time() - started
    contenders = {
        "without": lambda: index.search(queries, 100),
        "repeated": lambda: index.search(queries, 100, where=where),
    }
    best = best_times(contenders, 30, time.thread_time)
    what = f"{n:,} x 64 bits, one query, k = 100, {share:.0%} pass a filter"
    note = f"repeated; the first search took {first / best['without']:.0f} times as long"
    return Row(what, best["without"] / best["repeated"], "x without a filter", None, note)


def rows(quick: bool = False, targets_only: bool = False) -> list[Row]:
    """Return all measurements; with ``quick`` on a tenth of the codes and without targets."""
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    part = 10 if quick else 1
    batched = 10.0 if cpu_features()["avx512_vpopcntdq"] else 3.0
    million = 1_000_000 // part
    ks = (100,) if targets_only else (10, 100, 1000)
    measured = [
        against_faiss(million, 64, 100, 100, target=batched, with_slow=True),
        against_faiss(million // 5, 64, 300, 1000, target=4.0, with_slow=True),
        two_threads(million, 400),
        *one_query(10 * million),
        two_threads(10 * million, 1, target=None),
        *multi_index(10 * million, clustered=False, ks=ks),
        *multi_index(10 * million, clustered=True, ks=ks),
    ]
    if not targets_only:
        measured += [
            against_faiss(million // 5, 64, 2000, 10),
            against_faiss(million // 5, 64, 2000, 100),
            against_faiss(million, 128, 100, 100),
            filtered(million // 5, 0.5),
            filtered(million // 5, 0.05),
        ]
    return [replace(row, target=None, limit=None) for row in measured] if quick else measured
