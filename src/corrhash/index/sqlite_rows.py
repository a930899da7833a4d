"""Rows of an SQLite database: codes and items, read in bulk and verified by their checksums."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.index.items import LARGEST_ID, Entries, Item
from corrhash.index.sqlite_checksums import (
    CODES,
    NO_CHECKSUM,
    Total,
    check_total,
    code_checksums,
    damaged,
    item_checksum,
    read_total,
    row_checksum,
    total_of_array,
)

ROWS = 1 << 18
"""Codes or ids that one statement reads, so that its result stays far below SQLite's 1 GB."""

ITEM_COLUMNS = ("id", "key", "text", "path", "labels", "metadata", "stamp", "content", "parts")
SELECTED = ", ".join(f"items.{name}" for name in (*ITEM_COLUMNS, "checksum"))
_PARTS = {"thumbnails": ("jpeg",), "continuous_codes": ("image", "text")}
_PART_OF = {
    "thumbnail": "thumbnails",
    **dict.fromkeys(("image_continuous", "text_continuous"), "continuous_codes"),
}


@cache
def select_items(fields: tuple[str, ...], source: str = "items") -> str:
    """Return the statement that reads items with these fields from a join, without WHERE."""
    tables = [table for table in _PARTS if table in {_PART_OF.get(field) for field in fields}]
    names = [f"{table}.{name}" for table in tables for name in (*_PARTS[table], "checksum")]
    joins = [f"LEFT JOIN {table} ON {table}.id = items.id" for table in tables]
    return f"SELECT {', '.join([SELECTED, *names])} FROM {source} {' '.join(joins)}"


def fetch(connection: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[Any]:
    """Return all rows, also of strings that damage has made invalid."""
    try:
        return connection.execute(sql, parameters).fetchall()
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.text_factory = str


def read_items(
    fields: Sequence[str], rows: Iterable[Sequence[Any]], damage: dict[int, str]
) -> dict[int, Item]:
    """Return items by id from rows of :func:`select_items`, after verifying their checksums.

    Damaged items are excluded and noted in ``damage`` with what is damaged. An item whose
    thumbnail is damaged is returned without it.
    """
    items: dict[int, Item] = {}
    tables = [table for table in _PARTS if table in {_PART_OF.get(field) for field in fields}]
    for row in rows:
        own, number = row[: len(ITEM_COLUMNS)], row[0]
        if item_checksum(own) != row[len(ITEM_COLUMNS)]:
            damage[number] = "its row is damaged"
            continue
        values = dict(zip(ITEM_COLUMNS, own, strict=True))
        at = len(ITEM_COLUMNS) + 1
        for table in tables:
            part, stored = row[at : at + len(_PARTS[table])], row[at + len(_PARTS[table])]
            at += len(part) + 1
            exists = bool(values["parts"] & PART_BITS[table])
            if exists and stored != row_checksum(table, number, *part):
                damage[number] = f"its {table} are damaged"
                part = [None] * len(part)
            names = ("thumbnail",) if table == "thumbnails" else _CONTINUOUS
            values |= zip(names, part if exists else [None] * len(part), strict=True)
        if number in damage and "continuous" in damage[number]:
            continue
        if "labels" in fields:
            listed = values["labels"]
            values["labels"] = tuple(json.loads(listed)) if listed != "[]" else ()
        if "metadata" in fields:
            listed = values["metadata"]
            values["metadata"] = json.loads(listed) if listed != "{}" else {}
        items[number] = Item.stored({name: values[name] for name in fields})
    return items


_CONTINUOUS = ("image_continuous", "text_continuous")
PART_BITS = {"thumbnails": 1, "continuous_codes": 2}
"""Bits of ``items.parts``: which other tables have a row of the item."""


def read_batch(
    connection: sqlite3.Connection,
    n_bits: int,
    after: int,
    size: int,
    fields: Sequence[str],
    damage: dict[int, str],
) -> tuple[int, Entries] | None:
    """Return the last id and the entries of the next ``size`` ids above ``after``.

    Returns None if there are none. Damaged entries are excluded and noted in ``damage``.
    """
    (last,) = connection.execute(
        "SELECT max(id) FROM (SELECT id FROM codes WHERE id > ? ORDER BY id LIMIT ?)", (after, size)
    ).fetchone()
    if last is None:
        return None
    damaged_codes: list[int] = []
    codes = read_codes(connection, n_bits, damaged_codes, "id > ? AND id <= ?", after, last)
    damage |= dict.fromkeys(damaged_codes, "its code is damaged")
    coded = np.union1d(codes["image"][0], codes["text"][0])
    sql = f"{select_items(tuple(fields))} WHERE items.id > ? AND items.id <= ?"
    rows = fetch(connection, sql, (after, last))
    items = read_items(fields, rows, damage)
    lost = set(coded.tolist()) - items.keys() - damage.keys()
    damage |= dict.fromkeys(lost, "its row is missing")
    ids = coded[np.isin(coded, list(items))]
    places = {name: np.searchsorted(ids, of[0][np.isin(of[0], ids)]) for name, of in codes.items()}
    kept = {name: of[1][np.isin(of[0], ids)] for name, of in codes.items()}
    return last, Entries(ids, kept, places, [items[number] for number in ids.tolist()])


CHANGED = """id IN (
    SELECT codes.id FROM changes JOIN codes ON codes.id BETWEEN first AND last WHERE version > ?
)"""
"""Condition on codes: written after a version and not deleted since."""


def read_codes(
    connection: sqlite3.Connection,
    n_bits: int,
    damaged_ids: list[int],
    where: str = "TRUE",
    *parameters: int,
) -> dict[str, tuple[NDArray[np.int64], Codes]]:
    """Return ids, ascending, and codes of each modality that meet a condition.

    Ids of damaged rows are appended to ``damaged_ids``. If all codes are read, missing rows raise a
    StorageError. SQLite concatenates ids and codes into a few long strings, which takes half the
    time of fetching rows.
    """
    spans, start = [], -1
    last = f"SELECT id FROM codes WHERE {where} AND id > ? ORDER BY id LIMIT 1 OFFSET {ROWS - 1}"
    while (row := connection.execute(last, (*parameters, start)).fetchone()) is not None:
        spans.append((start, row[0]))
        start = row[0]
    spans.append((start, LARGEST_ID))
    condition = f"FROM codes WHERE {where} AND id > ? AND id <= ?"
    parts: dict[str, list[tuple[NDArray[np.int64], NDArray[np.uint8]]]] = {"image": [], "text": []}
    total, intact = Total(0, 0), True
    for span in spans:
        ids, kinds, image, text, stored = _read_span(
            connection, n_bits, condition, (*parameters, *span)
        )
        if np.any(np.diff(ids, prepend=span[0]) <= 0):
            raise damaged("the codes are not in ascending order of id")
        whole = code_checksums(ids, kinds, [image, text]) == stored
        intact &= bool(whole.all())
        damaged_ids += ids[~whole].tolist()
        total += total_of_array(stored)
        for bit, modality, packed in ((1, "image", image), (2, "text", text)):
            has = whole & (kinds & bit != 0)
            parts[modality].append((ids[has], packed[has]))
    if where == "TRUE":
        expected = read_total(connection, CODES)
        if total.n != expected.n or (intact and total != expected):
            check_total(connection, CODES, total)
    found = {}
    for modality, read in parts.items():
        ids, packed = map(np.concatenate, zip(*read, strict=True))
        found[modality] = ids, Codes(packed, n_bits)
    return found


_Span = tuple[
    NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]
]
"""Ids, kinds, packed image codes, packed text codes and checksums."""


def _read_span(
    connection: sqlite3.Connection, n_bits: int, condition: str, parameters: tuple[int, ...]
) -> _Span:
    kind, width = "(image IS NOT NULL) + 2 * (text IS NOT NULL)", -(-n_bits // 8)
    joined = connection.execute(
        f"SELECT group_concat(id), group_concat({kind}, ''), group_concat(hex(image), ''), "
        f"group_concat(hex(text), ''), group_concat(checksum) {condition}",
        parameters,
    ).fetchone()
    ids, stored = parse_ids(joined[0]), parse_ids(joined[4])
    kinds = np.frombuffer((joined[1] or "").encode(), np.uint8) - np.uint8(ord("0"))
    packed = []
    for bit, text in ((1, joined[2]), (2, joined[3])):
        has, content = kinds & bit != 0, bytes.fromhex(text or "")
        if len(content) != width * np.count_nonzero(has) or len(stored) != len(ids):
            return _read_rows(connection, width, condition, parameters)
        codes = np.zeros((len(ids), width), np.uint8)
        codes[has] = np.frombuffer(content, np.uint8).reshape(-1, width)
        packed.append(codes)
    return ids, kinds, packed[0], packed[1], stored


def _read_rows(
    connection: sqlite3.Connection, width: int, condition: str, parameters: tuple[int, ...]
) -> _Span:
    """Read a span in which damage has changed the types or lengths of values, row by row."""
    sql = f"SELECT id, image, text, checksum {condition}"
    rows = connection.execute(sql, parameters).fetchall()
    codes = np.zeros((2, len(rows), width), np.uint8)
    kinds, stored = np.zeros(len(rows), np.uint8), np.full(len(rows), NO_CHECKSUM, np.int64)
    for at, (_, *values, checksum) in enumerate(rows):
        stored[at] = checksum if isinstance(checksum, int) else NO_CHECKSUM
        for bit, value in enumerate(values):
            if isinstance(value, bytes) and len(value) == width:
                kinds[at] |= 1 << bit
                codes[bit, at] = np.frombuffer(value, np.uint8)
            elif value is not None:
                stored[at] = NO_CHECKSUM
    return np.array([row[0] for row in rows], np.int64), kinds, codes[0], codes[1], stored


def ids_by_content(connection: sqlite3.Connection, contents: Sequence[str]) -> dict[str, list[int]]:
    """Return the ids of the items that have one of these checksums, ascending, by checksum."""
    sql = (
        "SELECT content, id FROM items WHERE content <> '' "
        "AND content IN (SELECT value FROM json_each(?)) ORDER BY id"
    )
    found: dict[str, list[int]] = {}
    for content, number in connection.execute(sql, (json.dumps(contents),)):
        found.setdefault(content, []).append(number)
    return found


_EMPTY_IDS = np.empty(0, dtype=np.int64)


def parse_ids(text: str | None) -> NDArray[np.int64]:
    """Return the ids that ``group_concat(id)`` joined."""
    return np.fromstring(text, dtype=np.int64, sep=",") if text else _EMPTY_IDS
