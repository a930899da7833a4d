"""Bit-sliced Hamming distances of many codes at once, as explicit LLVM vector instructions.

A processor without a vector bit count spends most of a Hamming distance on counting bits. Here the
tile of the database is transposed instead, so that bit ``c`` of a word belongs to code ``c`` and a
vector holds *one* binary digit of 256 or 512 codes. Digits are added in columns: a full adder turns
three digits of one column into a sum digit and a carry digit, with five logical instructions for
all those codes together.

Two tricks save a third of the additions, and the distances themselves:

- Bits are taken in triples, and the sum of three differing bits is looked up: the sum digit for
  both parities of the query's three bits, the carry digit for all eight patterns. These
  ``ROWS_PER_TRIPLE`` rows are computed once per tile and read by every query.
- The scan needs only whether a distance is below the query's threshold. Comparing two binary
  numbers digit by digit is one borrow that runs through the columns.

Every processor has logical instructions in its widest registers, so no special instruction is
needed.

A numba ``intrinsic`` is called while numba compiles. ``builder.xor(a, b)`` does not compute: it
appends an instruction and returns a name for its result. Python loops are therefore unrolled in the
machine code, and loops made with ``cgutils.for_range_slice`` remain loops. ``alloca`` declares a
variable that changes between iterations of such a loop.

After a change here, touch ``scan.py`` and ``multi_index.py`` too: numba's cache on disk watches
only the file of the compiled function.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def popcount(typing_context: Any, word: Any) -> Any:
    """Count the set bits of a uint64; only callable from ``njit`` code, returns an int64."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit


COUNTS_BITS = bool(get_host_cpu_features().get("avx512vpopcntdq"))
"""Whether one instruction counts the bits of each word of a vector."""

WORDS_PER_VECTOR = 8 if get_host_cpu_features().get("avx512f") else 4
"""64-bit words per vector: any number is correct, these are fast.

ARM registers hold two words: there LLVM splits each vector in two, which keeps both pipes busy.
"""

TRIPLES_PER_CHUNK = 22
"""Triples of bits added without a loop: 66 bits, so that a 64-bit code is one chunk."""

ROWS_PER_TRIPLE = 10
"""Rows 0 to 7: the carry digit for each pattern of the query; 8 and 9: the sum digit."""

CHUNK_DIGITS = 7  # binary digits of a number up to 66
TOTAL_DIGITS = 11  # binary digits of a number up to 1,024, the longest code

_INT64 = ir.IntType(64)
_VECTOR = ir.VectorType(_INT64, WORDS_PER_VECTOR)
_ZEROS = ir.Constant(_VECTOR, [0] * WORDS_PER_VECTOR)
_ONES = ir.Constant(_VECTOR, [-1] * WORDS_PER_VECTOR)


@intrinsic
def fill_table(
    typing_context: Any,
    digits: Any,  # (3 * n_triples or more, words) uint64: row b holds bit b of the tile's codes
    n_triples: Any,
    words: Any,
    table: Any,  # (n_triples * ROWS_PER_TRIPLE, words) uint64, written
) -> Any:
    """Add three bits of each code for every pattern of the query's three bits."""
    signature = types.none(digits, types.int64, types.int64, table)
    return signature, _emit_fill_table


def _emit_fill_table(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    digits, n_triples, words, table = arguments
    digits = _data(context, builder, signature.args[0], digits)
    table = _data(context, builder, signature.args[3], table)
    step = _INT64(WORDS_PER_VECTOR)

    def row(base: Any, index: Any, word: Any) -> Any:
        return builder.gep(base, [builder.add(builder.mul(index, words), word)])

    def nth(triple: Any, per_triple: int, number: int) -> Any:
        first = builder.mul(triple, _INT64(per_triple))
        return builder.add(first, _INT64(number))

    zero, one = _INT64(0), _INT64(1)
    with (
        cgutils.for_range_slice(builder, zero, n_triples, one, _INT64) as (triple, _),
        cgutils.for_range_slice(builder, zero, words, step, _INT64) as (word, _),
    ):
        bits = [_load_vector(builder, row(digits, nth(triple, 3, i), word)) for i in range(3)]
        for number, digit in enumerate(_rows_of_triple(builder, *bits)):
            _store_vector(builder, digit, row(table, nth(triple, ROWS_PER_TRIPLE, number), word))
    return context.get_dummy_value()


def _rows_of_triple(builder: Any, a: Any, b: Any, c: Any) -> list[Any]:
    """Return the sums of three bits, in the order of ``ROWS_PER_TRIPLE``.

    A set bit of the query flips the code's bit. Flipping all three flips both digits of the sum.
    """
    not_a, not_b = builder.xor(a, _ONES), builder.xor(b, _ONES)
    carried = [
        _full_adder(builder, x, y, c)[1] for y in (b, not_b) for x in (a, not_a)
    ]  # patterns 0 to 3: third bit of the query not set
    opposite = [builder.xor(digit, _ONES) for digit in reversed(carried)]  # patterns 4 to 7
    kept, _ = _full_adder(builder, a, b, c)
    return [*carried, *opposite, kept, builder.xor(kept, _ONES)]


@intrinsic
def mark_near(
    typing_context: Any,
    table: Any,  # (n_chunks * TRIPLES_PER_CHUNK * ROWS_PER_TRIPLE, words) uint64
    offsets: Any,  # (n_queries, n_chunks * TRIPLES_PER_CHUNK, 2) int64: where its rows start
    query: Any,
    n_chunks: Any,
    first: Any,
    last: Any,
    threshold: Any,
    hits: Any,  # (n_queries, words) uint64, written
) -> Any:
    """Set the bits of ``hits[query]`` for codes nearer than ``threshold``, vectors first to last.

    Bit ``c`` of word ``w`` is code ``64 * w + c`` of the tile. Returns a uint64 whose bit ``w`` is
    set if word ``w`` is not zero, so a tile has at most 64 words.
    """
    int64 = types.int64
    signature = types.uint64(table, offsets, int64, int64, int64, int64, int64, hits)
    return signature, _emit_mark_near


def _emit_mark_near(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    table, offsets, query, n_chunks, first, last, threshold, hits = arguments
    table = _data(context, builder, signature.args[0], table)
    offsets = _row(context, builder, signature.args[1], offsets, query)
    hits = _row(context, builder, signature.args[7], hits, query)
    limit = [_broadcast_digit(builder, threshold, d) for d in range(TOTAL_DIGITS)]
    one = _INT64(1)
    several = builder.icmp_signed(">", n_chunks, one)
    total = [cgutils.alloca_once(builder, _VECTOR) for _ in range(TOTAL_DIGITS)]
    borrow = cgutils.alloca_once(builder, _VECTOR)
    marked = cgutils.alloca_once_value(builder, _INT64(0))

    with cgutils.for_range_slice(builder, first, last, one, _INT64) as (vector, _):
        start = builder.mul(vector, _INT64(WORDS_PER_VECTOR))
        column = builder.gep(table, [start])
        digits = _add_chunk(builder, column, offsets, _INT64(0))
        _store(builder, digits + [_ZEROS] * (TOTAL_DIGITS - CHUNK_DIGITS), total)
        with cgutils.for_range_slice(builder, one, n_chunks, one, _INT64) as (chunk, _):
            digits = _add_chunk(builder, column, offsets, chunk)
            _store(builder, _add_numbers(builder, _load(builder, total), digits), total)
        low, high = total[:CHUNK_DIGITS], total[CHUNK_DIGITS:]
        below = _borrow(builder, _load(builder, low), limit[:CHUNK_DIGITS], _ZEROS)
        builder.store(below, borrow)
        with builder.if_then(several):
            below = builder.load(borrow)
            below = _borrow(builder, _load(builder, high), limit[CHUNK_DIGITS:], below)
            builder.store(below, borrow)
        below = builder.load(borrow)
        _store_vector(builder, below, builder.gep(hits, [start]))
        words = _as_integer(builder, builder.icmp_unsigned("!=", below, _ZEROS))
        words = builder.shl(words, start)
        builder.store(builder.or_(builder.load(marked), words), marked)
    return builder.load(marked)


def _add_chunk(builder: Any, column: Any, offsets: Any, chunk: Any) -> list[Any]:
    """Return the number of differing bits of a chunk, as binary digits from the lowest up.

    Three digits of a column are added as soon as they exist, so that few registers are in use.
    """
    columns: list[list[Any]] = [[] for _ in range(CHUNK_DIGITS + 1)]

    def add_column(place: int) -> None:
        kept, carried = _full_adder(builder, *[*columns[place], _ZEROS][:3])
        columns[place] = [kept]
        columns[place + 1].append(carried)

    base = builder.gep(offsets, [builder.mul(chunk, _INT64(2 * TRIPLES_PER_CHUNK))])
    for entry in range(2 * TRIPLES_PER_CHUNK):
        offset = builder.load(builder.gep(base, [_INT64(entry)]))
        digit = _load_vector(builder, builder.gep(column, [offset]))
        columns[entry % 2].append(digit)  # sum digit, then carry digit
        for place in range(CHUNK_DIGITS):
            if len(columns[place]) == 3:
                add_column(place)
    for place in range(CHUNK_DIGITS):
        if len(columns[place]) >= 2:
            add_column(place)
    return [digits[0] if digits else _ZEROS for digits in columns[:CHUNK_DIGITS]]


def _add_numbers(builder: Any, total: list[Any], digits: list[Any]) -> list[Any]:
    """Return the sum of two binary numbers, with as many digits as ``total``."""
    added, carried = [], _ZEROS
    for place, digit in enumerate(total):
        other = digits[place] if place < len(digits) else _ZEROS
        kept, carried = _full_adder(builder, digit, other, carried)
        added.append(kept)
    return added


def _full_adder(builder: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Return the sum digit and the carry digit of three digits."""
    differ = builder.xor(a, b)
    # The carry is "differ ? c : a", written so that LLVM finds AVX-512's single instruction for it.
    carried = builder.xor(a, builder.and_(differ, builder.xor(a, c)))
    return builder.xor(differ, c), carried


def _borrow(builder: Any, number: list[Any], limit: list[Any], borrow: Any) -> Any:
    """Return the borrow of ``number - limit``: all ones exactly where number < limit."""
    for digit, limit_digit in zip(number, limit, strict=True):
        # The highest differing digit decides; borrow holds the result of the lower digits.
        differ = builder.xor(digit, limit_digit)
        borrow = builder.xor(borrow, builder.and_(differ, builder.xor(borrow, limit_digit)))
    return borrow


def _broadcast_digit(builder: Any, number: Any, place: int) -> Any:
    """Return a vector of ones if binary digit ``place`` of ``number`` is set, else of zeros."""
    bit = builder.trunc(builder.lshr(number, _INT64(place)), ir.IntType(1))
    return builder.select(bit, _ONES, _ZEROS)


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Return the address of an array's first element."""
    return context.make_array(array_type)(context, builder, array).data


def _row(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Return the address of the first element of ``array[index]``, for an array in C order."""
    array = context.make_array(array_type)(context, builder, array)
    for length in cgutils.unpack_tuple(builder, array.shape)[1:]:
        index = builder.mul(index, length)
    return builder.gep(array.data, [index])


def _load_vector(builder: Any, address: Any) -> Any:
    return builder.load(builder.bitcast(address, _VECTOR.as_pointer()), align=8)


def _store_vector(builder: Any, vector: Any, address: Any) -> None:
    builder.store(vector, builder.bitcast(address, _VECTOR.as_pointer()), align=8)


def _load(builder: Any, slots: list[Any]) -> list[Any]:
    return [builder.load(slot) for slot in slots]


def _store(builder: Any, vectors: list[Any], slots: list[Any]) -> None:
    for vector, slot in zip(vectors, slots, strict=True):
        builder.store(vector, slot)


@intrinsic
def mark_block(
    typing_context: Any,
    planes: Any,  # (n_words, n) uint64
    query: Any,  # (1, n_words) uint64
    first: Any,
    threshold: Any,
    ahead: Any,
) -> Any:
    """Return a uint64 whose bit ``i`` is set if code ``first + i`` is nearer than ``threshold``.

    Codes are not transposed, so this suits a single query. 64 codes must follow ``first``. The
    codes ``ahead`` of them are prefetched, because memory is slower than counting.
    """
    int64 = types.int64
    return types.uint64(planes, query, int64, int64, int64), _emit_mark_block


def _emit_mark_block(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    planes, query, first, threshold, ahead = arguments
    query = _data(context, builder, signature.args[1], query)
    shape = context.make_array(signature.args[0])(context, builder, planes).shape
    n_words = builder.extract_value(shape, 0)
    zero, one = _INT64(0), _INT64(1)

    def differing(word: Any) -> list[Any]:
        """Return the number of differing bits of one word, for 64 codes in vectors."""
        block = builder.gep(_row(context, builder, signature.args[0], planes, word), [first])
        for line in range(0, 64, 8):  # 8 words are a cache line
            emit_prefetch(builder, builder.gep(block, [builder.add(ahead, _INT64(line))]))
        mine = _broadcast(builder, builder.load(builder.gep(query, [word])))
        codes = [
            _load_vector(builder, builder.gep(block, [_INT64(i)]))
            for i in range(0, 64, WORDS_PER_VECTOR)
        ]
        return [_count_bits(builder, builder.xor(vector, mine)) for vector in codes]

    counts = differing(zero)
    distances = [cgutils.alloca_once_value(builder, count) for count in counts]
    with cgutils.for_range_slice(builder, one, n_words, one, _INT64) as (word, _):
        sums = zip(_load(builder, distances), differing(word), strict=True)
        _store(builder, [builder.add(*pair) for pair in sums], distances)

    limit = _broadcast(builder, threshold)
    near = [builder.icmp_signed("<", vector, limit) for vector in _load(builder, distances)]
    some_near = _as_integer(builder, functools.reduce(builder.or_, near))
    marked = cgutils.alloca_once_value(builder, zero)
    with builder.if_then(builder.icmp_unsigned("!=", some_near, zero), likely=False):
        words = [_as_integer(builder, flags) for flags in near]
        shifted = [builder.shl(w, _INT64(i * WORDS_PER_VECTOR)) for i, w in enumerate(words)]
        builder.store(functools.reduce(builder.or_, shifted), marked)
    return builder.load(marked)


def _count_bits(builder: Any, vector: Any) -> Any:
    """Return the number of set bits of each word, with the best code for the processor."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR])
    name = f"llvm.ctpop.v{WORDS_PER_VECTOR}i64"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [vector])


def emit_prefetch(builder: Any, address: Any) -> None:
    """Prefetch the cache line at ``address``; harmless for invalid addresses."""
    byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    read, keep, data = int32(0), int32(3), int32(1)
    builder.call(function, [builder.bitcast(address, byte_pointer), read, keep, data])


def _broadcast(builder: Any, number: Any) -> Any:
    """Return a vector with the same number in each lane."""
    vector = builder.insert_element(_ZEROS, number, ir.IntType(32)(0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WORDS_PER_VECTOR), None)
    return builder.shuffle_vector(vector, _ZEROS, everywhere)


def _as_integer(builder: Any, flags: Any) -> Any:
    """Return a vector of booleans as the bits of an integer."""
    return builder.zext(builder.bitcast(flags, ir.IntType(WORDS_PER_VECTOR)), _INT64)
