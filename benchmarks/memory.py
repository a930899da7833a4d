"""Memory that fitting takes at the published sizes: ``python -m benchmarks.memory``.

10,500 pairs of 4,096 features and 1,000 tags with 21 labels, 64 bits. Each method is fitted in a
process of its own, whose peak is reported; loops that keep no more memory the longer they run are
cut short.
"""

from __future__ import annotations

import argparse
import resource
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import Row, print_rows
from corrhash.datasets import PairedDataset
from corrhash.methods import METHODS

N_PAIRS, N_FEATURES, N_WORDS, N_LABELS, N_BITS = 10_500, 4096, 1000, 21, 64
ALLOWED = 4.0  # GB
SHORT = {"n_rounds": 2}
"""Settings that shorten a method and leave its memory as it is."""


def published_size() -> PairedDataset:
    """Random pairs that look like features of AlexNet and tags of Flickr."""
    rng = np.random.default_rng(0)
    images = np.maximum(rng.standard_normal((N_PAIRS, N_FEATURES), np.float32), 0)
    texts = sp.random_array((N_PAIRS, N_WORDS), density=8 / N_WORDS, format="csr", rng=rng)
    texts.data[:] = 1
    labels = rng.random((N_PAIRS, N_LABELS)) < 0.1
    labels[np.arange(N_PAIRS), rng.integers(N_LABELS, size=N_PAIRS)] = True
    return PairedDataset(images, texts, labels)


def shortened(name: str) -> Any:
    """A method with its defaults, but for the length of its loops."""
    hasher = METHODS[name](N_BITS)
    for setting, value in SHORT.items():
        if hasattr(hasher, setting):
            setattr(hasher, setting, value)
    if hasattr(hasher, "training"):
        hasher.training = replace(hasher.training, epochs=1)
    return hasher


def peak_gigabytes(name: str) -> float:
    """The most memory that the process held, its libraries and the pairs among it."""
    shortened(name).fit(published_size())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    rows = []
    for name in parser.parse_args().methods:
        # A process for each, or the peak of one method would be that of the one before it.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            peak = process.submit(peak_gigabytes, name).result()
        rows.append(Row(name, peak, "GB", note=f"{ALLOWED:g} GB allowed"))
        print(f"{name}: {peak:.2f} GB", flush=True)
    print_rows("Peak memory", rows)


if __name__ == "__main__":
    main()
