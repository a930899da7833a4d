"""How the cost of every method grows with the number of pairs: 1 is linear, 2 is quadratic.

CPU time on one thread, of fitting and of encoding both sides, while the number of pairs doubles
from 1,000 to 8,000; reported is the slope of log time over log n. Networks train for one epoch.
Fixed costs hide the growth of small sizes, so the last doubling stands beside the slope.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, best_times
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.experiments.directions import encode_pairs
from corrhash.methods import METHODS, Hasher

N_BITS = 16
SIZES = (1000, 2000, 4000, 8000)
FIT_ROUNDS, ENCODE_ROUNDS = 1, 5


def new_hasher(name: str) -> Hasher:
    """A method with its defaults; one epoch, if it trains networks."""
    hasher = METHODS[name](N_BITS)
    if hasattr(hasher, "training"):
        hasher.training = replace(hasher.training, epochs=1)
    return hasher


def growth(what: str, times: dict[int, float]) -> Row:
    """The exponent of n that fits the times best."""
    sizes, seconds = np.log2(list(times)), np.log2(list(times.values()))
    slope = np.polyfit(sizes, seconds, 1)[0]
    last = seconds[-1] - seconds[-2]
    return Row(what, slope, "power of n", note=f"{last:.2f} in the last doubling")


def growth_of_method(name: str, data: dict[int, PairedDataset]) -> list[Row]:
    """Fit and encode ever more pairs."""
    first, *_ = data.values()
    fitted = new_hasher(name).fit(first)  # imports and compiles what it needs
    encode_pairs(fitted, first)
    rows = []
    contenders = {
        "fit": (lambda pairs: new_hasher(name).fit(pairs), FIT_ROUNDS),
        "encode": (lambda pairs: encode_pairs(fitted, pairs), ENCODE_ROUNDS),
    }
    for what, (run, rounds) in contenders.items():
        by_size = {str(n): lambda n=n, run=run: run(data[n]) for n in data}
        best = best_times(by_size, rounds, time.process_time)
        rows.append(growth(f"{name}, {what}", {int(n): spent for n, spent in best.items()}))
    return rows


def rows(quick: bool = False) -> list[Row]:
    """All methods; the two smallest sizes only if ``quick``."""
    sizes = SIZES[:2] if quick else SIZES
    data = {n: make_pairs(n) for n in sizes}
    with threadpool_limits(1):
        return [row for name in METHODS for row in growth_of_method(name, data)]
