"""The scan of a small table of codes in NumPy, which starts at once.

Loading numba and the compiled scan takes a third of a second. That is most of the time of a command
that searches a few thousand codes once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SMALL = 1 << 14
"""Words of codes times queries up to which the NumPy scan takes about 0.1 ms."""


def nearest_in_numpy(
    query_planes: NDArray[np.uint64], database_planes: NDArray[np.uint64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what :func:`corrhash.kernels.scan.nearest` returns.

    >>> rows, distances = nearest_in_numpy(
    ...     np.array([[0b111]], np.uint64), np.array([[0b100, 0b110, 0b011]], np.uint64), k=2
    ... )
    >>> rows, distances
    (array([[1, 2]]), array([[1, 1]], dtype=int32))
    """
    n = database_planes.shape[1]
    differing = np.bitwise_count(query_planes[:, :, None] ^ database_planes[:, None, :])
    distances = differing.sum(axis=0, dtype=np.int64)  # (n_queries, n)
    keys = distances * n + np.arange(n)  # ordered by distance, then by row
    found = np.sort(np.partition(keys, k - 1, axis=1)[:, :k], axis=1)
    return found % n, (found // n).astype(np.int32)
