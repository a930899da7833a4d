"""How the cost of every method grows with the number of pairs: 1 is linear, 2 is quadratic.

CPU time on one thread of fitting and of encoding both modalities, from 1,000 to 8,000 pairs. The
result is the slope of log time over log n. Networks train for one epoch. Fixed costs hide the
growth at small sizes, so the last doubling is reported as well.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, best_times
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.experiments.evaluation import encode_pairs
from corrhash.methods import METHODS, Hasher

N_BITS = 16
SIZES = (1000, 2000, 4000, 8000)
FIT_ROUNDS, ENCODE_ROUNDS = 1, 5


def new_hasher(name: str) -> Hasher:
    """Return a method with its defaults, and one epoch if it trains networks."""
    hasher = METHODS[name](N_BITS)
    if hasattr(hasher, "training"):
        hasher.training = replace(hasher.training, epochs=1)
    return hasher


def growth(label: str, times: dict[int, float]) -> Row:
    """Fit the exponent of n."""
    sizes, seconds = np.log2(list(times)), np.log2(list(times.values()))
    slope = np.polyfit(sizes, seconds, 1)[0]
    last = seconds[-1] - seconds[-2]
    return Row(label, slope, "power of n", note=f"{last:.2f} in the last doubling")


def growth_of_method(name: str, data: dict[int, PairedDataset]) -> list[Row]:
    """Fit and encode growing numbers of pairs."""
    first, *_ = data.values()
    fitted = new_hasher(name).fit(first)  # warm-up: imports and compilation
    encode_pairs(fitted, first)
    rows = []
    contenders = {
        "fit": (lambda pairs: new_hasher(name).fit(pairs), FIT_ROUNDS),
        "encode": (lambda pairs: encode_pairs(fitted, pairs), ENCODE_ROUNDS),
    }
    for step, (run, rounds) in contenders.items():
        by_size = {str(n): lambda n=n, run=run: run(data[n]) for n in data}
        best = best_times(by_size, rounds, time.process_time)
        rows.append(growth(f"{name}, {step}", {int(n): spent for n, spent in best.items()}))
    return rows


def rows(quick: bool = False) -> list[Row]:
    """Measure all methods; ``quick`` uses the two smallest sizes."""
    sizes = SIZES[:2] if quick else SIZES
    data = {n: make_pairs(n) for n in sizes}
    with threadpool_limits(1):
        return [row for name in METHODS for row in growth_of_method(name, data)]
