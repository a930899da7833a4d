"""ExactIndex: codes in memory, every one of them looked at; the yardstick for other engines."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes, check_codes, check_n_bits, check_same_bits
from corrhash.errors import InputError
from corrhash.index.base import as_ids, check_k
from corrhash.kernels.scan import nearest
from corrhash.ranking import Ranking


class ExactIndex:
    """An exact scan over codes in memory: 8 bytes a code of 64 bits, nothing approximate.

    Parameters
    ----------
    n_bits : length of the codes.
    threads : how many a search may use; all cores if None. The answers do not depend on it.

    Examples
    --------
    >>> index = ExactIndex(n_bits=2)
    >>> index.add([10, 11, 12], Codes.from_signs([[1, 1], [1, -1], [1, -1]]))
    >>> answer = index.search(Codes.from_signs([[-1, -1]]), k=2)
    >>> answer.rows, answer.distances
    (array([[11, 12]]), array([[1, 1]], dtype=int32))
    """

    @classmethod
    def open(cls, uri: str, n_bits: int) -> ExactIndex:
        """A new index; ``memory:`` keeps nothing."""
        return cls(n_bits)

    def __init__(self, n_bits: int, threads: int | None = None) -> None:
        self.n_bits = check_n_bits(n_bits)
        self.threads = threads
        self._ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # ascending
        self._planes: NDArray[np.uint64] = np.empty((-(-self.n_bits // 64), 0), dtype=np.uint64)

    def add(self, ids: ArrayLike, codes: Codes) -> None:
        """Keep codes under ids that are not taken yet."""
        numbers = as_ids(ids)
        check_same_bits(check_codes(codes).n_bits, self.n_bits)
        if numbers.shape != (len(codes),):
            raise InputError(f"Give one id a code. Got {numbers.size} ids, {len(codes)} codes.")
        together = np.concatenate([self._ids, numbers])
        distinct, counts = np.unique(together, return_counts=True)
        if len(distinct) != len(together):
            raise InputError(
                f"Id {distinct[counts > 1][0]} is taken already. Delete it first, or use another."
            )
        planes = np.concatenate([self._planes, codes.planes()], axis=1)
        # Rows are kept in ascending order of id, so that ties come out in that order.
        order = np.argsort(together)
        self._ids = together[order]
        self._planes = np.ascontiguousarray(planes[:, order])

    def delete(self, ids: ArrayLike) -> int:
        """Forget ids; how many of them were there."""
        gone = np.isin(self._ids, as_ids(ids))
        self._ids = self._ids[~gone]
        self._planes = np.ascontiguousarray(self._planes[:, ~gone])
        return int(np.count_nonzero(gone))

    def search(self, queries: Codes, k: int = 10) -> Ranking:
        """The ``k`` nearest ids of each query; all of them where there are fewer than ``k``."""
        check_same_bits(check_codes(queries).n_bits, self.n_bits)
        k = min(check_k(k), len(self))
        if k == 0 or len(queries) == 0:
            empty = np.empty((len(queries), k), dtype=np.int64)
            return Ranking(empty, empty.astype(np.int32))
        rows, distances = nearest(queries.planes(), self._planes, self.n_bits, k, self.threads)
        return Ranking(self._ids[rows], distances)

    def __len__(self) -> int:
        return len(self._ids)
