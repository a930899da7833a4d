"""The SQLite database of a collection: schema, rows in and out, and the search for damage."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash._files import atomic_write
from corrhash.codes import Codes, check_n_bits
from corrhash.errors import InputError
from corrhash.index.filters import kind_of
from corrhash.index.items import LARGEST_ID, MODALITIES, Entries, Item, by_modality
from corrhash.index.sqlite_connections import Connections, reporting

DATABASE_FILE = "collection.db"
APPLICATION_ID = 0x63687368  # "chsh"
SCHEMA_VERSION = 2

ROWS = 1 << 18
"""Codes or ids that one statement reads, so that its result stays far below SQLite's 1 GB."""

SCHEMA = """
PRAGMA application_id = {application_id};
PRAGMA user_version = {version};

CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    text TEXT NOT NULL,
    path TEXT NOT NULL,
    labels TEXT NOT NULL,  -- JSON array, for reading; the table of labels is for filters
    metadata TEXT NOT NULL,  -- JSON object, for reading; the table of fields is for filters
    stamp TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX items_by_key ON items (key) WHERE key <> '';
CREATE INDEX items_by_content ON items (content) WHERE content <> '';

-- Apart from the items, so that loading all codes reads little else.
CREATE TABLE codes (
    id INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    image BLOB CHECK (length(image) = {width}),
    text BLOB CHECK (length(text) = {width}),
    CHECK (image IS NOT NULL OR text IS NOT NULL)
) STRICT;
CREATE TABLE continuous_codes (
    id INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    image BLOB,
    text BLOB
) STRICT;
CREATE TABLE thumbnails (
    id INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    jpeg BLOB NOT NULL
) STRICT;

CREATE TABLE labels (
    id INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    label TEXT NOT NULL,
    PRIMARY KEY (id, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_by_label ON labels (label);
CREATE TABLE fields (
    id INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,  -- boolean, number or string: values are compared within a kind
    value ANY NOT NULL,
    PRIMARY KEY (id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX fields_by_value ON fields (name, kind, value);

-- Ids first to last were written or deleted. Readers remember the last version they have applied.
CREATE TABLE changes (
    version INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL
) STRICT;
INSERT INTO changes VALUES (0, 0, -1);  -- the log is never empty
"""

LOG_ROWS = 100_000
"""Rows of the change log that are kept; a reader that is further behind loads all codes."""


def create_database(path: Path, about: dict[str, Any]) -> None:
    """Create the database of a new collection, unless another process is faster."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and not path.exists():  # SQLite would replay it into the new database
        raise InputError(
            f"{log} exists, but {path.name} does not. Restore that file, or choose another folder."
        )
    with closing(sqlite3.connect(":memory:")) as connection:
        numbers = {"application_id": APPLICATION_ID, "version": SCHEMA_VERSION}
        width = -(-about["n_bits"] // 8)
        connection.executescript(SCHEMA.format(width=width, **numbers))
        connection.execute("INSERT INTO meta VALUES ('about', ?)", (json.dumps(about),))
        connection.commit()
        content = bytearray(connection.serialize())
    content[18:20] = b"\2\2"  # write-ahead log, in the header's read and write versions
    try:
        with atomic_write(path, replace=False) as file:
            file.write(content)
    except FileExistsError:
        pass


def read_about(path: Path) -> dict[str, Any] | None:
    """Return the description in a database, or None if the file does not exist."""
    with reporting(path):
        if not path.is_file():
            return None
        with closing(Connections(path)) as connections, connections.lend() as connection:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application_id != APPLICATION_ID:
                raise InputError(f"{path} is not a corrhash collection. Choose another folder.")
            if version != SCHEMA_VERSION:
                raise InputError(
                    f"{path} has schema version {version}, but this release reads version "
                    f"{SCHEMA_VERSION}. Use the release that wrote it, or create it again."
                )
            (text,) = connection.execute("SELECT value FROM meta WHERE name = 'about'").fetchone()
        about = dict(json.loads(text))
        about["n_bits"] = check_n_bits(about["n_bits"])
        return about


def insert_entries(connection: sqlite3.Connection, entries: Entries) -> None:
    """Insert entries whose ids are unused."""
    ids, empty = entries.ids.tolist(), Item()
    items = entries.items or [empty] * len(ids)
    codes: dict[str, list[bytes | None]] = {name: [None] * len(ids) for name in MODALITIES}
    for modality, rows, of_modality in by_modality(entries):
        packed, width = of_modality.packed.tobytes(), of_modality.packed.shape[1]
        for at, row in enumerate(rows.tolist()):
            codes[modality][row] = packed[at * width : (at + 1) * width]
    numbered = list(zip(ids, items, strict=True))
    tables: dict[str, Iterable[tuple[Any, ...]]] = {
        "items": (
            (
                *(number, item.key, item.text, item.path),
                *(_as_json(list(item.labels)), _as_json(dict(item.metadata))),
                *(item.stamp, item.content),
            )
            for number, item in numbered
        ),
        "codes": zip(ids, *codes.values(), strict=True),
        "continuous_codes": (
            (number, item.image_continuous, item.text_continuous)
            for number, item in numbered
            if item.image_continuous is not None or item.text_continuous is not None
        ),
        "thumbnails": (
            (number, item.thumbnail) for number, item in numbered if item.thumbnail is not None
        ),
        "labels": ((number, label) for number, item in numbered for label in {*item.labels}),
        "fields": (
            (number, name, kind_of(value), value)
            for number, item in numbered
            for name, value in item.metadata.items()
        ),
    }
    for table, rows_ in tables.items():
        n_columns = _N_COLUMNS[table]
        sql = f"INSERT INTO {table} VALUES ({', '.join('?' * n_columns)})"
        connection.executemany(sql, rows_)


_N_COLUMNS = {
    **{"items": 8, "codes": 3, "continuous_codes": 3},
    **{"thumbnails": 2, "labels": 2, "fields": 4},
}


def _as_json(value: list[str] | dict[str, Any]) -> str:
    return json.dumps(value) if value else ("[]" if isinstance(value, list) else "{}")


_COLUMNS = {
    **{name: f"items.{name}" for name in ("key", "text", "labels", "metadata", "path")},
    **{name: f"items.{name}" for name in ("stamp", "content")},
    "thumbnail": "thumbnails.jpeg",
    "image_continuous": "continuous_codes.image",
    "text_continuous": "continuous_codes.text",
}


@cache
def select_items(fields: tuple[str, ...], columns: str = "items.id") -> str:
    """Return the statement that reads some columns and then fields of items, without WHERE."""
    names = [columns, *(_COLUMNS[field] for field in fields)]
    joins = [
        f"LEFT JOIN {table} ON {table}.id = items.id"
        for table in ("thumbnails", "continuous_codes")
        if any(name.startswith(table) for name in names)
    ]
    return f"SELECT {', '.join(names)} FROM items {' '.join(joins)}"


def read_items(fields: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Item]:
    """Return items from rows that end with the values of their fields."""
    if not rows or not fields:
        return [Item()] * len(rows)
    columns: list[Any] = list(zip(*rows, strict=True))[-len(fields) :]
    for at, name in enumerate(fields):
        if name in ("labels", "metadata"):
            parsed = json.loads(f"[{','.join(columns[at])}]")  # faster than one by one
            columns[at] = list(map(tuple, parsed)) if name == "labels" else parsed
    return [
        Item.stored(dict(zip(fields, values, strict=True))) for values in zip(*columns, strict=True)
    ]


def read_batch(
    connection: sqlite3.Connection, n_bits: int, after: int, size: int, fields: Sequence[str]
) -> Entries | None:
    """Return the next ``size`` entries with ids above ``after``; None if there are none."""
    columns = select_items(tuple(fields), "items.id, codes.image, codes.text")
    rows = connection.execute(
        f"{columns} JOIN codes ON codes.id = items.id WHERE items.id > ? ORDER BY items.id LIMIT ?",
        (after, size),
    ).fetchall()
    if not rows:
        return None
    codes, places = {}, {}
    for column, modality in enumerate(MODALITIES, start=1):
        coded = [row for row, values in enumerate(rows) if values[column] is not None]
        places[modality] = np.array(coded, dtype=np.int64)
        packed = b"".join(rows[row][column] for row in coded)
        codes[modality] = _as_codes(packed, len(coded), n_bits)
    ids = np.array([values[0] for values in rows], dtype=np.int64)
    return Entries(ids, codes, places, read_items(fields, rows))


def newest_version(connection: sqlite3.Connection) -> int:
    """Return the version of the latest write."""
    return int(connection.execute("SELECT max(version) FROM changes").fetchone()[0])


def count_items(connection: sqlite3.Connection) -> int:
    """Return the number of items: the stored one, if it belongs to the latest write."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'items'").fetchone()
    if row is not None:
        version, n_items = json.loads(row[0])
        if version == newest_version(connection):
            return int(n_items)
    return int(connection.execute("SELECT count(*) FROM codes").fetchone()[0])


def store_count(connection: sqlite3.Connection, n_items: int) -> None:
    """Store the number of items after a write: counting a million takes milliseconds."""
    value = json.dumps([newest_version(connection), n_items])
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('items', ?)", (value,))


def find_damage(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield what is wrong with a database: damaged pages, violated constraints, stray rows."""
    for (line,) in connection.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield line
    for table, number, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"{table} has a row {number or ''} that belongs to none of {parent}"
    for (number,) in connection.execute("SELECT id FROM items EXCEPT SELECT id FROM codes"):
        yield f"item {number} has no code"
    items = connection.execute("SELECT id, labels, metadata FROM items ORDER BY id")
    last = -1
    while rows := items.fetchmany(10_000):
        span, last = (last, rows[-1][0]), rows[-1][0]
        expected: dict[str, set[tuple[Any, ...]]] = {
            "labels": {(row[0], label) for row in rows for label in json.loads(row[1])},
            "fields": {
                (row[0], name, kind_of(value), value)
                for row in rows
                for name, value in json.loads(row[2]).items()
            },
        }
        for table, wanted in expected.items():
            sql = f"SELECT * FROM {table} WHERE id > ? AND id <= ?"
            for wrong in wanted.symmetric_difference(connection.execute(sql, span)):
                yield f"the {table} of item {wrong[0]} differ from those in the table of {table}"
    (n_items,) = connection.execute("SELECT count(*) FROM codes").fetchone()
    if n_items != count_items(connection):
        yield f"{count_items(connection)} items are recorded, but {n_items} are stored"


CHANGED = """id IN (
    SELECT codes.id FROM changes JOIN codes ON codes.id BETWEEN first AND last WHERE version > ?
)"""
"""Condition on codes: written after a version and not deleted since."""


def read_codes(
    connection: sqlite3.Connection, n_bits: int, where: str = "TRUE", *parameters: int
) -> dict[str, tuple[NDArray[np.int64], Codes]]:
    """Return ids, ascending, and codes of each modality that meet a condition.

    SQLite concatenates ids and codes into a few long strings, which takes half the time of
    fetching rows.
    """
    spans, start = [], -1
    last = f"SELECT id FROM codes WHERE {where} AND id > ? ORDER BY id LIMIT 1 OFFSET {ROWS - 1}"
    while (row := connection.execute(last, (*parameters, start)).fetchone()) is not None:
        spans.append((start, row[0]))
        start = row[0]
    spans.append((start, LARGEST_ID))
    found = {}
    for modality in MODALITIES:
        sql = (
            f"SELECT group_concat(id), group_concat(hex({modality}), '') FROM codes "
            f"WHERE {where} AND {modality} IS NOT NULL AND id > ? AND id <= ?"
        )
        ids, packed = [], bytearray()
        for span in spans:
            numbers, codes = connection.execute(sql, (*parameters, *span)).fetchone()
            ids.append(parse_ids(numbers))
            packed += bytes.fromhex(codes or "")
        every = np.concatenate(ids)
        found[modality] = every, _as_codes(packed, len(every), n_bits)
    return found


_EMPTY_IDS = np.empty(0, dtype=np.int64)


def parse_ids(text: str | None) -> NDArray[np.int64]:
    """Return the ids that ``group_concat(id)`` joined."""
    return np.fromstring(text, dtype=np.int64, sep=",") if text else _EMPTY_IDS


def _as_codes(packed: bytes | bytearray, n: int, n_bits: int) -> Codes:
    return Codes(np.frombuffer(packed, dtype=np.uint8).reshape(n, -(-n_bits // 8)), n_bits)


def as_runs(ids: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return first and last of each run of consecutive ids; ``ids`` ascend.

    >>> as_runs(np.array([3, 4, 5, 9]))
    [(3, 5), (9, 9)]
    """
    breaks = np.flatnonzero(np.diff(ids) != 1)
    first = ids[np.concatenate([[0], breaks + 1])] if len(ids) else ids
    last = ids[np.concatenate([breaks, [-1]])] if len(ids) else ids
    return list(zip(first.tolist(), last.tolist(), strict=True))
