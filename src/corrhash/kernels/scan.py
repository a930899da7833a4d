"""Exact k-nearest-neighbour search by Hamming distance: a scan over all database codes.

Many queries share the work on a tile of the database: it is transposed into the table of
:mod:`corrhash.kernels.simd` once, and each query then marks the codes below its threshold. Few
queries read the database as it is, one after another, with a software prefetch.

Each query reads the rows in ascending order and keeps a candidate only if its distance is
*strictly* below the threshold, the k-th smallest distance so far. A later row therefore never
displaces an earlier one at the same distance, and ties come out in row order without a sort.

Threads split the queries or, if there are few of them, the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corrhash.kernels.simd import (
    COUNTS_BITS,
    ROWS_PER_TRIPLE,
    TRIPLES_PER_CHUNK,
    WORDS_PER_VECTOR,
    fill_table,
    mark_block,
    mark_near,
    popcount,
)
from corrhash.kernels.threads import n_threads, read_only, split_over_threads

TILE_WORDS = 32
"""Words of hits per tile: 2,048 codes, whose table for 64 bits (56 kB) stays in the cache."""

BATCH = 256
"""Most queries that share the table of a tile; building it costs as much as 15 queries."""

ROOM = 4_000_000
"""Candidates of all queries of a batch (32 MB): a large k makes batches smaller."""

FEW = 20 if COUNTS_BITS else 10
"""Number of queries from which building the table pays, measured on both kinds of processors."""

QUERIES_PER_THREAD = 32
"""With fewer queries per thread, threads split the rows, so that all queries share a table."""

WORDS_PER_THREAD = 1 << 17
"""Words of codes worth a thread: waking one takes as long as comparing half of them."""

ROWS_PER_RESULT = 128
"""Rows per result of a thread: each thread finds k results, which one thread merges."""

AHEAD = 512
"""Prefetch distance of a single query in codes: 4 kB per word."""

_TILE = 64 * TILE_WORDS
_VECTORS = TILE_WORDS // WORDS_PER_VECTOR
_CHUNK_BITS = 3 * TRIPLES_PER_CHUNK
_ZERO, _ONE, _HALF = np.uint64(0), np.uint64(1), np.uint64(32)
_LOW = np.uint64(2**32 - 1)
# The low half of each 64, 32, 16, 8, 4 and 2 bits.
_LOW_HALVES = (2**64 - 1) // (2 ** np.array([32, 16, 8, 4, 2, 1], dtype=np.uint64) + _ONE)

_compiled = njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")


def nearest(
    query_planes: NDArray[np.uint64],
    database_planes: NDArray[np.uint64],
    n_bits: int,
    k: int,
    threads: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the ``k`` nearest database rows of each query, by distance and then by row.

    Parameters
    ----------
    query_planes : (n_words, n_queries) codes, see :meth:`corrhash.codes.Codes.planes`.
    database_planes : (n_words, n) codes, at most 2**32.
    n_bits : code length; bits beyond it are zero.
    k : number of results, from 1 to n.
    threads : number of threads; None means all cores of this process. Results do not depend on it.

    Returns
    -------
    rows : (n_queries, k).
    distances : (n_queries, k).
    """
    queries = read_only(query_planes.T)  # (n_queries, n_words)
    database = read_only(database_planes)
    threads = n_threads(threads)
    parts = _parts_of_rows(len(queries), database, k, threads)
    if len(parts) > 1:
        return _nearest_in_parts(queries, database, n_bits, k, parts)
    rows, distances = _empty_results(len(queries), k)

    def search(start: int, stop: int) -> None:
        some, everything = slice(start, stop), (0, database.shape[1])
        _scan(queries[some], database, everything, n_bits, k, rows[some], distances[some])

    # One slice per thread: each slice transposes the whole database.
    split_over_threads(search, len(queries), threads, at_least=-(-len(queries) // threads))
    return rows, distances


def _parts_of_rows(
    n_queries: int, database: NDArray[np.uint64], k: int, threads: int
) -> list[tuple[int, int]]:
    """Return the spans of rows that threads split; one span if they split the queries."""
    n = database.shape[1]
    if n_queries >= QUERIES_PER_THREAD * threads:
        return [(0, n)]
    # Searching takes n / n_parts, merging n_parts * k.
    worth_merging = math.isqrt(n // (ROWS_PER_RESULT * k))
    worth_waking = n_queries * database.size // WORDS_PER_THREAD
    n_parts = max(1, min(threads, worth_merging, worth_waking))
    starts = [n * part // n_parts // 64 * 64 for part in range(n_parts)]  # whole blocks
    return list(pairwise([*starts, n]))


def _nearest_in_parts(
    queries: NDArray[np.uint64],
    database: NDArray[np.uint64],
    n_bits: int,
    k: int,
    parts: list[tuple[int, int]],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Search each part of the rows on a thread and merge the results."""
    results = [_empty_results(len(queries), k) for _ in parts]

    def search(start: int, stop: int) -> None:
        for part in range(start, stop):
            _scan(queries, database, parts[part], n_bits, k, *results[part])

    split_over_threads(search, len(parts), len(parts))
    return best_of_parts(results, k)


def best_of_parts(
    results: Sequence[tuple[NDArray[np.int64], NDArray[np.int32]]], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the ``k`` nearest of the results of several parts, given in row order."""
    rows, distances = (np.concatenate(some, axis=1) for some in zip(*results, strict=True))
    # A stable sort leaves equal distances in the order of parts, which is row order.
    best = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(rows, best, axis=1), np.take_along_axis(distances, best, axis=1)


def _empty_results(n_queries: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.empty((n_queries, k), np.int64), np.empty((n_queries, k), np.int32)


def _scan(queries: Any, *rest: Any) -> None:
    """Search a span of rows with one of two functions, so that only that one is compiled."""
    (_scan_few if len(queries) < FEW else _scan_many)(queries, *rest)


@_compiled
def _scan_many(
    queries: Any, planes: Any, span: Any, n_bits: int, k: int, rows_out: Any, distances_out: Any
) -> None:
    """Search rows ``span[0]`` to ``span[1]``, in batches of queries to bound the memory."""
    batch = max(FEW, min(BATCH, ROOM // _capacity(span[1] - span[0], k)))
    for start in range(0, len(queries), batch):
        some = slice(start, start + batch)
        _scan_batch(queries[some], planes, span, n_bits, k, rows_out[some], distances_out[some])


@_compiled
def _scan_batch(
    queries: Any, planes: Any, span: Any, n_bits: int, k: int, rows_out: Any, distances_out: Any
) -> None:
    """Build the table of each tile, let every query mark near codes, and collect them."""
    n_queries, (start, stop) = len(queries), span
    n_chunks = (n_bits + _CHUNK_BITS - 1) // _CHUNK_BITS
    n_triples = n_chunks * TRIPLES_PER_CHUNK
    offsets = _table_offsets(queries, n_triples)
    digits = np.zeros((max(64 * planes.shape[0], 3 * n_triples), TILE_WORDS), np.uint64)
    table = np.empty((n_triples * ROWS_PER_TRIPLE, TILE_WORDS), np.uint64)
    hits = np.empty((n_queries, TILE_WORDS), np.uint64)
    marked = np.empty(n_queries, np.uint64)
    known = _candidates(n_queries, stop - start, n_bits, k)
    states = known[2]
    for tile in range(start, stop, _TILE):
        n_codes = min(_TILE, stop - tile)
        _transpose(planes, tile, n_codes, digits)
        fill_table(digits, n_triples, TILE_WORDS, table)
        # The first tile is read in doubling pieces, so that thresholds fall early.
        first, piece = 0, 1 if tile == start else _VECTORS
        while first * WORDS_PER_VECTOR * 64 < n_codes:
            last = min(first + piece, _VECTORS)
            for q in range(n_queries):
                marked[q] = mark_near(table, offsets, q, n_chunks, first, last, states[q, 1], hits)
            if 64 * last * WORDS_PER_VECTOR > n_codes:
                _clear_hits_from(n_codes, hits, marked)
            _collect(planes, queries, tile, hits, marked, k, known)
            first, piece = last, 2 * piece
    _sort(known, rows_out, distances_out)


@_compiled
def _table_offsets(queries: Any, n_triples: int) -> Any:
    """Return offsets of table rows, (n_queries, n_triples, 2): sum digit, carry digit."""
    offsets = np.empty((len(queries), n_triples, 2), np.int64)
    for q in range(len(queries)):
        for triple in range(n_triples):
            pattern = 0
            for i in range(3):
                bit = 3 * triple + i
                word, place = bit // 64, np.uint64(bit % 64)
                if word < queries.shape[1] and (queries[q, word] >> place) & _ONE != 0:
                    pattern |= 1 << i
            parity = popcount(np.uint64(pattern)) & 1
            offsets[q, triple, 0] = (triple * ROWS_PER_TRIPLE + 8 + parity) * TILE_WORDS
            offsets[q, triple, 1] = (triple * ROWS_PER_TRIPLE + pattern) * TILE_WORDS
    return offsets


@_compiled
def _transpose(planes: Any, tile: int, n_codes: int, digits: Any) -> None:
    """Transpose a tile: bit c of ``digits[b, w]`` becomes bit b of code 64 * w + c.

    Each word of 64 codes is a 64 x 64 bit matrix. Swapping its off-diagonal quarters, then those
    of each quarter, and so on transposes it (Hacker's Delight, 7-3), for all w at once.
    """
    flat = digits.reshape(-1)
    for word in range(planes.shape[0]):
        square = 64 * word * TILE_WORDS
        for code in range(n_codes):
            flat[square + code % 64 * TILE_WORDS + code // 64] = planes[word, tile + code]
        for code in range(n_codes, _TILE):
            flat[square + code % 64 * TILE_WORDS + code // 64] = 0
        for level in range(6):
            half = 32 >> level
            for top in range(0, 64, 2 * half):
                _swap_quarters(flat, square + top * TILE_WORDS, half, _LOW_HALVES[level])


@_compiled
def _swap_quarters(flat: Any, start: int, half: int, low_half: Any) -> None:
    """Swap the high halves of ``half`` rows with the low halves of the ``half`` rows below."""
    shift = np.uint64(half)
    # Unsigned indices spare the check for negative ones, which lets LLVM vectorize the loop.
    upper, length = np.uint64(start), np.uint64(half * TILE_WORDS)
    for i in range(upper, upper + length):
        swap = ((flat[i] >> shift) ^ flat[i + length]) & low_half
        flat[i + length] ^= swap
        flat[i] ^= swap << shift


@_compiled
def _clear_hits_from(n_codes: int, hits: Any, marked: Any) -> None:
    """Clear the bits beyond the last code: the last tile is seldom full."""
    word, rest = n_codes // 64, np.uint64(n_codes % 64)
    for q in range(len(hits)):
        hits[q, word] &= (_ONE << rest) - _ONE
        marked[q] &= (np.uint64(2) << np.uint64(word)) - _ONE


@_compiled
def _scan_few(
    queries: Any, planes: Any, span: Any, n_bits: int, k: int, rows_out: Any, distances_out: Any
) -> None:
    """Scan the span once for each query."""
    for q in range(len(queries)):
        one = slice(q, q + 1)
        _scan_one(queries[one], planes, span, n_bits, k, rows_out[one], distances_out[one])


@_compiled
def _scan_one(
    query: Any, planes: Any, span: Any, n_bits: int, k: int, rows_out: Any, distances_out: Any
) -> None:
    start, stop = span
    known = _candidates(1, stop - start, n_bits, k)
    states = known[2]
    hits, marked = np.empty((1, 1), np.uint64), np.ones(1, np.uint64)
    for first in range(start, stop, 64):
        if first + 64 <= stop:
            hits[0, 0] = mark_block(planes, query, first, states[0, 1], AHEAD)
        else:
            hits[0, 0] = (
                _ONE << np.uint64(stop - first)
            ) - _ONE  # the last few codes: compare each
        if hits[0, 0] != 0:
            _collect(planes, query, first, hits, marked, k, known)
    _sort(known, rows_out, distances_out)


@_compiled
def _capacity(n: int, k: int) -> int:
    """Return the candidates that a query has room for, enough to compact them seldom."""
    return min(n, 2 * k + 1024)


@_compiled
def _candidates(n_queries: int, n: int, n_bits: int, k: int) -> Any:
    """Return the search state: candidates in row order, their histograms by distance, states.

    A candidate is ``distance << 32 | row``. A state is (number of candidates, threshold, number of
    candidates below the threshold). Unsigned indices spare two instructions per access.
    """
    candidates = np.empty((n_queries, _capacity(n, k)), np.uint64)
    histograms = np.zeros((n_queries, n_bits + 1), np.uint64)
    states = np.zeros((n_queries, 3), np.uint64)
    states[:, 1] = n_bits + 1  # above every distance
    return candidates, histograms, states


@_compiled
def _collect(
    planes: Any, queries: Any, tile: int, hits: Any, marked: Any, k: int, known: Any
) -> None:
    """Keep the hits below their query's threshold, and lower the threshold.

    Bit 0 of ``hits[q, 0]`` is row ``tile``; the bits of ``marked[q]`` select words of ``hits[q]``.
    """
    candidates, histograms, states = known
    capacity, wanted = np.uint64(candidates.shape[1]), np.uint64(k)
    for q in range(np.uint64(len(queries))):
        n_found, threshold, n_below = states[q, 0], states[q, 1], states[q, 2]
        words = marked[q]
        while words != 0:
            word = _lowest_bit(words)
            words &= words - _ONE
            left = hits[q, word]
            first = np.uint64(tile) + (word << np.uint64(6))
            while left != 0:
                row = first + _lowest_bit(left)
                left &= left - _ONE
                distance = _distance(queries, q, planes, row)
                if distance >= threshold:
                    continue
                if n_found == capacity:
                    n_found = _compact(candidates, q, n_found, wanted, threshold, n_below)
                candidates[q, n_found] = distance << _HALF | row
                n_found += _ONE
                histograms[q, distance] += _ONE
                n_below += _ONE
                while n_below >= wanted:
                    threshold -= _ONE
                    n_below -= histograms[q, threshold]
        states[q, 0], states[q, 1], states[q, 2] = n_found, threshold, n_below


@_compiled
def _lowest_bit(word: Any) -> Any:
    """Return the position of the lowest set bit."""
    return np.uint64(popcount(~word & (word - _ONE)))


@njit(inline="always")  # a call would pass every field of two arrays
def _distance(queries: Any, q: Any, planes: Any, row: Any) -> Any:
    distance = _ZERO
    for word in range(np.uint64(len(planes))):
        distance += np.uint64(popcount(planes[word, row] ^ queries[q, word]))
    return distance


@_compiled
def _compact(candidates: Any, q: Any, n_found: Any, k: Any, threshold: Any, n_below: Any) -> Any:
    """Move the candidates that are still among the best ``k`` to the front, and count them.

    There is no branch on the distance, which no processor could predict.
    """
    n_kept, n_at_threshold = _ZERO, k - n_below
    for i in range(n_found):
        candidate = candidates[q, i]
        distance = candidate >> _HALF
        at_threshold = np.uint64(distance == threshold) & np.uint64(n_at_threshold != 0)
        n_at_threshold -= at_threshold
        candidates[q, n_kept] = candidate
        n_kept += np.uint64(distance < threshold) | at_threshold
    return n_kept


@_compiled
def _sort(known: Any, rows_out: Any, distances_out: Any) -> None:
    """Sort candidates by counting: by distance, then in row order."""
    candidates, histograms, states = known
    k = np.uint64(rows_out.shape[1])
    for q in range(np.uint64(len(rows_out))):
        n_found, threshold, n_below = states[q, 0], states[q, 1], states[q, 2]
        place = _ZERO
        for distance in range(threshold + _ONE):
            count = histograms[q, distance]
            histograms[q, distance] = place
            place += count
        for i in range(_compact(candidates, q, n_found, k, threshold, n_below)):
            distance = candidates[q, i] >> _HALF
            place = histograms[q, distance]
            histograms[q, distance] += _ONE
            rows_out[q, place] = candidates[q, i] & _LOW
            distances_out[q, place] = distance
