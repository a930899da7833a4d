"""CodeIndex: what an engine that keeps and searches codes offers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes
from corrhash.errors import InputError
from corrhash.filters import Filter
from corrhash.index.entries import Entries, SideCodes
from corrhash.index.item import SHOWN, Item
from corrhash.ranking import Ranking


class CodeIndex(Protocol):
    """Codes under ids, searched by Hamming distance, and what is known of their items.

    An item has the code of its picture, of its text or of both, and is found by either; plain
    Codes count as those of pictures. An engine answers with ids in the place of rows, equal
    distances in ascending order of id. A search for more items than there are returns all of them.

    What ``add`` and ``upsert`` are given is there as a whole or not at all (an engine that cannot
    promise it says so at ``upsert``), and once they return it survives the end of the process,
    unless the engine lives in memory.

    Attributes
    ----------
    n_bits : length of the codes.
    about : what was said of the index when it was made, plain enough for JSON.
    """

    n_bits: int
    about: dict[str, Any]

    @classmethod
    def open(cls, uri: str, n_bits: int, about: dict[str, Any] | None = None) -> Self:
        """The index at an address; a new one, of which ``about`` is kept, if there is none."""

    @classmethod
    def look(cls, uri: str) -> dict[str, Any] | None:
        """What is kept about the index at an address, ``n_bits`` included; None if none is."""

    def add(self, ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None = None) -> None:
        """Keep codes and items under ids that are not taken yet."""

    def upsert(self, ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None = None) -> None:
        """Keep codes and items under ids, in place of what was there."""

    def delete(self, ids: ArrayLike) -> int:
        """Forget ids; how many of them were there."""

    def search(
        self,
        queries: Codes,
        k: int = 10,
        *,
        side: str = "image",
        where: str | Filter | None = None,
        radius: int | None = None,
    ) -> Ranking:
        """The ``k`` nearest ids of each query, of those that pass a filter, within a radius."""

    def get(self, ids: ArrayLike, fields: Sequence[str] = SHOWN) -> list[Item | None]:
        """The items of ids, with some of their fields; None where there is none."""

    def codes_of(self, ids: ArrayLike, side: str = "image") -> tuple[NDArray[np.int64], Codes]:
        """Which of the ids have a code on this side, and their codes."""

    def ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        """The ids of those keys that there are."""

    def new_ids(self, n: int) -> NDArray[np.int64]:
        """Ids that are not taken, larger than all that are."""

    def writing(self) -> AbstractContextManager[object]:
        """While it lasts nobody else writes, where the engine can see to that."""

    def batches(self, size: int = 1000) -> Iterator[Entries]:
        """Everything, in ascending order of id."""

    def __len__(self) -> int: ...


def check_k(k: int) -> int:
    """``k`` as an int, if it is a number of answers that can be asked for."""
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"k must be a whole number from 1 up. Got {k!r}.")
    return int(k)


def check_radius(radius: int | None) -> int | None:
    """A largest distance, if it is one; None means any distance."""
    if radius is not None and (not isinstance(radius, (int, np.integer)) or radius < 0):
        raise InputError(f"radius must be a whole number from 0 up. Got {radius!r}.")
    return None if radius is None else int(radius)


def check_about(about: dict[str, Any], uri: str, n_bits: int) -> None:
    """Whether an index that is there has codes of the length that is wanted."""
    if about["n_bits"] != n_bits:
        raise InputError(
            f"{uri} holds codes of {about['n_bits']} bits. Got {n_bits}. "
            "Use the model it was made with, or another address."
        )
