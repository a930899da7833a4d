"""Multi-index hashing: exact nearest codes of a single query, comparing few of the codes.

A 64-bit code is split into four pieces of 16 bits. Two codes that differ in at most 4 s + t bits
differ in at most s bits in one of the first t + 1 pieces, or in at most s - 1 bits in one of the
others; otherwise they would differ in 4 s + t + 1 bits. A table for each piece sorts the codes by
its value. Round 4 s + t of a search compares the codes that differ from the query in s bits of
piece t. After it, every code up to that distance has been compared, and the search ends if there
are k of them (Norouzi, Punjani, Fleet 2012).

Tables hold copies of the codes, so that codes with the same value of a piece are adjacent and
compared as in a scan. Ties come out in row order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corrhash.kernels import scan
from corrhash.kernels.simd import mark_block, popcount
from corrhash.kernels.threads import read_only, split_over_threads

N_BITS = 64
PIECES = 4
PIECE_BITS = 16

LARGEST_SHARE = 1 / 8
"""Share of the codes above which a scan is faster than comparing candidates."""

ROOM = 1 << 16
"""Room for codes at the k-th distance beside the results: they do not come in row order."""

_BLOCK = 64
_HALF, _ONE, _LOW = np.uint64(32), np.uint64(1), np.uint64(2**32 - 1)
_PIECE = np.uint64(2**PIECE_BITS - 1)
# All values of a piece by their number of set bits; those with s bits begin at _BEGIN[s].
_VALUES = np.arange(2**PIECE_BITS)
_COUNTS = np.bitwise_count(_VALUES).astype(np.int64)
_BY_COUNT = np.argsort(_COUNTS, kind="stable")
_BEGIN = np.searchsorted(_COUNTS[_BY_COUNT], np.arange(PIECE_BITS + 2))

_compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")


@dataclass(frozen=True, eq=False)
class MultiIndex:
    """Four tables of all codes, each sorted by 16 of their bits.

    Parameters
    ----------
    begins : (4, 2**16 + 1) offsets of the codes with each value of a piece.
    codes : (4, n + 64) codes by that value and then by row, with 64 unused ones at the end.
    rows : (4, n) rows of these codes.
    """

    begins: NDArray[np.uint32]
    codes: NDArray[np.uint64]
    rows: NDArray[np.uint32]

    @classmethod
    def build(cls, codes: NDArray[np.uint64], threads: int | None = None) -> MultiIndex:
        """Build the tables of (n,) codes, at most 2**32 - 1; ten million take a second."""
        codes, n = read_only(codes), len(codes)
        tables = cls(
            np.zeros((PIECES, 2**PIECE_BITS + 1), np.uint32),
            np.zeros((PIECES, n + _BLOCK), np.uint64),  # whole blocks are read
            np.empty((PIECES, n), np.uint32),
        )

        def fill(start: int, stop: int) -> None:
            for piece in range(start, stop):
                _fill(codes, piece, tables.begins[piece], tables.codes[piece], tables.rows[piece])

        split_over_threads(fill, PIECES, threads)
        return tables

    def __len__(self) -> int:
        return self.rows.shape[1]

    def nearest(
        self,
        query_planes: NDArray[np.uint64],
        database_planes: NDArray[np.uint64],
        k: int,
        threads: int | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the results of :func:`corrhash.kernels.scan.nearest`, query by query.

        The database starts with the rows in the tables; later rows are scanned. All rows are
        scanned for a query with few codes near it, or with very many that share a piece.
        """
        n_known, n = len(self), database_planes.shape[1]
        parts = []
        for q in range(query_planes.shape[1]):
            query = query_planes[:, q : q + 1]
            found = self._nearest_known(query, k)
            if found is None:
                found = scan.nearest(query, database_planes, N_BITS, k, threads)
            elif n > n_known:
                later = database_planes[:, n_known:]
                rows, distances = scan.nearest(query, later, N_BITS, min(k, n - n_known), threads)
                found = scan.best_of_parts([found, (rows + n_known, distances)], k)
            parts.append(found)
        rows = np.concatenate([some for some, _ in parts])
        return rows, np.concatenate([some for _, some in parts])

    def _nearest_known(
        self, query: NDArray[np.uint64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Return (1, k) rows and distances from the tables; None if a scan is faster."""
        found = np.empty(2 * k + ROOM, np.uint64)
        tables = self.begins, self.codes, self.rows, _BY_COUNT, _BEGIN
        n_found = _search(*tables, read_only(query), k, found)
        if n_found < k:
            return None
        best = np.sort(found[:n_found])[None, :k]
        return (best & _LOW).astype(np.int64), (best >> _HALF).astype(np.int32)


@_compiled
def _fill(codes: Any, piece: int, begins: Any, copies: Any, rows: Any) -> None:
    """Sort codes by the value of one piece, and by row where it is equal."""
    shift = np.uint64(piece * PIECE_BITS)
    for code in codes:
        begins[((code >> shift) & _PIECE) + _ONE] += np.uint32(1)
    for value in range(2**PIECE_BITS):
        begins[value + 1] += begins[value]
    next_place = begins.copy()
    for row in range(len(codes)):
        value = (codes[row] >> shift) & _PIECE
        place = next_place[value]
        next_place[value] += np.uint32(1)
        copies[place] = codes[row]
        rows[place] = row


@_compiled
def _search(
    begins: Any, codes: Any, rows: Any, by_count: Any, begin: Any, query: Any, k: int, found: Any
) -> int:
    """Search in rounds until the k nearest are in ``found``, and return how many it holds.

    Returns 0 if that takes more than the largest share of the codes, or more room than exists.
    """
    histogram = np.zeros(N_BITS + 1, np.int64)
    # Number of codes found, k-th distance so far, number of codes found up to that distance.
    state = np.array([0, N_BITS, 0])
    left = np.int64(rows.shape[1] * LARGEST_SHARE)
    for n_differing in range(PIECE_BITS + 1):
        for piece in range(PIECES):
            of_query = np.int64((query[0, 0] >> np.uint64(piece * PIECE_BITS)) & _PIECE)
            first, last = begin[n_differing], begin[n_differing + 1] - 1
            for i in range(first, last + 1):
                value = by_count[i] ^ of_query
                left -= np.int64(begins[piece, value + 1]) - np.int64(begins[piece, value])
            if left < 0:
                return 0
            this_round = PIECES * n_differing + piece
            for i in range(first, last + 1):
                value, soon = by_count[i] ^ of_query, by_count[min(i + 2, last)] ^ of_query
                if not _compare(
                    begins[piece], codes[piece : piece + 1], rows[piece], value, soon,
                    query, k, this_round, histogram, state, found,
                ):  # fmt: skip
                    return 0
            if state[2] >= k and state[1] <= this_round:
                return _compact(state, found)
    return 0


@_compiled
def _compare(
    begins: Any, codes: Any, rows: Any, value: int, soon: int,
    query: Any, k: int, this_round: int, histogram: Any, state: Any, found: Any,
) -> bool:  # fmt: skip
    """Compare the codes with one value, and prefetch those with value ``soon``.

    Returns False if there is no room for the results.
    """
    stop = np.int64(begins[value + 1])
    for first in range(np.int64(begins[value]), stop, _BLOCK):
        if len(found) - state[0] < _BLOCK and len(found) - _compact(state, found) < _BLOCK:
            return False
        hits = mark_block(codes, query, first, state[1] + 1, np.int64(begins[soon]) - first)
        if stop - first < _BLOCK:
            hits &= (_ONE << np.uint64(stop - first)) - _ONE
        while hits != 0:
            place = first + np.int64(popcount(~hits & (hits - _ONE)))
            hits &= hits - _ONE
            differing = codes[0, place] ^ query[0, 0]
            if _first_round(differing) == this_round:
                _keep(popcount(differing), rows[place], k, histogram, state, found)
    return True


@_compiled
def _first_round(differing: Any) -> int:
    """Return the round that compares a code which differs from the query in these bits."""
    first = N_BITS
    for piece in range(PIECES):
        count = popcount((differing >> np.uint64(piece * PIECE_BITS)) & _PIECE)
        first = min(first, PIECES * count + piece)
    return first


@_compiled
def _keep(distance: int, row: Any, k: int, histogram: Any, state: Any, found: Any) -> None:
    """Add a row as ``distance << 32 | row``, and lower the k-th distance."""
    if distance > state[1]:
        return
    found[state[0]] = np.uint64(distance) << _HALF | np.uint64(row)
    state[0] += 1
    histogram[distance] += 1
    state[2] += 1
    while state[2] - histogram[state[1]] >= k:
        state[2] -= histogram[state[1]]
        state[1] -= 1


@_compiled
def _compact(state: Any, found: Any) -> int:
    """Drop codes farther than the k-th distance, and return how many are left."""
    n_kept = 0
    for i in range(state[0]):
        if np.int64(found[i] >> _HALF) <= state[1]:
            found[n_kept] = found[i]
            n_kept += 1
    state[0] = n_kept
    return n_kept
