"""Start of the command: CPU seconds of help and of one text search in a new process.

The collection resembles the demo: a network model on pixels, 5,500 items of 32 bits. Time is the
least user and system time of several runs, which includes the start of Python.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measure import Row
from corrhash import CHN, Codes, Collection, Item, Model, Networks, PairedDataset, Reader, Training
from corrhash.datasets import Vocabulary
from corrhash.datasets.scenes.dataset import draw_scenes

N, N_BITS = 5_500, 32
ROUNDS = 7
LIBRARIES = ("numpy", "scipy.sparse", "PIL.Image", "typer", "rich.table", "corrhash.collection")
"""Imports of a search, each measured in a process of its own, with what it imports itself."""


def fill(folder: Path) -> str:
    """Create a collection of random codes and return a term that its model knows."""
    scenes = draw_scenes(100, size=48)
    reader = Reader(Vocabulary.fit(scenes.captions, min_count=2))
    read = reader.read(PairedDataset(scenes.images, scenes.captions, scenes.labels))
    hasher = CHN(N_BITS, networks=Networks(), training=Training(epochs=1)).fit(read)
    collection = Collection.create(folder, Model(hasher, reader))
    items = [Item(f"item {number}", f"the text of item {number}") for number in range(N)]
    codes = Codes.from_continuous(np.random.default_rng(0).standard_normal((N, N_BITS)))
    collection.index.add(np.arange(N), codes, items)
    assert reader.vocabulary is not None
    return reader.vocabulary.terms[0]


def cpu_seconds(*arguments: str) -> float:
    """Return the least CPU time of a Python process with these arguments."""
    times = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements."""
    with tempfile.TemporaryDirectory(prefix="corrhash-bench-") as folder:
        collection = f"{folder}/collection"
        search = ("-m", "corrhash", "search", collection, fill(Path(collection)))
        python, unit = cpu_seconds("-c", "pass"), "CPU s"
        imports = {name: cpu_seconds("-c", f"import {name}") - python for name in LIBRARIES}
        note = ", ".join(f"{name} {seconds:.2f}" for name, seconds in imports.items())
        return [
            Row("start of Python", python, unit),
            Row("import corrhash", cpu_seconds("-c", "import corrhash"), unit, limit=0.1),
            Row("corrhash --help", cpu_seconds("-m", "corrhash", "--help"), unit, limit=0.3),
            Row("corrhash search", cpu_seconds(*search), unit, limit=1.2, note=f"imports: {note}"),
        ]
