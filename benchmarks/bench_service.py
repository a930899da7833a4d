"""Throughput of the search service: concurrent text queries, compared with an empty FastAPI route.

Both run as processes, and the same clients query them in turns for a few seconds each. The ratio is
in requests per second; the notes give absolute throughput, wall-clock p50 and p99, and the CPU time
of the server per request. Hardly any text is queried twice: the service encodes a text once.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from fastapi import FastAPI

from benchmarks.bench_collections import BATCH, N_BITS, random_codes
from benchmarks.measure import Row
from corrhash import Collection, Item, Model, PairedDataset, Reader
from corrhash.datasets import Vocabulary
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.scenes.dataset import draw_scenes
from corrhash.methods import METHODS

N, K, N_TERMS = 1_000_000, 10, 4
CLIENTS = (1, 8, 32)
WORKERS = (1, 2)
ROUNDS, SECONDS = 3, 4.0
TARGET = 0.5

empty = FastAPI()


@empty.post("/api/v1/search/text")
async def return_nothing(search: dict[str, Any]) -> dict[str, Any]:
    """Parse JSON and return JSON, without a search: the cost of the framework."""
    return {"matches": []}


EMPTY = ("uvicorn", "benchmarks.bench_service:empty", "--port", "0", "--no-access-log")


def fill(folder: Path, n: int) -> Sequence[str]:
    """Create a collection of ``n`` random codes and return the terms that its model knows."""
    scenes = draw_scenes(300, size=48)
    reader = Reader(Vocabulary.fit(scenes.captions, min_count=2), ImageFeatures("simple"))
    read = reader.read(PairedDataset(scenes.images, scenes.captions))
    collection = Collection.create(folder, Model(METHODS["cvh"](n_bits=N_BITS).fit(read), reader))
    codes = random_codes(n, seed=0)
    for start in range(0, n, BATCH):
        ids = np.arange(start, min(start + BATCH, n))
        items = [Item(f"item {number}", f"the text of item {number}") for number in ids.tolist()]
        collection.index.add(ids, codes[ids], items)
    assert reader.vocabulary is not None
    return reader.vocabulary.terms


@dataclass(frozen=True)
class Server:
    """A running server: its URL and the processes that answer."""

    url: str
    processes: list[int]

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes so far; NaN if the system does not report it."""
        if not Path("/proc/self/stat").exists():
            return float("nan")
        ticks = 0
        for number in self.processes:
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # user, system
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self) -> tuple[float, float]:
        """Return the MB of all processes: what they hold, and if each had all for itself."""
        own = shared = 0.0
        for number in self.processes:
            text = Path(f"/proc/{number}/smaps_rollup").read_text()
            sizes = dict(re.findall(r"^(Rss|Pss): +([0-9]+) kB", text, re.MULTILINE))
            own, shared = own + int(sizes["Pss"]) / 1024, shared + int(sizes["Rss"]) / 1024
        return own, shared


@contextmanager
def started(*module: str) -> Iterator[Server]:
    """Run a module as a process and yield the server, once it prints its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", *module],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if module == EMPTY else subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        urls = (re.search(r"(?:Ready:|running on) (http://\S+)", line) for line in process.stdout)
        url = next(found.group(1) for found in urls if found)
        yield Server(url, _family(process.pid))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _family(process: int) -> list[int]:
    """Return a process and its children."""
    children = Path(f"/proc/{process}/task/{process}/children")
    return [process, *map(int, children.read_text().split() if children.exists() else ())]


def query(url: str, terms: Sequence[str], until: float, seed: int, latencies: list[float]) -> None:
    """One client: queries of some terms over one connection, as fast as they are answered."""
    rng = random.Random(f"{seed} {until}")
    headers = {"Content-Type": "application/json"}
    with closing(http.client.HTTPConnection(urlsplit(url).netloc)) as connection:
        while (now := time.perf_counter()) < until:
            body = {"text": " ".join(rng.choices(terms, k=N_TERMS)), "k": K}
            connection.request("POST", "/api/v1/search/text", json.dumps(body), headers)
            response = connection.getresponse()
            response.read()
            assert response.status == 200
            latencies.append(1000 * (time.perf_counter() - now))


def milliseconds(url: str, terms: Sequence[str], clients: int, seconds: float) -> list[float]:
    """Return the latency of each request of concurrent clients."""
    latencies: list[list[float]] = [[] for _ in range(clients)]
    until = time.perf_counter() + seconds
    threads = [
        threading.Thread(target=query, args=(url, terms, until, seed, of_client))
        for seed, of_client in enumerate(latencies)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [one for of_client in latencies for one in of_client]


def compare(servers: dict[str, Server], terms: Sequence[str], clients: int, seconds: float) -> Row:
    """Measure the service and the empty route in turns."""
    latencies: dict[str, list[float]] = {name: [] for name in servers}
    used = dict.fromkeys(servers, 0.0)
    for _ in range(ROUNDS):
        for name, server in servers.items():
            before = server.cpu_seconds()
            latencies[name] += milliseconds(server.url, terms, clients, seconds)
            used[name] += server.cpu_seconds() - before
    notes = [
        f"{name}: {len(of) / (ROUNDS * seconds):,.0f} per second, p50 {np.median(of):.1f} ms, "
        f"p99 {np.percentile(of, 99):.1f} ms, CPU {1000 * used[name] / len(of):.2f} ms"
        for name, of in latencies.items()
    ]
    what = f"text queries, k = {K}, clients: {clients}"
    ratio = len(latencies["service"]) / len(latencies["empty"])
    load = f"load {os.getloadavg()[0]:.1f}"
    return Row(what, ratio, "of an empty route", TARGET, "; ".join([*notes, load]))


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements; ``quick`` uses a tenth of the items and less time."""
    n, seconds = (N // 10, SECONDS / 4) if quick else (N, SECONDS)
    measured: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="corrhash-bench-") as folder:
        terms = fill(Path(folder) / "collection", n)
        serve = ("corrhash", "serve", f"{folder}/collection", "--port", "0", "--rate", "1e6")
        for workers in WORKERS:
            command = (*serve, "--workers", str(workers))
            with started(*command) as ours, started(*EMPTY) as theirs:
                servers = {"service": ours, "empty": theirs}
                for server in servers.values():
                    milliseconds(server.url, terms, 2, seconds)  # warm up
                what = f"{n:,} x {N_BITS} bits, workers: {workers}"
                for clients in CLIENTS:
                    row = compare(servers, terms, clients, seconds)
                    target = row.target if workers == 1 else None
                    measured.append(replace(row, label=f"{what}, {row.label}", target=target))
                own, apart = ours.memory()
                note = f"{apart:,.0f} MB if processes shared nothing"
                measured.append(Row(f"{what}, memory", own, "MB", note=note))
    return measured
