"""Evaluation speed against the usual research code, on codes and labels of the size of NUS-WIDE.

CPU time on one thread; contenders take turns and the best of several rounds counts. The research
code runs on a sample of the queries, and its time is scaled to all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one thread for all contenders

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, best_times, on_two_cores, peak_memory
from corrhash.codes import Codes
from corrhash.kernels.histograms import distance_gain_histograms
from corrhash.metrics.evaluate import evaluate

N_DATABASE, N_QUERIES, N_LABELS = 195_834, 2_100, 21
TARGET = 70
TARGET_BITS = 64
STABLE_DEFINITION = "hashnet@5000"
"""An mAP definition that ranks ties by row."""

MAX_MEMORY_MB = 8.0
ROUNDS = 5
SAMPLE = 30
"""Number of queries per round of the research code."""


@dataclass(frozen=True)
class Task:
    """Codes correlated with their labels, as those of a trained model."""

    queries: Codes
    database: Codes
    query_labels: NDArray[np.int8]
    database_labels: NDArray[np.int8]

    @classmethod
    def draw(cls, n_database: int, n_queries: int, n_bits: int) -> Task:
        random = np.random.default_rng(0)
        class_codes = random.normal(size=(N_LABELS, n_bits))
        n = n_database + n_queries
        labels = random.random((n, N_LABELS)) < 0.06
        labels[np.arange(n), random.integers(N_LABELS, size=n)] = True
        codes = Codes.from_continuous(labels @ class_codes + random.normal(size=(n, n_bits)))
        labels = labels.astype(np.int8)
        query, database = slice(None, n_queries), slice(n_queries, None)
        return cls(codes[query], codes[database], labels[query], labels[database])

    def evaluate(self, threads: int = 1, definition: str = "all") -> float:
        inputs = self.queries, self.database, self.query_labels, self.database_labels
        return evaluate(*inputs, threads=threads, definition=definition).map

    def kernel(self) -> Callable[[], object]:
        """Return the compiled part alone: counts by distance and relevance."""
        codes = self.queries.planes(), self.database.planes()
        # Labels are packed like codes: 21 bits fit into one word.
        masks = [
            Codes.from_continuous(labels).planes()
            for labels in (self.query_labels, self.database_labels)
        ]
        return lambda: distance_gain_histograms(*codes, self.queries.n_bits, *masks, 2, threads=1)


class ResearchCode:
    """The evaluation of public repositories: a product, a sort and a mean per query; mAP only.

    ``dtype`` is that of codes and labels. float32 is the fastest: BLAS computes the products, and
    the sort uses vector instructions.
    """

    def __init__(self, task: Task, dtype: type, kind: str | None = None) -> None:
        self.queries = task.queries[:SAMPLE].signs().astype(dtype)
        self.database = task.database.signs().astype(dtype)
        self.query_labels = task.query_labels[:SAMPLE].astype(dtype)
        self.database_labels = task.database_labels.astype(dtype)
        self.kind = kind

    def mean_average_precision(self) -> float:
        aps = [self.average_precision(query) for query in range(len(self.queries))]
        return float(np.mean([ap for ap in aps if ap is not None]))

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


def rows(quick: bool = False, targets_only: bool = False) -> list[Row]:
    """Measure everything; ``quick`` uses a tenth of the database and a quarter of the queries."""
    sizes = (N_DATABASE // 10, N_QUERIES // 4) if quick else (N_DATABASE, N_QUERIES)
    lengths = (TARGET_BITS,) if targets_only else (32, 64, 128)
    return [row for n_bits in lengths for row in against_research_code(*sizes, n_bits)]


def against_research_code(n_database: int, n_queries: int, n_bits: int) -> list[Row]:
    """Measure how many times faster the full evaluation is than the mAP of the research code."""
    task = Task.draw(n_database, n_queries, n_bits)
    check_map(task)
    contenders = {
        "ours": task.evaluate,
        "stable": lambda: task.evaluate(definition=STABLE_DEFINITION),
        "kernel": task.kernel(),
        "float32": ResearchCode(task, np.float32).mean_average_precision,
        "float64": ResearchCode(task, np.float64).mean_average_precision,
    }
    best = best_times(contenders, ROUNDS, time.process_time)
    scale = n_queries / SAMPLE
    float32, float64 = scale * best["float32"], scale * best["float64"]
    label = f"{n_queries:,} x {n_database:,} x {n_bits} bits, {N_LABELS} labels"
    full_size = n_bits == TARGET_BITS and n_database == N_DATABASE
    target, limit = (TARGET, MAX_MEMORY_MB) if full_size else (None, None)
    memory = peak_memory(task.evaluate)
    return [
        Row(label, float32 / best["ours"], "x NumPy code in float32", target, memory=memory),
        Row(label, float64 / best["ours"], "x NumPy code in float64", target),
        Row(label, memory, "MB beyond codes and labels", limit=limit),
        Row(label, float32 / best["kernel"], "x NumPy float32, kernel alone"),
        Row(f"{label}, {STABLE_DEFINITION}", float32 / best["stable"], "x NumPy code in float32"),
        two_threads(task, label),
    ]


def check_map(task: Task) -> None:
    """Check that both compute the same mAP when ties are sorted stably."""
    sample = task.queries[:SAMPLE], task.database, task.query_labels[:SAMPLE]
    ours = evaluate(*sample, task.database_labels, ties="stable").map
    theirs = ResearchCode(task, np.float32, kind="stable").mean_average_precision()
    if not np.isclose(ours, theirs, rtol=1e-9):
        raise SystemExit(f"mAP differs: {ours} here, {theirs} in the research code.")


def two_threads(task: Task, label: str) -> Row:
    """Measure the wall-clock speedup of two threads."""
    contenders = {"one": lambda: task.evaluate(1), "two": lambda: task.evaluate(2)}
    with on_two_cores():
        best = best_times(contenders, ROUNDS, time.perf_counter)
    load = f"wall clock, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return Row(f"{label}, two threads", best["one"] / best["two"], "x one thread", None, load)
