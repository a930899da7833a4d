"""Collections in a folder: what a query costs beyond the bare kernel, filters, ingest and loading.

Contenders take turns within one run, query by query. Costs and ratios are CPU times of all
threads together, which other processes on the machine hardly change. Notes give wall-clock times.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import faiss
import numpy as np

from benchmarks.baselines import faiss_index, faiss_search
from benchmarks.measure import Row, peak_memory
from corrhash.codes import Codes
from corrhash.collection.collection import Collection
from corrhash.datasets import make_pairs
from corrhash.index import Item
from corrhash.index.sqlite import DATABASE_FILE
from corrhash.kernels import scan
from corrhash.methods import METHODS
from corrhash.model import Model

N_BITS, K = 64, 10
BATCH = 50_000
ROUNDS = 200
FILTERS = {
    "a label": "'label 3' in labels",
    "a number": "year = 2010",
    "a range of keys": "key >= 'item 5' and key < 'item 6'",
    "two conditions": "year >= 2010 and not 'label 3' in labels",
}
FILTERED = 1_000_000
"""Number of items on which filters are measured."""


def random_codes(n: int, seed: int) -> Codes:
    """Codes of random bits."""
    packed = np.random.default_rng(seed).integers(0, 256, (n, N_BITS // 8), dtype=np.uint8)
    return Codes(packed, N_BITS)


def fill(folder: Path, codes: Codes) -> Row:
    """Create a collection in which each item has a key, a short text, a label and a number."""
    pairs = make_pairs(300, seed=0)
    collection = Collection.create(folder, Model(METHODS["cvh"](n_bits=N_BITS).fit(pairs)))
    wall = cpu = 0.0
    for start in range(0, len(codes), BATCH):
        ids = np.arange(start, min(start + BATCH, len(codes)))
        items = [
            Item(f"item {i}", f"the text of item {i}", [f"label {i % 50}"], {"year": 1990 + i % 30})
            for i in ids.tolist()
        ]
        started, worked = time.perf_counter(), time.process_time()
        collection.index.add(ids, codes[ids], items)
        wall += time.perf_counter() - started
        cpu += time.process_time() - worked
    note = f"in batches of {BATCH:,}, {len(codes) / wall / 1000:.0f} by the clock"
    return Row(f"{len(codes):,} items added", len(codes) / cpu / 1000, "thousand/CPU-s", note=note)


def timed(work: Callable[[], object]) -> tuple[float, str]:
    """Return CPU seconds, and a note with wall-clock seconds."""
    started, worked = time.perf_counter(), time.process_time()
    work()
    cpu = time.process_time() - worked
    return cpu, f"{time.perf_counter() - started:.2f} s by the clock"


def times(
    contenders: dict[str, Callable[[Codes], object]], rounds: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return wall-clock and CPU milliseconds of each query, with contenders taking turns."""
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    for seed in range(rounds):
        query = random_codes(1, 1000 + seed)
        for name, search in contenders.items():
            started, worked = time.perf_counter(), time.process_time()
            search(query)
            cpu[name].append(1000 * (time.process_time() - worked))
            wall[name].append(1000 * (time.perf_counter() - started))
    return {name: (np.array(wall[name]), np.array(cpu[name])) for name in contenders}


def of_size(n: int, folder: Path) -> list[Row]:
    """Return all measurements on ``n`` codes."""
    codes = random_codes(n, seed=0)
    ingest = fill(folder, codes)
    collection = Collection.open(folder)  # as a process that only reads
    index, planes, flat = collection.index, codes.planes(), faiss_index(codes.packed)
    warm = random_codes(1, seed=1)
    for k in (1, K):
        scan.nearest(warm.planes(), planes, N_BITS, k)  # compiles
    memory = 0.0

    def load() -> None:
        nonlocal memory
        memory = peak_memory(lambda: index.search(warm, 1))

    loaded = timed(load)
    rng = np.random.default_rng(2)
    contenders: dict[str, Callable[[Codes], object]] = {
        "kernel": lambda query: scan.nearest(query.planes(), planes, N_BITS, K),
        "ids": lambda query: collection.nearest(query, K),
        "items": lambda query: collection.search(codes=query, k=K),
        "get": lambda query: index.get(rng.integers(0, n, K)),
        "len": lambda query: len(collection),
        "faiss": lambda query: faiss_search(flat, query.packed, K, heap=True),
    }
    times(contenders, 5)  # opens connections, fills caches
    taken = times(contenders, ROUNDS)
    cpu = {name: float(np.median(cpu)) for name, (_, cpu) in taken.items()}
    notes = {
        name: f"p50 {np.median(wall):.2f} ms, p99 {np.percentile(wall, 99):.2f} ms"
        for name, (wall, _) in taken.items()
    }
    over = {
        name: float(np.median(taken[name][1] - taken["kernel"][1])) for name in ("ids", "items")
    }
    what = f"{n:,} x {N_BITS} bits, one query, k = {K}"
    note = f"{notes['kernel']}, load {os.getloadavg()[0]:.1f}"
    held = bytes_in_memory(collection)
    peak = f"{loaded[1]}, {memory * 2**20 / held:.1f} times what is held then"
    return [
        Row(f"{what}: kernel alone", cpu["kernel"], "ms", note=note),
        Row(f"{what}: ids over kernel", over["ids"], "ms", note=notes["ids"], limit=0.1),
        Row(f"{what}: items over kernel", over["items"], "ms", note=notes["items"], limit=0.5),
        Row(f"{n:,} items: {K} by id", cpu["get"], "ms", note=notes["get"], limit=0.1),
        Row(f"{n:,} items: len(collection)", cpu["len"], "ms", note=notes["len"], limit=0.1),
        Row(what, cpu["faiss"] / cpu["ids"], "x faiss", note=notes["faiss"]),
        ingest,
        Row(f"{n:,} codes loaded", loaded[0], "CPU-s", note=peak, limit=5, memory=memory),
        Row(f"{n:,} codes in memory", held / n, "bytes/item", limit=17),
        Row(f"{n:,} items on disk", bytes_on_disk(folder) / n, "bytes/item"),
        *(
            row
            for name, where in (FILTERS.items() if n <= FILTERED else ())
            for row in filtered(collection, planes, name, where)
        ),
    ]


def filtered(collection: Collection, planes: np.ndarray, name: str, where: str) -> list[Row]:
    """Measure a filter at its first use, and what it costs when it is repeated."""
    warm = random_codes(1, seed=1)
    cpu, note = timed(lambda: collection.nearest(warm, K, where=where))
    passing = len(collection.index.select(where))
    subset = np.ascontiguousarray(planes[:, :passing])
    contenders: dict[str, Callable[[Codes], object]] = {
        "kernel": lambda query: scan.nearest(query.planes(), subset, N_BITS, K),
        "again": lambda query: collection.nearest(query, K, where=where),
    }
    times(contenders, 5)
    taken = times(contenders, ROUNDS)
    again = float(np.median(taken["again"][1] - taken["kernel"][1]))
    what, note = f"{len(collection):,} items, {name}", f"{where}; {passing:,} pass; {note}"
    return [
        Row(f"{what}: first", 1000 * cpu, "ms", note=note, limit=100),
        Row(f"{what}: again, over kernel", again, "ms", note="of as many codes", limit=0.1),
    ]


def bytes_in_memory(collection: Collection) -> int:
    """Return the bytes of codes and ids in memory."""
    tables = collection.index._codes.tables.values()  # type: ignore[attr-defined]
    return sum(table.nbytes for table in tables)


def bytes_on_disk(folder: Path) -> int:
    """Return the size of the database."""
    return (folder / DATABASE_FILE).stat().st_size


def rows(quick: bool = False) -> list[Row]:
    """Return all measurements; with ``quick`` on a tenth of the items and without limits."""
    faiss.omp_set_num_threads(1)
    part = 10 if quick else 1
    measured = []
    for n in (1_000_000 // part, 10_000_000 // part):
        with tempfile.TemporaryDirectory(prefix="corrhash-bench-") as folder:
            measured += of_size(n, Path(folder) / "collection")
    return [replace(row, limit=None) for row in measured] if quick else measured
