"""Pairs of similar images: all pairs whose signatures and codes differ in few bits."""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corrhash._progress import report
from corrhash.kernels.simd import popcount
from corrhash.kernels.threads import read_only, split_over_threads

ROOM = 1 << 12
"""Pairs that a slice of rows has room for at first."""

CHUNKS = 20
"""Parts of the rows, after each of which progress is reported."""


def close_pairs(
    signatures: NDArray[np.uint64],
    planes: NDArray[np.uint64],
    mirror: int,
    max_signature: int,
    max_distance: int,
    threads: int | None = None,
) -> NDArray[np.int64]:
    """Return all pairs of rows i < j that are close: by signature and by code, or mirrored.

    Features of a mirrored image can differ from those of the image, so that codes are not compared
    if the signature of one is close to the mirrored signature of the other. Every pair is compared.

    Parameters
    ----------
    signatures : (n,) 64-bit signatures.
    planes : codes as (n_words, n) uint64, see :meth:`Codes.planes`.
    mirror : the bits of a signature that change if its image is mirrored; 0 if none is.
    max_signature, max_distance : most bits in which signatures and codes may differ.

    Returns
    -------
    (n_pairs, 2) rows in ascending order.

    Examples
    --------
    >>> planes = np.array([[0b000, 0b001, 0b111]], np.uint64)
    >>> close_pairs(np.zeros(3, np.uint64), planes, 0, 0, 2).tolist()
    [[0, 1], [1, 2]]
    """
    n, found = len(signatures), dict[int, NDArray[np.int64]]()
    arrays = read_only(signatures), read_only(planes)
    limits = np.uint64(mirror), max_signature, max_distance

    def compare(begin: int, start: int, stop: int) -> None:
        room = ROOM
        while True:
            pairs = np.empty((room, 2), np.int64)
            n_found = _compare(*arrays, *limits, begin + start, begin + stop, pairs)
            if n_found <= room:
                break
            room = n_found
        found[begin + start] = pairs[:n_found].copy()

    # Later rows have fewer partners, so that chunks of equal work grow.
    ends = (n * (1 - np.sqrt(1 - np.arange(CHUNKS + 1) / CHUNKS))).astype(int).tolist()
    for number, (begin, end) in enumerate(zip(ends, [*ends[1:], n], strict=True)):
        split_over_threads(partial(compare, begin), end - begin, threads)
        report("Comparing", min(number + 1, CHUNKS), CHUNKS)
    return np.concatenate([found[start] for start in sorted(found)])


@njit(nogil=True, cache=True)
def _compare(
    signatures: NDArray[np.uint64],
    planes: NDArray[np.uint64],
    mirror: np.uint64,
    max_signature: int,
    max_distance: int,
    start: int,
    stop: int,
    pairs: NDArray[np.int64],
) -> int:
    """Write the close pairs of rows ``start`` to ``stop``, as far as there is room; count all."""
    n_found = 0
    for i in range(start, stop):
        for j in range(i + 1, len(signatures)):
            differing = signatures[i] ^ signatures[j]
            is_close = mirror != 0 and popcount(differing ^ mirror) <= max_signature
            if not is_close and popcount(differing) <= max_signature:
                distance = 0
                for word in range(len(planes)):
                    distance += popcount(planes[word, i] ^ planes[word, j])
                is_close = distance <= max_distance
            if is_close:
                if n_found < len(pairs):
                    pairs[n_found, 0] = i
                    pairs[n_found, 1] = j
                n_found += 1
    return n_found
