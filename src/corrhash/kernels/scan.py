"""The exact k nearest codes by Hamming distance, found by looking at every code of the database.

Many queries share the work on a tile of the database: it is turned round into the table of
:mod:`corrhash.kernels.vectors` once, and each query then marks the codes below its threshold. Few
queries read the database as it is, each by itself, with a prefetch that keeps the memory busy.

Either way a query meets the rows in ascending order and keeps a candidate only if its distance is
*strictly* below the threshold, the k-th smallest distance so far. A later row never displaces an
earlier one at the same distance: equal distances come out in row order, without a sort.

Several threads share either the queries or, where there are few of these, the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corrhash.kernels.popcount import popcount
from corrhash.kernels.read_only import read_only
from corrhash.kernels.threads import n_threads, split_over_threads
from corrhash.kernels.vectors import (
    ROWS_PER_TRIPLE,
    TRIPLES_PER_CHUNK,
    WORDS_PER_VECTOR,
    fill_table,
    mark_block,
    mark_near,
)

TILE_WORDS = 32
"""Words of hits in a tile: 2,048 codes, whose table of 64-bit codes (56 kB) stays in the cache."""

BATCH = 256
"""Queries that share one table of a tile, at most: making it costs as much as 15 of them."""

ROOM = 4_000_000
"""Candidates of all queries of a batch together (32 MB), so that a large k takes fewer queries."""

FEW = 10
"""Fewer queries than this do not pay for the table."""

QUERIES_PER_THREAD = 32
"""With fewer than this for each thread, threads share the rows: all queries then share a table."""

WORDS_PER_THREAD = 1 << 17
"""Words of codes that are worth a thread: waking one takes as long as to compare half of them."""

ROWS_PER_ANSWER = 128
"""Rows for each answer of each thread: all of them find k, which one thread then merges."""

AHEAD = 512
"""Codes between the one that a lone query reads and the one that it has fetched: 4 kB a word."""

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
    """The ``k`` nearest database rows of each query, by distance and then by row.

    Parameters
    ----------
    query_planes : (n_words, n_queries), as :meth:`corrhash.codes.Codes.planes` gives them.
    database_planes : (n_words, n), at most 2**32 codes.
    n_bits : length of a code; bits beyond it are zero.
    k : from 1 to n.
    threads : over how many threads to spread the queries; None means all cores of this process.
        The answer does not depend on it.

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
    rows, distances = _empty_answers(len(queries), k)

    def search(start: int, stop: int) -> None:
        some, everything = slice(start, stop), (0, database.shape[1])
        _scan(queries[some], database, everything, n_bits, k, rows[some], distances[some])

    # One slice a thread: each slice turns the whole database round for itself.
    split_over_threads(search, len(queries), threads, at_least=-(-len(queries) // threads))
    return rows, distances


def _parts_of_rows(
    n_queries: int, database: NDArray[np.uint64], k: int, threads: int
) -> list[tuple[int, int]]:
    """Spans of rows that threads share, if they do better to share these than the queries."""
    n = database.shape[1]
    if n_queries >= QUERIES_PER_THREAD * threads:
        return [(0, n)]
    # Searching takes n / n_parts, merging n_parts * k.
    worth_merging = math.isqrt(n // (ROWS_PER_ANSWER * k))
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
    """A thread for each part of the rows; the best of their answers are the best of all."""
    answers = [_empty_answers(len(queries), k) for _ in parts]

    def search(start: int, stop: int) -> None:
        for part in range(start, stop):
            _scan(queries, database, parts[part], n_bits, k, *answers[part])

    split_over_threads(search, len(parts), len(parts))
    return best_of_parts(answers, k)


def best_of_parts(
    answers: Sequence[tuple[NDArray[np.int64], NDArray[np.int32]]], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The ``k`` nearest among the answers of parts of the rows, which stand in order of row."""
    rows, distances = (np.concatenate(some, axis=1) for some in zip(*answers, strict=True))
    # A stable sort leaves equal distances in the order of their parts, which is that of rows.
    best = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(rows, best, axis=1), np.take_along_axis(distances, best, axis=1)


def _empty_answers(n_queries: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.empty((n_queries, k), np.int64), np.empty((n_queries, k), np.int32)


def _scan(queries: Any, *rest: Any) -> None:
    """Search a span of rows; two functions, so that who asks few queries compiles but one."""
    (_scan_few if len(queries) < FEW else _scan_many)(queries, *rest)


@_compiled
def _scan_many(
    queries: Any, planes: Any, span: Any, n_bits: int, k: int, rows_out: Any, distances_out: Any
) -> None:
    """Search the rows from ``span[0]`` to ``span[1]``, of which there are at least ``k``.

    Batch by batch, so that what the queries know stays small.
    """
    batch = max(FEW, min(BATCH, ROOM // _capacity(span[1] - span[0], k)))
    for start in range(0, len(queries), batch):
        some = slice(start, start + batch)
        _scan_batch(queries[some], planes, span, n_bits, k, rows_out[some], distances_out[some])


@_compiled
def _scan_batch(
    queries: Any, planes: Any, span: Any, n_bits: int, k: int, rows_out: Any, distances_out: Any
) -> None:
    """Tile by tile: make its table, let every query mark the near codes, collect them."""
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
        _turn(planes, tile, n_codes, digits)
        fill_table(digits, n_triples, TILE_WORDS, table)
        # The first tile goes in pieces that double, so that thresholds fall before much is kept.
        first, piece = 0, 1 if tile == start else _VECTORS
        while first * WORDS_PER_VECTOR * 64 < n_codes:
            last = min(first + piece, _VECTORS)
            for q in range(n_queries):
                marked[q] = mark_near(table, offsets, q, n_chunks, first, last, states[q, 1], hits)
            if 64 * last * WORDS_PER_VECTOR > n_codes:
                _unmark_from(n_codes, hits, marked)
            _collect(planes, queries, tile, hits, marked, k, known)
            first, piece = last, 2 * piece
    _sort(known, rows_out, distances_out)


@_compiled
def _table_offsets(queries: Any, n_triples: int) -> Any:
    """Where in the table each query's rows start, (n_queries, n_triples, 2): staying, carried."""
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
def _turn(planes: Any, tile: int, n_codes: int, digits: Any) -> None:
    """Turn a tile round: bit c of ``digits[b, w]`` becomes bit b of code 64 * w + c of the tile.

    Each word of 64 codes is a 64 x 64 matrix of bits, transposed by swapping its off-diagonal
    quarters, then those of each quarter, and so on (Hacker's Delight, 7-3), for all w together.
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
    """Exchange the high halves of ``half`` rows with the low halves of the ``half`` rows below."""
    shift = np.uint64(half)
    # Unsigned, so that numba makes no room for negative indices: then LLVM can use vectors.
    upper, length = np.uint64(start), np.uint64(half * TILE_WORDS)
    for i in range(upper, upper + length):
        swap = ((flat[i] >> shift) ^ flat[i + length]) & low_half
        flat[i + length] ^= swap
        flat[i] ^= swap << shift


@_compiled
def _unmark_from(n_codes: int, hits: Any, marked: Any) -> None:
    """Clear the bits of codes that are not there: the last tile is seldom full."""
    word, rest = n_codes // 64, np.uint64(n_codes % 64)
    for q in range(len(hits)):
        hits[q, word] &= (_ONE << rest) - _ONE
        marked[q] &= (np.uint64(2) << np.uint64(word)) - _ONE


@_compiled
def _scan_few(
    queries: Any, planes: Any, span: Any, n_bits: int, k: int, rows_out: Any, distances_out: Any
) -> None:
    """Each query goes through the rows of the span by itself."""
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
            hits[0, 0] = (_ONE << np.uint64(stop - first)) - _ONE  # the last few: look at each
        if hits[0, 0] != 0:
            _collect(planes, query, first, hits, marked, k, known)
    _sort(known, rows_out, distances_out)


@_compiled
def _capacity(n: int, k: int) -> int:
    """How many candidates a query has room for: enough that they seldom need to be compacted."""
    return min(n, 2 * k + 1024)


@_compiled
def _candidates(n_queries: int, n: int, n_bits: int, k: int) -> Any:
    """What the queries know: candidates in row order, how many at each distance, and states.

    A candidate is ``distance << 32 | row``. A state is (number of candidates, threshold, how many
    candidates are below the threshold). All is unsigned: numba makes room for negative indices
    otherwise, at two instructions an access.
    """
    candidates = np.empty((n_queries, _capacity(n, k)), np.uint64)
    histograms = np.zeros((n_queries, n_bits + 1), np.uint64)
    states = np.zeros((n_queries, 3), np.uint64)
    states[:, 1] = n_bits + 1  # every code is nearer than that
    return candidates, histograms, states


@_compiled
def _collect(
    planes: Any, queries: Any, tile: int, hits: Any, marked: Any, k: int, known: Any
) -> None:
    """Keep the hits that are below their query's threshold, which falls on the way.

    Bit 0 of ``hits[q, 0]`` stands for row ``tile``; the bits of ``marked[q]`` say which words of
    ``hits[q]`` to look at.
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
    """The place of the lowest set bit."""
    return np.uint64(popcount(~word & (word - _ONE)))


@njit(inline="always")  # a call would pass every field of two arrays, for three instructions
def _distance(queries: Any, q: Any, planes: Any, row: Any) -> Any:
    distance = _ZERO
    for word in range(np.uint64(len(planes))):
        distance += np.uint64(popcount(planes[word, row] ^ queries[q, word]))
    return distance


@_compiled
def _compact(candidates: Any, q: Any, n_found: Any, k: Any, threshold: Any, n_below: Any) -> Any:
    """Move the candidates that are still among the best ``k`` to the front; how many they are.

    Without branches on the distance, which no processor could foresee.
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
    """Counting sort: the place of a candidate is the number of nearer ones, then row order."""
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
