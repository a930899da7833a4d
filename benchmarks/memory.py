"""Peak memory of fitting each method at the sizes of the paper: ``python -m benchmarks.memory``.

10,500 pairs of 4,096 features and 1,000 tags with 21 labels, 64 bits. Each method is fitted in its
own process. Loops whose memory does not grow with their length are shortened.
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
"""Settings that shorten a method without changing its memory."""


def published_size() -> PairedDataset:
    """Return random pairs of the form of AlexNet features and Flickr tags."""
    rng = np.random.default_rng(0)
    images = np.maximum(rng.standard_normal((N_PAIRS, N_FEATURES), np.float32), 0)
    texts = sp.random_array((N_PAIRS, N_WORDS), density=8 / N_WORDS, format="csr", rng=rng)
    texts.data[:] = 1
    labels = rng.random((N_PAIRS, N_LABELS)) < 0.1
    labels[np.arange(N_PAIRS), rng.integers(N_LABELS, size=N_PAIRS)] = True
    return PairedDataset(images, texts, labels)


def shortened(name: str) -> Any:
    """Return a method with its default settings, except for the length of its loops."""
    hasher = METHODS[name](N_BITS)
    for setting, value in SHORT.items():
        if hasattr(hasher, setting):
            setattr(hasher, setting, value)
    if hasattr(hasher, "training"):
        hasher.training = replace(hasher.training, epochs=1)
    return hasher


def peak_gigabytes(name: str) -> float:
    """Return the peak memory of this process, with libraries and data."""
    shortened(name).fit(published_size())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    rows = []
    for name in parser.parse_args().methods:
        # One process per method: the peak of a process never falls.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            peak = process.submit(peak_gigabytes, name).result()
        rows.append(Row(name, peak, "GB", note=f"{ALLOWED:g} GB allowed"))
        print(f"{name}: {peak:.2f} GB", flush=True)
    print_rows("Peak memory", rows)


if __name__ == "__main__":
    main()
