"""Bytes, rates and recall on a Milvus server, from which ``docs/guides/scale.md`` computes sizes.

``python -m benchmarks.scale [--codes 300000]``

Codes follow labels, as those of trained models do: random codes have no neighbourhoods, which
would make any approximate index look bad. Items have a key and a short text, and no thumbnail.
The server is restarted before memory is compared, because it does not release memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pymilvus import MilvusClient
from tools.milvus_server import ADDRESS, MilvusServer, enter_namespace, why_not

from benchmarks.bench_evaluate import Task
from benchmarks.measure import Row, best_times, print_rows
from corrhash.codes import Codes
from corrhash.index import Item
from corrhash.index.memory import MemoryIndex
from corrhash.index.milvus import MilvusIndex
from corrhash.kernels import scan

NAME = "scale"
N_BITS, K, N_QUERIES = 64, 10, 100
BATCH = 5_000
LISTS = 1024
"""Lists into which BIN_IVF_FLAT divides each segment."""

ROUNDS = 5
SETTLED = 10
"""Seconds after which a started server has loaded its own data."""

PROBES = (1, 8, 32, 128)
"""Numbers of lists that are searched."""


class Server(MilvusServer):
    """A private server and its resource usage."""

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("VmRSS"))
        return 1024 * int(line.split()[1])

    def stored(self) -> int:
        """Return the bytes of items and indexes on disk, without the message log."""
        files = (self.data / "data").rglob("*")
        return sum(path.stat().st_size for path in files if path.is_file())


class Measured:
    """A collection on the server, filled once and searched through one index after another."""

    def __init__(self, n: int, server: Server) -> None:
        self.n, self.server = n, server
        task = Task.draw(n, N_QUERIES, N_BITS)
        self.codes, self.queries = task.database, task.queries
        exact = MemoryIndex.open("memory:", N_BITS)
        exact.add(np.arange(n), self.codes)
        self.farthest = exact.search(self.queries, K).distances[:, -1]  # of the K exact results
        self.client = MilvusClient(uri=f"http://{ADDRESS}")
        self.stored_before = server.stored()
        self.index = MilvusIndex.open(f"milvus://{ADDRESS}/{NAME}", N_BITS)

    def filled(self) -> list[Row]:
        """Add all codes and measure rate and size."""
        started = time.perf_counter()
        for start in range(0, self.n, BATCH):
            ids = np.arange(start, min(start + BATCH, self.n))
            items = [Item(f"item {i}", f"the text of item {i}") for i in ids.tolist()]
            self.index.upsert(ids, self.codes[ids], items)
        seconds = time.perf_counter() - started
        self.client.flush(NAME)
        return [
            Row(f"{self.n:,} items added", self.n / seconds / 1000, "thousand/s"),
            Row("on disk", (self.server.stored() - self.stored_before) / self.n, "bytes/item"),
        ]

    def measure(self, kind: str, probes: tuple[int, ...] = ()) -> list[Row]:
        """Search through one kind of index."""
        self.client.release_collection(NAME)
        self.client.drop_index(NAME, "code")
        chosen = self.client.prepare_index_params()
        lists = {"nlist": LISTS} if probes else {}
        chosen.add_index("code", index_type=kind, metric_type="HAMMING", params=lists)
        started = time.perf_counter()
        self.client.create_index(NAME, chosen)
        while self.client.describe_index(NAME, "code").get("pending_index_rows"):
            time.sleep(0.2)
        built = time.perf_counter() - started
        held = self.loaded() / self.n
        rows = [
            Row(f"{kind}: built", built, "seconds"),
            Row(f"{kind}: held in memory", held, "bytes/item"),
        ]
        for n_probes in probes or (0,):
            rows += self.timed(kind, n_probes)
        return rows

    def loaded(self) -> int:
        """Load the collection into a restarted server and return the added bytes of memory."""
        self.client.close()
        self.server.kill()
        self.server.start()
        self.client = MilvusClient(uri=f"http://{ADDRESS}")
        time.sleep(SETTLED)
        before = self.server.memory()
        MilvusIndex.open(f"milvus://{ADDRESS}/{NAME}", N_BITS)  # waits until it is loaded
        self.search(self.queries, 0)
        return self.server.memory() - before

    def timed(self, kind: str, n_probes: int) -> list[Row]:
        """Time queries, and compute the share of results as near as the exact ones."""
        what = f"{kind}, {n_probes} of {LISTS} lists" if n_probes else kind
        found = self.search(self.queries, n_probes)
        near = [
            np.mean([hit["distance"] <= farthest for hit in hits])
            for hits, farthest in zip(found, self.farthest, strict=True)
        ]
        alone = [
            _milliseconds(lambda row=row: self.search(self.queries[row : row + 1], n_probes))
            for row in range(N_QUERIES)
        ]
        together = min(
            _milliseconds(lambda: self.search(self.queries, n_probes)) for _ in range(ROUNDS)
        )
        note = f"p99 {np.percentile(alone, 99):.1f} ms, load {os.getloadavg()[0]:.1f}"
        return [
            Row(f"{what}: one query, k = {K}", float(np.median(alone)), "ms", note=note),
            Row(f"{what}: {N_QUERIES} at once", together / N_QUERIES, "ms/query"),
            Row(f"{what}: recall", float(np.mean(near)), f"of {K} exact results"),
        ]

    def search(self, queries: Codes, n_probes: int) -> Any:
        """Search without waiting for the latest writes."""
        return self.client.search(
            NAME,
            [code.tobytes() for code in queries.packed],
            anns_field="code",
            limit=K,
            search_params={
                "metric_type": "HAMMING",
                "params": {"nprobe": n_probes} if n_probes else {},
            },
            consistency_level="Eventually",
        )


def scanned(n: int) -> Row:
    """Measure one query over codes in memory with the scan kernel on one core."""
    codes = Codes(np.random.default_rng(0).integers(0, 256, (n, N_BITS // 8), np.uint8), N_BITS)
    planes, query = codes.planes(), codes[:1].planes()
    scan.nearest(query, planes, N_BITS, K)  # compiles
    times = best_times(
        {"scan": lambda: scan.nearest(query, planes, N_BITS, K)}, ROUNDS, time.process_time
    )
    return Row(f"{n:,} codes scanned", n / times["scan"] / 1e9, "billion/s per core")


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=int, default=300_000)
    arguments = parser.parse_args()
    if reason := why_not():
        raise SystemExit(f"Milvus cannot run here: {reason}")
    enter_namespace(["-m", "benchmarks.scale", *sys.argv[1:]])
    with tempfile.TemporaryDirectory(prefix="corrhash-scale-") as folder:
        server = Server(Path(folder) / "data")
        server.data.mkdir()
        try:
            server.start()
            measured = Measured(arguments.codes, server)
            rows = [scanned(10_000_000), *measured.filled()]
            rows += measured.measure("BIN_FLAT") + measured.measure("BIN_IVF_FLAT", PROBES)
        finally:
            server.kill()
    print_rows(f"Milvus, {N_BITS} bits", rows)


if __name__ == "__main__":
    main()
