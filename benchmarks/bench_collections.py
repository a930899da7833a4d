"""Collections in a folder: one query against the bare kernel, LanceDB's own scan and faiss.

Contenders take turns within one run, query by query. Costs and ratios are of CPU time, that of all
threads together, which a busy machine does not change; the notes give p50 and p99 by the clock on
the wall.
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

from benchmarks.measure import Row
from benchmarks.rivals import faiss_index, faiss_search
from corrhash.codes import Codes
from corrhash.collection import Collection
from corrhash.datasets import make_pairs
from corrhash.index import Item
from corrhash.kernels import scan
from corrhash.methods import METHODS

N_BITS, K = 64, 10
BATCH = 50_000
ROUNDS = 100
SLOW_ROUNDS = 5
"""LanceDB's own scan takes a hundred times as long."""


def random_codes(n: int, seed: int) -> Codes:
    packed = np.random.default_rng(seed).integers(0, 256, (n, N_BITS // 8), dtype=np.uint8)
    return Codes(packed, N_BITS)


def fill(folder: Path, codes: Codes) -> tuple[Collection, float]:
    """A collection of these codes with a key and a text each, and how many a second went in."""
    pairs = make_pairs(300, seed=0)
    collection = Collection.create(folder, METHODS["cvh"](n_bits=N_BITS).fit(pairs))
    seconds = 0.0
    for start in range(0, len(codes), BATCH):
        ids = np.arange(start, min(start + BATCH, len(codes)))
        items = [Item(f"item {number}", f"the text of item {number}") for number in ids.tolist()]
        started = time.perf_counter()
        collection.index.add(ids, codes[ids], items)
        seconds += time.perf_counter() - started
    return collection, len(codes) / seconds


def times(
    contenders: dict[str, Callable[[Codes], object]], rounds: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Milliseconds on the wall and of the CPU for each of several queries, taken in turns."""
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    for seed in range(rounds):
        query = random_codes(1, 1000 + seed)
        for name, ask in contenders.items():
            started, worked = time.perf_counter(), time.process_time()
            ask(query)
            cpu[name].append(1000 * (time.process_time() - worked))
            wall[name].append(1000 * (time.perf_counter() - started))
    return {name: (np.array(wall[name]), np.array(cpu[name])) for name in contenders}


def of_size(n: int, folder: Path) -> list[Row]:
    """All measurements on ``n`` codes."""
    codes = random_codes(n, seed=0)
    collection, per_second = fill(folder, codes)
    collection = Collection.open(folder)  # as a process does that only reads
    planes, index = codes.planes(), faiss_index(codes.packed)
    table = collection.index._table  # type: ignore[attr-defined]

    def of_lancedb(query: Codes) -> None:
        found = table.search(query.packed[0].tolist(), vector_column_name="image_code")
        found.distance_type("hamming").select(["id", "_distance"]).limit(K).to_arrow()

    quick: dict[str, Callable[[Codes], object]] = {
        "kernel": lambda query: scan.nearest(query.planes(), planes, N_BITS, K),
        "ids": lambda query: collection.nearest(query, K),
        "items": lambda query: collection.search_codes(query, K),
        "faiss": lambda query: faiss_search(index, query.packed, K, heap=True),
    }
    times(quick, 5)  # compiles, opens files, fills memory
    taken = times(quick, ROUNDS) | times({"lancedb": of_lancedb}, SLOW_ROUNDS)
    middle = {name: float(np.median(cpu)) for name, (_, cpu) in taken.items()}
    notes = {
        name: f"p50 {np.median(wall):.2f} ms, p99 {np.percentile(wall, 99):.2f} ms"
        for name, (wall, _) in taken.items()
    }
    load = f"load {os.getloadavg()[0]:.1f}"
    what = f"{n:,} x {N_BITS} bits, one query, k = {K}"
    in_memory, on_disk = bytes_in_memory(collection) / n, bytes_on_disk(folder) / n
    cost = {name: middle[name] - middle["kernel"] for name in ("ids", "items")}
    return [
        Row(f"{what}: the kernel alone", 1.0, "", note=f"{notes['kernel']}, {load}"),
        Row(f"{what}: ids and distances", cost["ids"], "ms more", note=notes["ids"], limit=1.0),
        Row(f"{what}: items too", cost["items"], "ms more", note=notes["items"], limit=4.0),
        Row(what, middle["lancedb"] / middle["ids"], "x LanceDB's scan", note=notes["lancedb"]),
        Row(what, middle["faiss"] / middle["ids"], "x faiss", note=notes["faiss"]),
        Row(f"{n:,} items added", per_second / 1000, "thousand a second", note=f"by {BATCH:,}"),
        Row(f"{n:,} items in memory", in_memory, "bytes an item"),
        Row(f"{n:,} items on disk", on_disk, "bytes an item", note="with keys and short texts"),
    ]


def bytes_in_memory(collection: Collection) -> int:
    """What the codes, ids and places of a folder take."""
    tables = collection.index._tables.values()  # type: ignore[attr-defined]
    arrays = [a for t in tables for a in (t._ids, t._places, t._planes)]
    return sum(array.nbytes for array in arrays)


def bytes_on_disk(folder: Path) -> int:
    """What the table takes once its files are merged."""
    return sum(path.stat().st_size for path in (folder / "items.lance").rglob("*.lance"))


def rows(quick: bool = False) -> list[Row]:
    """All measurements; a tenth of the size if ``quick``, for which the limits are not meant."""
    faiss.omp_set_num_threads(1)
    part = 10 if quick else 1
    measured = []
    for n in (1_000_000 // part, 10_000_000 // part):
        with tempfile.TemporaryDirectory(prefix="corrhash-bench-") as folder:
            measured += of_size(n, Path(folder) / "collection")
    return [replace(row, limit=None) for row in measured] if quick else measured
