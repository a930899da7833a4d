"""The record log of an SQLite database: JSON documents that are only ever appended."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from corrhash.errors import StorageError
from corrhash.index.sqlite_checksums import (
    RECORDS,
    Changes,
    check_total,
    damaged,
    read_total,
    row_checksum,
    total_of,
)


def append_records(
    connection: sqlite3.Connection, kind: str, contents: Sequence[dict[str, Any]]
) -> None:
    """Append JSON documents of one kind, and count them."""
    (last,) = connection.execute("SELECT max(number) FROM records").fetchone()
    changes, rows = Changes(), list[tuple[Any, ...]]()
    for number, content in enumerate(contents, start=0 if last is None else last + 1):
        row = (number, kind, json.dumps(content))
        rows.append((*row, row_checksum(RECORDS, *row)))
        changes.add(RECORDS, rows[-1][-1])
    connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
    changes.write(connection)


def read_records(connection: sqlite3.Connection, kind: str) -> list[dict[str, Any]]:
    """Return all documents of one kind, oldest first; a StorageError if any row is damaged."""
    rows = connection.execute("SELECT * FROM records ORDER BY number").fetchall()
    check_total(connection, RECORDS, total_of(row_checksum(RECORDS, *row[:3]) for row in rows))
    if any(row[3] != row_checksum(RECORDS, *row[:3]) for row in rows):
        raise damaged("the record log is damaged")
    return [json.loads(content) for _, of_kind, content, _ in rows if of_kind == kind]


def salvage_records(path: Path) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """Return the records of a damaged database that are whole, by kind, and what is wrong.

    The table is read from both ends up to a damaged page.
    """
    rows: dict[int, Sequence[Any]] = {}
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        for order in ("ASC", "DESC"):
            with suppress(sqlite3.Error):
                sql = f"SELECT * FROM records ORDER BY number {order}"
                for row in connection.execute(sql):
                    rows[row[0]] = row
        expected = len(rows)
        with suppress(sqlite3.Error, StorageError):
            expected = read_total(connection, RECORDS).n
    found: dict[str, list[dict[str, Any]]] = {}
    problems = [f"Records that are missing: {expected - len(rows):,}."] * (expected > len(rows))
    for number, row in sorted(rows.items()):
        if row[3] == row_checksum(RECORDS, *row[:3]):
            found.setdefault(row[1], []).append(json.loads(row[2]))
        else:
            problems.append(f"Record {number} is damaged.")
    return found, problems
