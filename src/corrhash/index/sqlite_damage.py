"""Damage of an SQLite database: find all of it, and read what is whole."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.codes import Codes
from corrhash.errors import InputError, StorageError
from corrhash.index.filters import kind_of
from corrhash.index.items import FIELDS, LARGEST_ID, MODALITIES, Entries, Item
from corrhash.index.sqlite_checksums import (
    CODES,
    ITEMS,
    KEYS,
    MODULUS,
    RECORDS,
    SOURCES,
    Total,
    check_total,
    code_checksums,
    item_checksum,
    read_total,
    row_checksum,
    total_of,
    total_of_keys,
    total_problem,
    value_checksum,
)
from corrhash.index.sqlite_rows import (
    SELECTED,
    fetch,
    parse_ids,
    read_codes,
    read_items,
    select_items,
)

log = logging.getLogger("corrhash")

BATCH = 10_000
"""Items that are compared at a time."""

REPORTED = 5
"""Damaged items that a process logs; verification lists all of them."""

VERIFIED_ROWS = 1_000_000
"""Rows of the largest source that a search verifies, which takes a third of a second. Larger ones
are left to the verification of the whole collection."""


class DamageReport:
    """The damaged items that a process has excluded, each reported once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[int, str] = {}

    def note(self, damage: dict[int, str]) -> None:
        """Log excluded items and the reasons."""
        for number in damage.keys() - self.found.keys():
            self.found[number] = damage[number]
            if len(self.found) <= REPORTED:
                log.warning(
                    "Item %d in %s is excluded from results: %s. Run corrhash info --verify to "
                    "list all damage, and corrhash repair to copy the undamaged items.",
                    *(number, self.path, damage[number]),
                )
            elif len(self.found) == REPORTED + 1:
                log.warning("More items in %s are damaged and excluded from results.", self.path)


def verify_source(connection: sqlite3.Connection, source: str, verified: set[str]) -> None:
    """Raise a StorageError unless the rows that a search reads for a source are complete.

    Each source is read once per process: its name is added to ``verified``.
    """
    if source not in verified:
        if read_total(connection, source).n <= VERIFIED_ROWS:
            check_total(connection, source, _found_total(connection, source))
        verified.add(source)


def _found_total(connection: sqlite3.Connection, source: str) -> Total:
    """Return the total of the rows of a source, read as a search reads them."""
    kind, _, name = source.partition(":")
    if source == KEYS:
        sql = (
            "SELECT group_concat(id), group_concat(key, char(0)) "
            "FROM items INDEXED BY items_by_key WHERE key <> ''"
        )
        ((ids, keys),) = fetch(connection, sql, ())
        return total_of_keys(parse_ids(ids), keys.encode(errors="replace")) if ids else Total(0, 0)
    if source == ITEMS:
        rows = connection.execute(f"SELECT {SELECTED} FROM items")
        return total_of(item_checksum(row[:-1]) for row in rows)
    if source in (CODES, RECORDS):
        return total_of(value for (value,) in connection.execute(f"SELECT checksum FROM {source}"))
    if kind == "label":
        sql = "SELECT id FROM labels INDEXED BY labels_by_label WHERE label = ?"
        return total_of(number for (number,) in connection.execute(sql, (name,)))
    sql = (
        "SELECT value, count(*), sum(id >> 32), sum(id & 0xffffffff) "
        "FROM fields INDEXED BY fields_by_value WHERE name = ? AND kind = ? GROUP BY value"
    )
    n = checksum = 0
    for value, count, high, low in connection.execute(sql, name.split(":")):
        n += count
        checksum += ((high << 32) + low + count) * value_checksum(value)
    return Total(n, checksum % MODULUS)


def check_all(connection: sqlite3.Connection, path: Path, n_bits: int) -> None:
    """Raise a StorageError that lists what is wrong with a database, if anything is."""
    problems = list(islice(find_damage(connection, n_bits), SHOWN_PROBLEMS + 1))
    if problems:
        shown = "; ".join(problems[:SHOWN_PROBLEMS])
        more = " and more" if len(problems) > SHOWN_PROBLEMS else ""
        raise StorageError(
            f"{path} is damaged: {shown}{more}. Restore it from a backup, or copy the undamaged "
            "items with corrhash repair."
        )


SHOWN_PROBLEMS = 20
"""Most kinds of damage that an error lists."""


def find_damage(connection: sqlite3.Connection, n_bits: int) -> Iterator[str]:
    """Yield what is wrong with a database: damaged pages and rows, and rows that disagree."""
    checks: tuple[Iterator[str], ...] = (
        _damaged_structure(connection),
        _damaged_rows(connection),
        _damaged_codes(connection, n_bits),
        _disagreements(connection),
        _wrong_totals(connection),
    )
    for check in checks:
        try:
            yield from check
        except (sqlite3.Error, StorageError, ValueError, TypeError) as error:
            yield str(error)


def _damaged_structure(connection: sqlite3.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield line
    for table, number, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"{table} has a row {number or ''} that belongs to none of {parent}"
    for (number,) in connection.execute("SELECT id FROM items EXCEPT SELECT id FROM codes"):
        yield f"item {number} has no code"


def _damaged_codes(connection: sqlite3.Connection, n_bits: int) -> Iterator[str]:
    damaged_ids: list[int] = []
    read_codes(connection, n_bits, damaged_ids, "id IS NOT NULL")
    yield from (f"the code of item {number} is damaged" for number in damaged_ids)


def _wrong_totals(connection: sqlite3.Connection) -> Iterator[str]:
    sources = [source for (source,) in connection.execute("SELECT source FROM totals")]
    for source in [*SOURCES, *sorted({*sources} - {*SOURCES})]:
        expected, found = read_total(connection, source), _found_total(connection, source)
        if found != expected:
            yield total_problem(source, expected, found)


def _damaged_rows(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the rows of small tables and of parts of items whose checksums differ."""
    tables = ("meta", "changes", "totals", "records", "thumbnails", "continuous_codes")
    for table in (*tables, "staged_codes"):
        for *values, checksum in connection.execute(f"SELECT * FROM {table}"):
            if checksum != row_checksum(table, *values):
                yield f"the row {values[0]} of {table} is damaged"
    for table, bit in (("thumbnails", 1), ("continuous_codes", 2)):
        sql = f"SELECT id FROM items WHERE (parts & {bit} <> 0) <> (id IN (SELECT id FROM {table}))"
        for (number,) in connection.execute(sql):
            yield f"item {number} has lost its row of {table}"


def _disagreements(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield items whose rows are damaged, or differ from the tables of labels and fields."""
    last = -1
    while True:
        sql = f"{select_items(FIELDS[:5])} WHERE items.id > ? ORDER BY items.id LIMIT {BATCH}"
        rows = fetch(connection, sql, (last,))
        if not rows:
            return
        span, last, damage = (last, rows[-1][0]), rows[-1][0], dict[int, str]()
        items = read_items(FIELDS[:5], rows, damage)
        for number, problem in damage.items():
            yield f"item {number} is damaged: {problem}"
        expected: dict[str, set[tuple[Any, ...]]] = {
            "labels": {(number, label) for number, item in items.items() for label in item.labels},
            "fields": {
                (number, name, kind_of(value), value)
                for number, item in items.items()
                for name, value in item.metadata.items()
            },
        }
        for table, wanted in expected.items():
            sql = f"SELECT * FROM {table} WHERE id > ? AND id <= ?"
            for wrong in wanted.symmetric_difference(connection.execute(sql, span)):
                if wrong[0] not in damage:
                    yield f"the {table} of item {wrong[0]} differ from those in its row"


def salvage(path: Path, n_bits: int) -> Iterator[Entries | str]:
    """Yield the items of a damaged database that are whole, and what is wrong with the others.

    Every id that any part of the file still names is looked up on its own, so that a damaged page
    costs no more than the rows on it.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        for number in _named_ids(connection):
            problem, entries = _salvage_one(connection, number, n_bits)
            if entries is not None:
                yield entries
            if problem:
                yield f"Item {number}: {problem}."


def _named_ids(connection: sqlite3.Connection) -> list[int]:
    """Return all ids that tables and indexes name, scanned from both ends up to the damage."""
    found: set[int] = set()
    for table in ("items", "codes", "labels", "fields", "thumbnails"):
        for order in ("ASC", "DESC"):
            with suppress(sqlite3.Error):
                for (number,) in connection.execute(f"SELECT id FROM {table} ORDER BY id {order}"):
                    found.add(number)
    with suppress(sqlite3.Error):
        sql = "SELECT id FROM items INDEXED BY items_by_key WHERE key <> '' ORDER BY key"
        for (number,) in connection.execute(sql):
            found.add(number)
    valid = {n for n in found if isinstance(n, int) and 0 <= n <= LARGEST_ID}
    if valid and max(valid) - min(valid) < GAPS + 2 * len(valid):  # ids are mostly consecutive
        valid |= {*range(min(valid), max(valid) + 1)}
    return sorted(valid)


GAPS = 1_000_000
"""Ids between known ones that are looked up too."""


def _salvage_one(
    connection: sqlite3.Connection, number: int, n_bits: int
) -> tuple[str, Entries | None]:
    """Return what is wrong with an item, and its entries if its row and codes are whole."""
    width, damage = -(-n_bits // 8), dict[int, str]()
    try:
        sql = "SELECT image, text, checksum FROM codes WHERE id = ?"
        codes = connection.execute(sql, (number,)).fetchone()
        rows = fetch(connection, f"{select_items(FIELDS)} WHERE items.id = ?", (number,))
    except (sqlite3.Error, OverflowError) as error:
        return f"it is on a damaged page ({error})", None
    if not rows and codes is None:
        return "", None  # it does not exist
    try:
        item = read_items(FIELDS, rows, damage).get(number)
    except (ValueError, TypeError, AttributeError) as error:
        return f"its row is damaged ({error})", None
    if item is None or codes is None:
        return damage.get(number, "its row is missing" if not rows else "it has no code"), None
    packed = np.zeros((2, 1, width), np.uint8)
    kind = 0
    for bit, code in enumerate(codes[:2]):
        if isinstance(code, bytes) and len(code) == width:
            kind |= 1 << bit
            packed[bit, 0] = np.frombuffer(code, np.uint8)
    ids = np.array([number], np.int64)
    if code_checksums(ids, np.array([kind], np.uint8), [*packed]).tolist() != [codes[2]]:
        return "its code is damaged", None
    return damage.get(number, ""), _entries(ids, item, kind, packed, n_bits)


def _entries(ids: Any, item: Item, kind: int, packed: Any, n_bits: int) -> Entries | None:
    found = {
        name: Codes(packed[bit], n_bits) for bit, name in enumerate(MODALITIES) if kind >> bit & 1
    }
    try:
        whole = Item(**{name: getattr(item, name) for name in FIELDS})  # checks every value
    except InputError:
        return None
    return Entries(ids, found, {name: np.zeros(1, np.int64) for name in found}, [whole])
