"""The SQLite database of a collection: schema, rows in and out, each with a checksum."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash._files import atomic_write
from corrhash.codes import check_n_bits
from corrhash.errors import InputError
from corrhash.index.filters import kind_of
from corrhash.index.items import MODALITIES, Entries, Item, by_modality
from corrhash.index.sqlite_checksums import (
    CODES,
    SOURCES,
    Changes,
    code_checksums,
    damaged,
    item_checksum,
    row_checksum,
)
from corrhash.index.sqlite_connections import Connections, reporting
from corrhash.index.sqlite_generation import GENERATION_FILE, newest
from corrhash.index.sqlite_rows import SELECTED, fetch, read_items

DATABASE_FILE = "collection.db"
DATABASE_FILES = (DATABASE_FILE, f"{DATABASE_FILE}-wal", f"{DATABASE_FILE}-shm", GENERATION_FILE)
APPLICATION_ID = 0x63687368  # "chsh"
SCHEMA_VERSION = 4

SCHEMA = """
PRAGMA application_id = {application_id};
PRAGMA user_version = {version};

CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL) STRICT;

CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    text TEXT NOT NULL,
    path TEXT NOT NULL,
    labels TEXT NOT NULL,  -- JSON array, for reading; the table of labels is for filters
    metadata TEXT NOT NULL,  -- JSON object, for reading; the table of fields is for filters
    stamp TEXT NOT NULL,
    content TEXT NOT NULL,
    parts INTEGER NOT NULL,  -- 1: has a thumbnail; 2: has continuous codes
    checksum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX items_by_key ON items (key) WHERE key <> '';
CREATE INDEX items_by_content ON items (content) WHERE content <> '';

-- Apart from the items, so that loading all codes reads little else.
CREATE TABLE codes (
    id INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    image BLOB CHECK (length(image) = {width}),
    text BLOB CHECK (length(text) = {width}),
    checksum INTEGER NOT NULL,
    CHECK (image IS NOT NULL OR text IS NOT NULL)
) STRICT;
CREATE TABLE continuous_codes (
    id INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    image BLOB,
    text BLOB,
    checksum INTEGER NOT NULL
) STRICT;
-- Codes of another model: the next one while items are encoded again, else the previous one.
CREATE TABLE staged_codes (
    id INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    image BLOB,
    text BLOB,
    image_continuous BLOB,
    text_continuous BLOB,
    checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE thumbnails (
    id INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    jpeg BLOB NOT NULL,
    checksum INTEGER NOT NULL
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
    last INTEGER NOT NULL,
    token INTEGER NOT NULL,  -- random, the same for all rows of a write
    checksum INTEGER NOT NULL
) STRICT;

-- JSON documents that are only ever appended, such as relevance judgments.
CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- Number of rows and sum of checksums of each source, to notice rows that are missing.
CREATE TABLE totals (
    source TEXT PRIMARY KEY,
    n INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
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
        connection.executescript(_schema(about["n_bits"]))
        write_about(connection, about)
        log_changes(connection, [(0, -1)], version=0)  # the log is never empty
        for source in SOURCES:
            row = (source, 0, 0, row_checksum("totals", source, 0, 0))
            connection.execute("INSERT INTO totals VALUES (?, ?, ?, ?)", row)
        connection.commit()
        content = bytearray(connection.serialize())
    content[18:20] = b"\2\2"  # write-ahead log, in the header's read and write versions
    try:
        with atomic_write(path, replace=False) as file:
            file.write(content)
        path.with_name(GENERATION_FILE).unlink(missing_ok=True)  # of an earlier database
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
            about = about_in(connection)
            if _schema_of(connection) != _expected_schema(about["n_bits"]):
                raise damaged("its schema is damaged")
        return about


def about_in(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return the description in an open database."""
    row = connection.execute("SELECT * FROM meta WHERE name = 'about'").fetchone()
    if row is None or row[2] != row_checksum("meta", *row[:2]):
        raise damaged("its description is damaged")
    about = dict(json.loads(row[1]))
    about["n_bits"] = check_n_bits(about["n_bits"])
    return about


def _schema_of(connection: sqlite3.Connection) -> list[Any]:
    # ANALYZE, which any user of the file can run, adds tables of statistics.
    sql = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"
    return sorted(connection.execute(sql).fetchall(), key=repr)


@cache
def _expected_schema(n_bits: int) -> list[Any]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_schema(n_bits))
        return _schema_of(connection)


def _schema(n_bits: int) -> str:
    numbers = {"application_id": APPLICATION_ID, "version": SCHEMA_VERSION}
    return SCHEMA.format(width=-(-n_bits // 8), **numbers)


def write_about(connection: sqlite3.Connection, about: dict[str, Any]) -> None:
    """Store the description of a collection."""
    row = ("about", json.dumps(about))
    sql = "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)"
    connection.execute(sql, (*row, row_checksum("meta", *row)))


def log_changes(
    connection: sqlite3.Connection, runs: Iterable[tuple[int, int]], version: int
) -> None:
    """Add runs of changed ids to the change log, from a version on."""
    token = secrets.randbits(62)
    rows = ((at, *run, token) for at, run in enumerate(runs, start=version))
    connection.executemany(
        "INSERT INTO changes VALUES (?, ?, ?, ?, ?)",
        ((*row, row_checksum("changes", *row)) for row in rows),
    )


def insert_entries(connection: sqlite3.Connection, entries: Entries) -> None:
    """Insert entries whose ids are unused, and count them."""
    ids, empty = entries.ids.tolist(), Item()
    items = entries.items or [empty] * len(ids)
    codes: dict[str, list[bytes | None]] = {name: [None] * len(ids) for name in MODALITIES}
    for modality, rows, of_modality in by_modality(entries):
        packed, width = of_modality.packed.tobytes(), of_modality.packed.shape[1]
        for at, row in enumerate(rows.tolist()):
            codes[modality][row] = packed[at * width : (at + 1) * width]
    numbered = list(zip(ids, items, strict=True))
    of_codes = _checksums_of(entries).tolist()
    of_items, changes = list[tuple[Any, ...]](), Changes()
    for number, item in numbered:
        row = _item_row(number, item)
        of_items.append((*row, item_checksum(row)))
        changes.add_item(number, item.key, {*item.labels}, dict(item.metadata), of_items[-1][-1])
    changes.add(CODES, sum(of_codes), n=len(ids))
    changes.write(connection)
    parts = {
        "continuous_codes": (
            (number, item.image_continuous, item.text_continuous)
            for number, item in numbered
            if item.image_continuous is not None or item.text_continuous is not None
        ),
        "thumbnails": (
            (number, item.thumbnail) for number, item in numbered if item.thumbnail is not None
        ),
    }
    tables: dict[str, Iterable[tuple[Any, ...]]] = {
        "items": of_items,
        "codes": zip(ids, *codes.values(), of_codes, strict=True),
        **{table: _with_checksums(table, rows) for table, rows in parts.items()},
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
    **{"items": 10, "codes": 4, "continuous_codes": 4},
    **{"thumbnails": 3, "labels": 2, "fields": 4},
}


def _with_checksums(table: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    return ((*row, row_checksum(table, *row)) for row in rows)


def _item_row(number: int, item: Item) -> tuple[Any, ...]:
    """Return the values of a row of items, without the checksum."""
    continuous = item.image_continuous is not None or item.text_continuous is not None
    return (
        *(number, item.key, item.text, item.path),
        *(_as_json(list(item.labels)), _as_json(dict(item.metadata))),
        *(item.stamp, item.content),
        (item.thumbnail is not None) + 2 * continuous,
    )


def _as_json(value: list[str] | dict[str, Any]) -> str:
    return json.dumps(value) if value else ("[]" if isinstance(value, list) else "{}")


def _checksums_of(entries: Entries) -> NDArray[np.int64]:
    """Return the checksums of the codes of entries."""
    kinds, packed = np.zeros(len(entries), np.uint8), []
    width = next((codes.packed.shape[1] for codes in entries.codes.values()), 0)
    for bit, modality in enumerate(MODALITIES):
        of_modality = np.zeros((len(entries), width), np.uint8)
        if modality in entries.codes:
            rows = entries.rows[modality]
            of_modality[rows] = entries.codes[modality].packed
            kinds[rows] |= np.uint8(1 << bit)
        packed.append(of_modality)
    return code_checksums(entries.ids, kinds, packed)


def delete_items(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Delete items, and subtract them from the totals; refuse to delete damaged ones."""
    changes = Changes()
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        sql = (
            f"SELECT {SELECTED}, codes.checksum FROM items JOIN codes ON codes.id = items.id "
            "WHERE items.id IN (SELECT value FROM json_each(?))"
        )
        rows, damage = fetch(connection, sql, (json.dumps(some),)), dict[int, str]()
        items = read_items(("key", "labels", "metadata"), [row[:-1] for row in rows], damage)
        for number in set(some) - items.keys():
            problem = damage.get(number, "its row or its code is missing")
            raise damaged(f"item {number} cannot be replaced or deleted, since {problem}")
        for row in rows:
            item = items[row[0]]
            labels, metadata = {*item.labels}, dict(item.metadata)
            changes.add_item(row[0], item.key, labels, metadata, row[-2], sign=-1)
            changes.add(CODES, row[-1], sign=-1)
    changes.write(connection)
    connection.executemany("DELETE FROM items WHERE id = ?", ((number,) for number in ids))


def log_ids(connection: sqlite3.Connection, ids: NDArray[np.int64] | None) -> None:
    """Add ascending ids to the change log, and remove its oldest rows; None if no item changed."""
    runs = [(0, -1)] if ids is None else as_runs(ids)
    log_changes(connection, runs, newest(connection).version + 1)
    connection.execute(
        "DELETE FROM changes WHERE version <= (SELECT max(version) FROM changes) - ?",
        (LOG_ROWS,),
    )


BATCH = 10_000
"""Items that are read at a time to count them."""


def as_runs(ids: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return first and last of each run of consecutive ids; ``ids`` ascend.

    >>> as_runs(np.array([3, 4, 5, 9]))
    [(3, 5), (9, 9)]
    """
    breaks = np.flatnonzero(np.diff(ids) != 1)
    first = ids[np.concatenate([[0], breaks + 1])] if len(ids) else ids
    last = ids[np.concatenate([breaks, [-1]])] if len(ids) else ids
    return list(zip(first.tolist(), last.tolist(), strict=True))
