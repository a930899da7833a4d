"""Full evaluation against the usual research code, on codes and labels of the size of NUS-WIDE.

CPU time on one thread, both sides by turns in one run, the best of several rounds; the usual code
runs on a sample of the queries and its time is scaled to all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one thread for both sides

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, best_times, on_two_cores, peak_memory
from corrhash.codes import Codes
from corrhash.kernels.histograms import distance_gain_histograms
from corrhash.metrics.evaluate import evaluate

N_DATABASE, N_QUERIES, N_LABELS = 195_834, 2_100, 21
TARGET = 70
TARGET_BITS = 64
WITH_A_CUT = "hashnet@5000"
"""A reading that ranks ties in order of row."""

MOST_MEMORY = 8.0  # MB: a few
ROUNDS = 5
SAMPLE = 30
"""The research code runs for so many queries a round; its time is scaled to all of them."""


@dataclass(frozen=True)
class Task:
    """Codes that follow their labels, as those of a trained model do."""

    queries: Codes
    database: Codes
    query_labels: NDArray[np.int8]
    database_labels: NDArray[np.int8]

    @classmethod
    def draw(cls, n_database: int, n_queries: int, n_bits: int) -> Task:
        random = np.random.default_rng(0)
        meaning = random.normal(size=(N_LABELS, n_bits))
        n = n_database + n_queries
        labels = random.random((n, N_LABELS)) < 0.06
        labels[np.arange(n), random.integers(N_LABELS, size=n)] = True
        codes = Codes.from_scores(labels @ meaning + random.normal(size=(n, n_bits)))
        labels = labels.astype(np.int8)
        split = slice(None, n_queries), slice(n_queries, None)
        return cls(codes[split[0]], codes[split[1]], labels[split[0]], labels[split[1]])

    def evaluate(self, threads: int = 1, reading: str = "all") -> float:
        everything = self.queries, self.database, self.query_labels, self.database_labels
        return evaluate(*everything, threads=threads, reading=reading).map

    def kernel(self) -> Callable[[], object]:
        """The compiled part alone: counting by distance and relevance."""
        codes = self.queries.planes(), self.database.planes()
        # Labels are packed as codes are: 21 bits make one word.
        masks = [
            Codes.from_scores(labels).planes()
            for labels in (self.query_labels, self.database_labels)
        ]
        return lambda: distance_gain_histograms(*codes, self.queries.n_bits, *masks, 2, threads=1)


class ResearchCode:
    """What public repositories run: a product, a sort and a mean for each query; MAP only.

    ``dtype`` is that of codes and labels. With float32 the products are fast ones of BLAS and
    the sort has vector instructions: the strongest form.
    """

    def __init__(self, task: Task, dtype: type, kind: str | None = None) -> None:
        self.queries = task.queries[:SAMPLE].signs().astype(dtype)
        self.database = task.database.signs().astype(dtype)
        self.query_labels = task.query_labels[:SAMPLE].astype(dtype)
        self.database_labels = task.database_labels.astype(dtype)
        self.kind = kind

    def mean_average_precision(self) -> float:
        every = [self.average_precision(query) for query in range(len(self.queries))]
        return float(np.mean([ap for ap in every if ap is not None]))

    def average_precision(self, query: int) -> float | None:
        relevant = (self.query_labels[query] @ self.database_labels.T > 0).astype(np.float32)
        n_relevant = int(relevant.sum())
        if n_relevant == 0:
            return None
        n_bits = self.database.shape[1]
        distances = 0.5 * (n_bits - self.queries[query] @ self.database.T)
        hits = relevant[np.argsort(distances, kind=self.kind)]
        ranks = np.asarray(np.where(hits == 1)) + 1.0
        return float(np.mean(np.linspace(1, n_relevant, n_relevant) / ranks))


def against_research_code(n_database: int, n_queries: int, n_bits: int) -> list[Row]:
    """How many times faster full evaluation is than the MAP of the usual code."""
    task = Task.draw(n_database, n_queries, n_bits)
    check_map(task)
    contenders = {
        "ours": task.evaluate,
        "stable": lambda: task.evaluate(reading=WITH_A_CUT),
        "kernel": task.kernel(),
        "float32": ResearchCode(task, np.float32).mean_average_precision,
        "float64": ResearchCode(task, np.float64).mean_average_precision,
    }
    best = best_times(contenders, ROUNDS, time.process_time)
    scale = n_queries / SAMPLE
    singles, doubles = scale * best["float32"], scale * best["float64"]
    what = f"{n_queries:,} x {n_database:,} x {n_bits} bits, {N_LABELS} labels"
    # The target is for the full size.
    target = TARGET if n_bits == TARGET_BITS and n_database == N_DATABASE else None
    memory = peak_memory(task.evaluate)
    full = target is not None
    return [
        Row(what, singles / best["ours"], "x NumPy code in float32", target, memory=memory),
        Row(what, doubles / best["ours"], "x NumPy code in float64", target),
        Row(what, memory, "MB beyond codes and labels", limit=MOST_MEMORY if full else None),
        Row(what, singles / best["kernel"], "x NumPy float32, kernel alone"),
        Row(f"{what}, {WITH_A_CUT}", singles / best["stable"], "x NumPy code in float32"),
        two_threads(task, what),
    ]


def check_map(task: Task) -> None:
    """Both sides must mean the same: with a stable sort the numbers agree."""
    sample = task.queries[:SAMPLE], task.database, task.query_labels[:SAMPLE]
    ours = evaluate(*sample, task.database_labels, ties="stable").map
    theirs = ResearchCode(task, np.float32, kind="stable").mean_average_precision()
    if not np.isclose(ours, theirs, rtol=1e-9):
        raise SystemExit(f"MAP differs: {ours} here, {theirs} by the research code.")


def two_threads(task: Task, what: str) -> Row:
    """How much faster two threads are, by the clock on the wall."""
    contenders = {"one": lambda: task.evaluate(1), "two": lambda: task.evaluate(2)}
    with on_two_cores():
        best = best_times(contenders, ROUNDS, time.perf_counter)
    load = f"wall clock, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return Row(f"{what}, two threads", best["one"] / best["two"], "x one thread", None, load)


def rows(quick: bool = False, targets_only: bool = False) -> list[Row]:
    """All measurements, on a tenth of the database and a quarter of the queries if ``quick``."""
    sizes = (N_DATABASE // 10, N_QUERIES // 4) if quick else (N_DATABASE, N_QUERIES)
    lengths = (TARGET_BITS,) if targets_only else (32, 64, 128)
    return [row for n_bits in lengths for row in against_research_code(*sizes, n_bits)]
