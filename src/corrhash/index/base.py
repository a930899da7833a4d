"""CodeIndex: what an engine that searches codes offers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes
from corrhash.errors import InputError
from corrhash.ranking import Ranking


class CodeIndex(Protocol):
    """Codes under ids, searched by Hamming distance.

    An engine answers with ids in the place of rows, equal distances in ascending order of id. A
    search for more items than there are returns all of them.
    """

    n_bits: int

    def add(self, ids: ArrayLike, codes: Codes) -> None:
        """Keep codes under ids that are not taken yet."""

    def delete(self, ids: ArrayLike) -> int:
        """Forget ids; how many of them were there."""

    def search(self, queries: Codes, k: int = 10) -> Ranking:
        """The ``k`` nearest ids of each query."""

    def __len__(self) -> int: ...


def as_ids(ids: ArrayLike) -> NDArray[np.int64]:
    """Ids as 64-bit whole numbers, if that is what they are."""
    numbers = np.asarray(ids)
    if numbers.size == 0:
        return np.empty(0, dtype=np.int64)
    if numbers.dtype.kind not in "iu" or np.any(numbers > np.iinfo(np.int64).max):
        raise InputError(
            "Ids are whole numbers that fit into 64 bits. "
            f"Got {numbers.dtype} such as {numbers.ravel()[0]!r}."
        )
    return numbers.astype(np.int64)


def check_k(k: int) -> int:
    """``k`` as an int, if it is a number of answers that can be asked for."""
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"k must be a whole number from 1 up. Got {k!r}.")
    return int(k)
