"""The search service: text queries of several clients at once, against a bare FastAPI route.

Both run as processes of their own, and the same clients ask them in turns, a few seconds each. The
ratio is of requests a second; the notes give those, and p50 and p99 by the clock on the wall.
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
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from fastapi import FastAPI

from benchmarks.bench_collections import BATCH, N_BITS, random_codes
from benchmarks.measure import Row
from corrhash.collection import Collection
from corrhash.datasets import PairedDataset, Reader, Vocabulary
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.scenes import draw_scenes
from corrhash.index import Item
from corrhash.methods import METHODS

N, K = 1_000_000, 10
CLIENTS = (1, 8, 32)
ROUNDS, SECONDS = 3, 4.0

bare = FastAPI()


@bare.post("/api/v1/search/text")
async def answer_nothing(question: dict[str, Any]) -> dict[str, Any]:
    """What a route costs that reads JSON and answers with some, without any search."""
    return {"matches": []}


BARE = ("uvicorn", "benchmarks.bench_service:bare", "--port", "0", "--no-access-log")


def fill(folder: Path, n: int) -> Sequence[str]:
    """A collection of ``n`` random codes under a model that reads words, and those words."""
    scenes = draw_scenes(300, size=48)
    reader = Reader(Vocabulary.fit(scenes.captions, min_count=2), ImageFeatures("simple"))
    read = reader.read(PairedDataset(scenes.images, scenes.captions))
    collection = Collection.create(folder, METHODS["cvh"](n_bits=N_BITS).fit(read), reader)
    codes = random_codes(n, seed=0)
    for start in range(0, n, BATCH):
        ids = np.arange(start, min(start + BATCH, n))
        items = [Item(f"item {number}", f"the text of item {number}") for number in ids.tolist()]
        collection.index.add(ids, codes[ids], items)
    assert reader.vocabulary is not None
    return reader.vocabulary.words


@contextmanager
def started(*module: str) -> Iterator[str]:
    """A module that runs as a process, and the address that it says it answers at."""
    process = subprocess.Popen(
        [sys.executable, "-m", *module],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if module == BARE else subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        told = (re.search(r"(?:Ready:|running on) (http://\S+)", line) for line in process.stdout)
        yield next(found.group(1) for found in told if found)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def ask(address: str, words: Sequence[str], until: float, seed: int, taken: list[float]) -> None:
    """One client: two words at a time, over one connection, as fast as answers come."""
    rng = random.Random(seed)
    headers = {"Content-Type": "application/json"}
    with closing(http.client.HTTPConnection(urlsplit(address).netloc)) as line:
        while (now := time.perf_counter()) < until:
            question = {"text": " ".join(rng.choices(words, k=2)), "k": K}
            line.request("POST", "/api/v1/search/text", json.dumps(question), headers)
            answer = line.getresponse()
            answer.read()
            assert answer.status == 200
            taken.append(1000 * (time.perf_counter() - now))


def milliseconds(address: str, words: Sequence[str], clients: int, seconds: float) -> list[float]:
    """How long each answer took, of clients that ask at the same time."""
    taken: list[list[float]] = [[] for _ in range(clients)]
    until = time.perf_counter() + seconds
    threads = [
        threading.Thread(target=ask, args=(address, words, until, seed, of_client))
        for seed, of_client in enumerate(taken)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [one for of_client in taken for one in of_client]


def compare(addresses: dict[str, str], words: Sequence[str], clients: int, seconds: float) -> Row:
    """The service and the bare route in turns, under so many clients."""
    taken: dict[str, list[float]] = {name: [] for name in addresses}
    for _ in range(ROUNDS):
        for name, address in addresses.items():
            taken[name] += milliseconds(address, words, clients, seconds)
    notes = [
        f"{name}: {len(of) / (ROUNDS * seconds):,.0f} a second, p50 {np.median(of):.1f} ms, "
        f"p99 {np.percentile(of, 99):.1f} ms"
        for name, of in taken.items()
    ]
    what = f"text queries, k = {K}, clients: {clients}"
    ratio = len(taken["service"]) / len(taken["bare"])
    load = f"load {os.getloadavg()[0]:.1f}"
    return Row(what, ratio, "of a bare route", note="; ".join([*notes, load]))


def rows(quick: bool = False) -> list[Row]:
    """All measurements; a tenth of the items and less time if ``quick``."""
    n, seconds = (N // 10, SECONDS / 4) if quick else (N, SECONDS)
    with tempfile.TemporaryDirectory(prefix="corrhash-bench-") as folder:
        words = fill(Path(folder) / "collection", n)
        service = ("corrhash", "serve", f"{folder}/collection", "--port", "0", "--rate", "1e6")
        with started(*service) as ours, started(*BARE) as theirs:
            addresses = {"service": ours, "bare": theirs}
            for address in addresses.values():
                milliseconds(address, words, 2, seconds)  # opens files, fills memory
            measured = [compare(addresses, words, clients, seconds) for clients in CLIENTS]
    return [Row(f"{n:,} x {N_BITS} bits, {r.what}", r.ratio, r.unit, note=r.note) for r in measured]
