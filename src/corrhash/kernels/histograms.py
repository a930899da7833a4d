"""Histograms of database items by Hamming distance and gain, from which metrics are computed.

Evaluation spends its time on binary relevance with codes of one or two words, so this case has its
own loop, :func:`_count_pairs`. It counts two rows per increment: their keys, 2 * distance +
relevant, are row and column of a table of pairs, whose margins are the histogram. All other cases
use the plain loop :func:`_count_each`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corrhash.kernels.simd import popcount
from corrhash.kernels.threads import read_only, split_over_threads

TILE = 1024
"""Words of keys, or rows, computed before they are counted, so that they stay in the cache."""

STREAMS = 64
"""Number of interleaved streams of rows: the bits of a word of relevance."""

ONE = np.uint32(1)
EACH_BYTE = np.uint64(0x0101010101010101)
EACH_LOW_BYTE = np.uint64(0x00FF00FF00FF00FF)


def distance_gain_histograms(
    query_planes: NDArray[np.uint64],
    database_planes: NDArray[np.uint64],
    n_bits: int,
    query_masks: NDArray[np.uint64],
    database_masks: NDArray[np.uint64],
    n_gains: int,
    threads: int | None = None,
) -> NDArray[np.uint32]:
    """Count, for each query, the database items at each distance with each gain.

    The gain is the number of labels that an item shares with the query, at most ``n_gains - 1``.
    With two gains it is binary relevance.

    Parameters
    ----------
    query_planes, database_planes : codes as (n_words, n) uint64, see :meth:`Codes.planes`.
    query_masks, database_masks : labels as bit masks in the same form, (n_label_words, n).

    Returns
    -------
    (n_queries, n_bits + 1, n_gains) counts.
    """
    n_queries = query_planes.shape[1]
    counts = np.zeros((n_queries, n_bits + 1, n_gains), np.uint32)
    codes = read_only(query_planes), read_only(database_planes)
    masks = read_only(query_masks), read_only(database_masks)
    if n_gains == 2 and len(database_planes) <= 2:
        labels = _labels_in_use(query_masks)
        planes = _label_planes(masks[1], labels)
        second = codes[1][1] if len(database_planes) == 2 else None

        def count(start: int, stop: int) -> None:
            first = codes[1][0]
            _count_pairs(codes[0], first, second, *masks, labels, planes, counts, start, stop)

    else:

        def count(start: int, stop: int) -> None:
            _count_each(*codes, *masks, counts, start, stop)

    split_over_threads(count, n_queries, threads)
    return counts


def distance_histograms(
    query_planes: NDArray[np.uint64],
    database_planes: NDArray[np.uint64],
    n_bits: int,
    threads: int | None = None,
) -> NDArray[np.uint32]:
    """Count, for each query, the database items at each distance: (n_queries, n_bits + 1)."""
    # Without labels no item is relevant, so all are counted with gain 0.
    query_masks = np.zeros((0, query_planes.shape[1]), np.uint64)
    database_masks = np.zeros((0, database_planes.shape[1]), np.uint64)
    counts = distance_gain_histograms(
        query_planes, database_planes, n_bits, query_masks, database_masks, 2, threads
    )
    return np.ascontiguousarray(counts[:, :, 0])


@njit(nogil=True, cache=True)
def listed_distances(
    query_planes: NDArray[np.uint64],
    database_planes: NDArray[np.uint64],
    query_of: NDArray[np.int64],
    row_of: NDArray[np.int64],
) -> NDArray[np.uint16]:
    """Return the distance of each listed pair of a query and a database row: (n_listed,)."""
    distances = np.zeros(len(query_of), np.uint16)
    for word in range(database_planes.shape[0]):
        for i in range(len(query_of)):
            difference = query_planes[word, query_of[i]] ^ database_planes[word, row_of[i]]
            distances[i] += np.uint16(popcount(difference))
    return distances


@njit(nogil=True, cache=True)
def distances_to(
    query_planes: NDArray[np.uint64], query: int, database_planes: NDArray[np.uint64]
) -> NDArray[np.uint16]:
    """Return the distances of one query, given by number, to all database rows: (n,)."""
    distances = np.empty(database_planes.shape[1], np.uint16)
    fill_distances(query_planes, query, database_planes, 0, distances)
    return distances


@njit(nogil=True, cache=True)
def shared_labels(
    query_masks: NDArray[np.uint64], query: int, database_masks: NDArray[np.uint64]
) -> NDArray[np.uint16]:
    """Return the number of labels that one query shares with each database row: (n,)."""
    shared = np.empty(database_masks.shape[1], np.uint16)
    fill_shared(query_masks, query, database_masks, 0, shared)
    return shared


@njit(nogil=True, cache=True)
def stable_order(distances: NDArray[np.uint16], n_bits: int) -> NDArray[np.int64]:
    """Return all rows by distance and then by row, with a counting sort: (n,)."""
    places = np.zeros(n_bits + 2, np.int64)  # places[d]: position of the next row at distance d
    for distance in distances:
        places[distance + 1] += 1
    for distance in range(n_bits + 1):
        places[distance + 1] += places[distance]
    rows = np.empty(len(distances), np.int64)
    for row in range(len(distances)):
        rows[places[distances[row]]] = row
        places[distances[row]] += 1
    return rows


@njit(nogil=True, cache=True)
def _count_each(query_planes, database_planes, query_masks, database_masks, counts, start, stop):
    """Compute all distances and gains of each tile of rows, then count them."""
    n = database_planes.shape[1]
    most = counts.shape[2] - 1
    distances = np.empty(TILE, np.uint16)
    gains = np.empty(TILE, np.uint16)
    for query in range(start, stop):
        for row in range(0, n, TILE):
            size = min(TILE, n - row)
            fill_distances(query_planes, query, database_planes, row, distances[:size])
            fill_shared(query_masks, query, database_masks, row, gains[:size])
            for i in range(size):
                counts[query, distances[i], min(gains[i], most)] += ONE


@njit(nogil=True, cache=True)
def fill_distances(query_planes, query, database_planes, row, out):
    """Write the distances of the query to the rows from ``row`` on into ``out``."""
    out[:] = 0
    for word in range(database_planes.shape[0]):
        of_query = query_planes[word, query]
        of_rows = database_planes[word, row : row + len(out)]
        for i in range(len(out)):
            out[i] += np.uint16(popcount(of_query ^ of_rows[i]))


@njit(nogil=True, cache=True)
def fill_shared(query_masks, query, database_masks, row, out):
    """Write the numbers of labels shared with the rows from ``row`` on into ``out``."""
    out[:] = 0
    for word in range(database_masks.shape[0]):
        of_query = query_masks[word, query]
        of_rows = database_masks[word, row : row + len(out)]
        for i in range(len(out)):
            out[i] += np.uint16(popcount(of_query & of_rows[i]))


def _labels_in_use(query_masks: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the labels of any query; the others make nothing relevant."""
    together = np.bitwise_or.reduce(query_masks, axis=1)  # (n_label_words,)
    bits = (together[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    return np.flatnonzero(bits)


@njit(nogil=True, cache=True)
def _label_planes(database_masks, labels):
    """Return one bit per row and label, (n_labels, n // 64).

    The rows with any of a query's labels are the union of a few planes, which is far cheaper than
    testing the mask of each row. Bit ``b`` of word ``i`` belongs to row ``b * (n // 64) + i``,
    which is row ``i`` of stream ``b``.
    """
    length = database_masks.shape[1] // STREAMS
    planes = np.zeros((len(labels), length), np.uint64)
    for p in range(len(labels)):
        masks = database_masks[labels[p] // 64]
        label = np.uint64(labels[p] % 64)
        for stream in range(STREAMS):
            stream_masks = masks[stream * length : (stream + 1) * length]
            for i in range(length):
                planes[p, i] |= ((stream_masks[i] >> label) & np.uint64(1)) << np.uint64(stream)
    return planes


@njit(nogil=True, cache=True)
def _count_pairs(
    query_planes, first, second, query_masks, database_masks, labels, planes, counts, start, stop
):
    """Count relevance for codes of one word (``second`` is None) or two, two rows at a time."""
    n = first.shape[0]
    length = n // STREAMS
    relevant = np.empty(length, np.uint64)
    keys = np.empty(TILE, np.uint64)  # eight keys per word
    pairs = keys.view(np.uint16)
    # One word has 130 keys. A row stride of 144 is a tenth faster at 64 bits than 256, presumably
    # because powers of two share few sets of the first-level cache.
    table = np.zeros((256, 144 if second is None else 256), np.uint32)
    cells = table.reshape(-1)
    for query in range(start, stop):
        words = query_planes[0, query], query_planes[-1, query]
        _unite_planes(query_masks, query, labels, planes, relevant)
        for stream in range(8):
            for i in range(0, length, TILE):
                size = min(TILE, length - i)
                _pack_keys(first, second, words, relevant, stream, i, keys[:size])
                for pair in pairs[: 4 * size]:
                    cells[pair] += ONE
        _add_margins(table, counts[query].reshape(-1))
        packed = length * STREAMS
        if counts.shape[1] == 129 and counts[query, 127].any():
            _split_farthest(
                first, second, words, query_masks, query, database_masks, packed, counts
            )
        for row in range(packed, n):
            distance = _distance(first, second, words, row)
            counts[query, distance, _relevant(query_masks, query, database_masks, row)] += ONE


@njit(nogil=True, cache=True)
def _distance(first, second, words, row):
    distance = popcount(first[row] ^ words[0])
    if second is not None:
        distance += popcount(second[row] ^ words[1])
    return distance


@njit(nogil=True, cache=True)
def _relevant(query_masks, query, database_masks, row):
    for word in range(database_masks.shape[0]):
        if query_masks[word, query] & database_masks[word, row]:
            return 1
    return 0


@njit(nogil=True, cache=True)
def _unite_planes(query_masks, query, labels, planes, relevant):
    """Set the bits of all rows that share a label with the query."""
    relevant[:] = 0
    for p in range(len(labels)):
        if (query_masks[labels[p] // 64, query] >> np.uint64(labels[p] % 64)) & np.uint64(1):
            relevant |= planes[p]


@njit(nogil=True, cache=True)
def _pack_keys(first, second, words, relevant, stream, start, keys):
    """Pack into each word the keys of one row in each of eight streams, two keys to an index.

    These are every eighth stream from ``stream`` on, so that bits of relevance are a byte apart.

    Nothing moves between the lanes of a vector, and unsigned row numbers spare the check for
    negative ones. Both let the compiler vectorize the loop.
    """
    length = np.uint64(len(relevant))
    shift = np.uint64(stream)
    row = shift * length + np.uint64(start)
    step = np.uint64(8) * length
    relevant = relevant[start:]
    for i in range(np.uint64(len(keys))):
        key = np.uint64(0)
        for byte in range(8):  # unrolled by the compiler
            at = row + i + np.uint64(7 - byte) * step
            distance = _distance(first, second, words, at)
            if second is not None:
                distance -= distance >> 7  # 128 does not fit beside relevance: see _split_farthest
            key = (key << np.uint64(8)) | np.uint64(distance)
        key = (key << np.uint64(1)) | ((relevant[i] >> shift) & EACH_BYTE)
        if second is None:
            high = (key >> np.uint64(8)) & EACH_LOW_BYTE
            key = (high << np.uint64(7)) + (high << np.uint64(4)) + (key & EACH_LOW_BYTE)
        keys[i] = key


@njit(nogil=True, cache=True)
def _add_margins(table, counts):
    """Add both margins of the table of pairs to the flat (n_bits + 1, 2) counts, and clear it."""
    n_keys = min(len(counts), len(table))
    for high in range(n_keys):
        row = table[high, :n_keys]
        total = np.uint32(0)
        for low in range(n_keys):
            total += row[low]
            counts[low] += row[low]
        counts[high] += total
        row[:] = 0


@njit(nogil=True, cache=True)
def _split_farthest(first, second, words, query_masks, query, database_masks, packed, counts):
    """Move the complements of the query from distance 127, where they were packed, to 128."""
    for row in range(packed):
        if _distance(first, second, words, row) == 128:
            gain = _relevant(query_masks, query, database_masks, row)
            counts[query, 127, gain] -= ONE
            counts[query, 128, gain] += ONE
