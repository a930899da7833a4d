"""CodeIndex: what an engine that searches codes offers."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

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


def check_k(k: int) -> int:
    """``k`` as an int, if it is a number of answers that can be asked for."""
    if int(k) != k or k < 1:
        raise InputError(f"k must be a whole number from 1 up. Got {k}.")
    return int(k)
