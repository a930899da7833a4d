"""Checksums of an SQLite database: of every row, and totals over the rows that belong together.

SQLite notices damage to the structure of its file, not to the content. A checksum per row notices
changed content. A *total* is the number of rows of a source and the sum of their checksums. It
notices rows that are missing, and index entries that a search or filter would not find. Sources
are ``items``, ``codes``, ``keys``, ``records``, ``label:NAME`` and ``field:NAME:KIND``.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrhash.errors import StorageError
from corrhash.index.filters import kind_of

if TYPE_CHECKING:
    import sqlite3

MODULUS = 1 << 62
"""Sums are reduced to integers that SQLite can store."""

NO_CHECKSUM = -1
"""The checksum of values that cannot have been stored; no stored row has it."""

ITEMS, CODES, KEYS, RECORDS = SOURCES = ("items", "codes", "keys", "records")


def row_checksum(table: str, *values: Any) -> int:
    """Return the CRC-32 of the values of a row, its id included."""
    checksum = zlib.crc32(table.encode())
    for value in values:
        content = value if isinstance(value, bytes) else str(value).encode(errors="replace")
        head = f"{type(value).__name__} {len(content)} ".encode()
        checksum = zlib.crc32(content, zlib.crc32(head, checksum))
    return checksum


def item_checksum(row: Sequence[Any]) -> int:
    """Return the CRC-32 of a row of items: an id, strings without NUL, and a number."""
    try:
        return zlib.crc32("\0".join((str(row[0]), *row[1:-1], str(row[-1]))).encode())
    except (TypeError, UnicodeEncodeError):  # damage has changed the type or the characters
        return NO_CHECKSUM


_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio, as in SplitMix64


def code_checksums(
    ids: NDArray[np.int64], kinds: NDArray[np.uint8], packed: Sequence[NDArray[np.uint8]]
) -> NDArray[np.int64]:
    """Return the 32-bit checksums of rows of codes.

    Parameters
    ----------
    ids : (n,) ids.
    kinds : (n,) 1 for an image code, 2 for a text code, 3 for both.
    packed : (n, width) image codes and text codes, 0 where there is none.
    """
    state = ids.astype(np.uint64) * _FACTOR + kinds.astype(np.uint64)
    for codes in packed:
        padded = np.zeros((len(ids), -(-codes.shape[1] // 8) * 8), np.uint8)
        padded[:, : codes.shape[1]] = codes
        for word in padded.view("<u8").T:
            state = (state ^ (state >> np.uint64(29)) ^ word) * _FACTOR
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(32)).astype(np.int64)


class Total(NamedTuple):
    """The number of rows of a source, and the sum of their checksums."""

    n: int
    sum: int

    def __add__(self, other: Total) -> Total:  # type: ignore[override]
        return Total(self.n + other.n, (self.sum + other.sum) % MODULUS)

    def __sub__(self, other: Total) -> Total:
        return Total(self.n - other.n, (self.sum - other.sum) % MODULUS)


def total_of(checksums: Iterable[int]) -> Total:
    """Return the total of rows with these checksums."""
    listed = list(checksums)
    return Total(len(listed), sum(listed) % MODULUS)


def total_of_array(checksums: NDArray[np.int64]) -> Total:
    """Return the total of fewer than 2**31 rows with these 32-bit checksums."""
    return Total(len(checksums), int(checksums.sum()) % MODULUS)


def field_checksum(number: int, value: Any) -> int:
    """Return the checksum of the value of a metadata field."""
    return (number + 1) * value_checksum(value)


def value_checksum(value: Any) -> int:
    """Return the checksum of a value that may belong to many items.

    Those of the items of a value are multiples of it, so that SQLite can sum the ids of each value
    instead of returning every row.
    """
    stored = float(value) if isinstance(value, (bool, int)) else value  # comparisons ignore types
    return zlib.crc32(repr(stored).encode(errors="replace")) + 1


def key_checksum(number: int, key: str) -> int:
    """Return the checksum of an entry of the index of keys."""
    return (number + 1) * (zlib.crc32(key.encode(errors="replace")) + 1)


def total_of_keys(ids: NDArray[np.int64], keys: bytes) -> Total:
    """Return the total of entries of the index of keys, joined by NUL in the order of ``ids``."""
    checksums = np.fromiter(map(zlib.crc32, keys.split(b"\0")), np.uint64)
    if len(checksums) != len(ids):
        return Total(len(checksums), NO_CHECKSUM)
    one = np.uint64(1)
    products = (ids.astype(np.uint64) + one) * (checksums + one)  # modulo a multiple of MODULUS
    return Total(len(ids), int(products.sum()) % MODULUS)


class Changes:
    """Changes of totals by rows that are inserted or deleted."""

    def __init__(self) -> None:
        self._by_source: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, source: str, checksum: int, sign: int = 1, n: int = 1) -> None:
        """Count rows of a source; ``sign`` is -1 for deleted ones."""
        entry = self._by_source[source]
        entry[0] += sign * n
        entry[1] += sign * checksum

    def add_item(
        self,
        number: int,
        key: str,
        labels: Iterable[str],
        metadata: dict[str, Any],
        checksum: int,
        sign: int = 1,
    ) -> None:
        """Count an item, its key, labels and fields."""
        self.add(ITEMS, checksum, sign)
        if key:
            self.add(KEYS, key_checksum(number, key), sign)
        for label in labels:
            self.add(f"label:{label}", number, sign)
        for name, value in metadata.items():
            self.add(f"field:{name}:{kind_of(value)}", field_checksum(number, value), sign)

    def write(self, connection: sqlite3.Connection) -> None:
        """Apply the changes to the table of totals."""
        for source, (n, checksum) in self._by_source.items():
            before = read_total(connection, source)
            after = Total(before.n + n, (before.sum + checksum) % MODULUS)
            if after.n == 0 and source not in SOURCES:
                connection.execute("DELETE FROM totals WHERE source = ?", (source,))
            elif after != before:
                row = (source, *after, row_checksum("totals", source, *after))
                connection.execute("INSERT OR REPLACE INTO totals VALUES (?, ?, ?, ?)", row)


def read_total(connection: sqlite3.Connection, source: str) -> Total:
    """Return the stored total of a source, verified; that of an unknown source is 0 rows."""
    row = connection.execute("SELECT * FROM totals WHERE source = ?", (source,)).fetchone()
    if row is None and source not in SOURCES:
        return Total(0, 0)
    if row is None or row[3] != row_checksum("totals", *row[:3]):
        raise damaged(f"the total of {source} is damaged")
    return Total(row[1], row[2])


def check_total(connection: sqlite3.Connection, source: str, found: Total) -> None:
    """Raise a StorageError unless these are all rows of a source."""
    expected = read_total(connection, source)
    if found != expected:
        raise damaged(total_problem(source, expected, found))


def total_problem(source: str, expected: Total, found: Total) -> str:
    """Describe a total that differs from the stored one."""
    if found.n == expected.n:
        return f"some of the {found.n:,} rows of {source!r} have changed"
    return f"{source!r} has {found.n:,} rows instead of {expected.n:,}"


def damaged(problem: str) -> StorageError:
    """Return the error about a damaged database."""
    return StorageError(
        f"The collection is damaged: {problem}. Restore collection.db from a backup, or copy the "
        "undamaged items with corrhash repair."
    )
