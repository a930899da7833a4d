"""Re-ranking: the nearest codes once more, by real numbers where codes have only signs.

A query is encoded at search time, so its real-valued scores are there for free. Against the signs
of a database code they give a finer distance than counting bits does: a bit of which the query is
sure weighs more. Where the database kept its own scores, the cosine of both is finer still.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def cosine(query: NDArray[np.floating], items: NDArray[Any]) -> NDArray[np.float64]:
    """(n,) cosines of a query's scores, (n_bits,), with the scores or the signs of n items.

    >>> cosine(np.array([0.9, -0.1]), np.array([[1, 1], [-1, -1], [1, -1]])).round(2)
    array([ 0.62, -0.62,  0.78])
    """
    return unit_rows(items) @ unit_rows(query[None])[0]


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Rows brought to length 1; rows of zeros stay."""
    rows = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def pack_scores(scores: NDArray[np.floating]) -> list[bytes]:
    """Each row of scores as float16 of length 1: two bytes a bit."""
    return [row.tobytes() for row in unit_rows(scores).astype("<f2")]


def unpack_scores(packed: bytes) -> NDArray[np.float16]:
    """One row of what :func:`pack_scores` made, (n_bits,)."""
    return np.frombuffer(packed, dtype="<f2")
