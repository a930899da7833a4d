"""Entries: items with their ids and codes, as they go into an engine and come out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes, check_codes, check_same_bits
from corrhash.errors import InputError
from corrhash.index.item import SIDES, Item, check_side

LARGEST_ID = 2**62 - 1
"""Engines that keep the two codes of an item apart number them 2 * id and 2 * id + 1."""

SideCodes = Codes | Mapping[str, Codes | tuple[ArrayLike, Codes]]


@dataclass(frozen=True, eq=False)
class Entries:
    """``len(entries)`` items under ids, each with one code or two.

    Parameters
    ----------
    ids : (n,) distinct.
    codes : of each side that occurs.
    rows : of each side, which of the ids its codes belong to.
    items : n, or none where codes are all there is.
    """

    ids: NDArray[np.int64]
    codes: dict[str, Codes]
    rows: dict[str, NDArray[np.int64]]
    items: Sequence[Item]

    def __len__(self) -> int:
        return len(self.ids)

    def item(self, row: int) -> Item:
        """The item of a row."""
        return self.items[row] if self.items else Item()


def as_entries(
    ids: ArrayLike, codes: SideCodes, items: Sequence[Item] | None, n_bits: int
) -> Entries:
    """What is to be added, checked.

    ``codes`` are Codes, which count as those of images; or by side, for every item or, as a pair
    of rows and Codes, for some of them.
    """
    numbers = as_ids(ids)
    by_side = codes if isinstance(codes, Mapping) else {"image": codes}
    rows: dict[str, NDArray[np.int64]] = {}
    kept: dict[str, Codes] = {}
    for side, given in by_side.items():
        place, of_side = given if isinstance(given, tuple) else (np.arange(numbers.size), given)
        check_same_bits(check_codes(of_side).n_bits, n_bits)
        rows[check_side(side)] = np.asarray(place, dtype=np.int64)
        if numbers.shape != (numbers.size,) or len(rows[side]) != len(of_side):
            raise InputError(
                f"Give one id a code. Got {len(rows[side])} ids, {len(of_side)} codes."
            )
        kept[side] = of_side
    _check_distinct(numbers)
    if items is not None and len(items) != len(numbers):
        raise InputError(f"Give one item an id. Got {len(items)} items, {len(numbers)} ids.")
    coded = np.unique(np.concatenate([np.empty(0, np.int64), *rows.values()]))
    if not np.array_equal(coded, np.arange(len(numbers))):
        raise InputError(
            f"Each item needs the code of its picture or of its text. Got {len(numbers)} items, "
            f"and codes for {len(coded)} of them."
        )
    return Entries(numbers, kept, rows, () if items is None else list(items))


def as_ids(ids: ArrayLike) -> NDArray[np.int64]:
    """Ids as whole numbers from 0 up, if that is what they are."""
    numbers = np.asarray(ids)
    if numbers.size == 0:
        return np.empty(0, dtype=np.int64)
    if numbers.dtype.kind not in "iu" or np.any(numbers > LARGEST_ID) or np.any(numbers < 0):
        raise InputError(
            "Ids are whole numbers from 0 to 2^62 - 1. "
            f"Got {numbers.dtype} such as {numbers.ravel()[0]!r}."
        )
    return numbers.astype(np.int64)


def check_free(taken: NDArray[np.int64]) -> None:
    """Refuse ids that are taken; ``taken`` are those of the new ones that are."""
    if len(taken):
        raise InputError(
            f"Id {taken[0]} is taken already. Delete it first, use another, or use upsert."
        )


def _check_distinct(ids: NDArray[np.int64]) -> None:
    distinct, counts = np.unique(ids, return_counts=True)
    if len(distinct) != len(ids):
        raise InputError(f"Id {distinct[counts > 1][0]} is taken already: it is given twice.")


def sides_of(entries: Entries) -> list[tuple[str, Any, Codes]]:
    """Side, rows and codes of each side that occurs, images first."""
    return [
        (side, entries.rows[side], entries.codes[side]) for side in SIDES if side in entries.codes
    ]
