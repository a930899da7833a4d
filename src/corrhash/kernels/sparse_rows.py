"""Rows of a sparse matrix as a dense array, for mini-batches.

SciPy builds and checks an intermediate matrix, which takes a tenth of the time of a training step
on 64 rows of tags.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray


def dense_rows(matrix: sp.csr_array, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return some rows as an (n, d) array of float32.

    >>> dense_rows(sp.csr_array(np.eye(3)), np.array([2, 0]))
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    dense = np.zeros((len(rows), matrix.shape[1]), dtype=np.float32)
    _add_rows(dense, matrix.indptr, matrix.indices, matrix.data, rows)
    return dense


@njit(nogil=True, cache=True)
def _add_rows(dense: Any, indptr: Any, indices: Any, data: Any, rows: Any) -> None:
    for i, row in enumerate(rows):
        for place in range(indptr[row], indptr[row + 1]):
            dense[i, indices[place]] += np.float32(data[place])  # SciPy allows duplicate entries
