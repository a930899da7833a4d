"""Generation: notice that a database was rolled back or replaced.

Every write adds a row to the change log, with the next version and a random token. The file
``collection.generation`` beside the database names the last of them. A database without that row
is an old copy, another database, or has lost its write-ahead log.
"""

from __future__ import annotations

import logging
import os
import zlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrhash.errors import StorageError
from corrhash.index.sqlite_checksums import damaged, row_checksum

if TYPE_CHECKING:
    import sqlite3

GENERATION_FILE = "collection.generation"

log = logging.getLogger("corrhash")


class Generation(NamedTuple):
    """Version and token of a row of the change log."""

    version: int
    token: int


def newest(connection: sqlite3.Connection) -> Generation:
    """Return the generation of the latest write."""
    row = connection.execute("SELECT * FROM changes ORDER BY version DESC LIMIT 1").fetchone()
    return _verified(row)


@lru_cache(maxsize=64)  # every search asks for the same row
def _verified(row: tuple[int, ...] | None) -> Generation:
    if row is None or row[4] != row_checksum("changes", *row[:4]):
        raise damaged("the newest row of the change log is damaged")
    return Generation(row[0], row[3])


def contains(connection: sqlite3.Connection, expected: Generation) -> bool:
    """Return whether a database has this write, as far as its change log goes back."""
    sql = "SELECT token FROM changes WHERE version = ?"
    row = connection.execute(sql, (expected.version,)).fetchone()
    if row is not None:
        return bool(row[0] == expected.token)
    (oldest,) = connection.execute("SELECT min(version) FROM changes").fetchone()
    return oldest is not None and bool(expected.version < oldest)


def runs_after(
    connection: sqlite3.Connection, known: Generation, found: Generation
) -> NDArray[np.int64] | None:
    """Return the (n, 2) runs of ids that later writes changed; None if the log is too short."""
    sql = "SELECT * FROM changes WHERE version >= ? ORDER BY version"
    rows = connection.execute(sql, (known.version,)).fetchall()
    if not rows or rows[0][0] != known.version:
        return None
    if any(row[4] != row_checksum("changes", *row[:4]) for row in rows) or (
        len(rows) != found.version - known.version + 1
    ):
        raise damaged("the change log is damaged")
    return np.array([row[1:3] for row in rows[1:]], np.int64).reshape(-1, 2)


def write_generation(folder: Path, generation: Generation) -> None:
    """Store the generation of a committed write.

    The file is overwritten in one piece and not synced: if a crash loses it, the generation of an
    earlier write remains, which the database contains too.
    """
    text = f"{generation.version} {generation.token}"
    content = f"{text} {zlib.crc32(text.encode()):08x}".ljust(64).encode() + b"\n"
    try:
        handle = os.open(folder / GENERATION_FILE, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.write(handle, content)
        finally:
            os.close(handle)
    except OSError as error:
        log.warning("Cannot write %s: %s.", folder / GENERATION_FILE, error.strerror)


def read_generation(folder: Path) -> Generation | None:
    """Return what :func:`write_generation` stored; None if it does not exist or is damaged."""
    path = folder / GENERATION_FILE
    try:
        text, _, checksum = path.read_bytes()[:200].decode().strip().rpartition(" ")
        if int(checksum, 16) != zlib.crc32(text.encode()):
            raise ValueError("checksum differs")
        version, token = text.split()
        return Generation(int(version), int(token))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("%s is damaged (%s). The next write replaces it.", path, error)
        return None


def check_generation(
    connection: sqlite3.Connection, path: Path, expected: Generation | None
) -> None:
    """Raise a StorageError if a database lacks a write that was made to it."""
    if expected is None or contains(connection, expected):
        return
    found = newest(connection)
    raise StorageError(
        f"{path} was rolled back or replaced, or its log {path.name}-wal was lost: it is at "
        f"version {found.version}, but version {expected.version} was written to this folder. "
        f"Restore the newest files. If you restored a backup on purpose, delete {GENERATION_FILE}."
    )
