"""SQLiteIndex: a folder whose SQLite database stores everything, with all codes in memory.

The database is the durable copy, written in transactions by any number of processes. Searches scan
a copy of the codes in memory. Before each search the newest version of the change log reveals in
microseconds whether anything was written, and the log which codes to read again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash._files import make_folder
from corrhash.codes import Codes, check_n_bits
from corrhash.errors import InputError, StorageError
from corrhash.index.base import CodeIndex, check_stored_bits
from corrhash.index.code_table import CodeTables, TableView
from corrhash.index.filters import Filter
from corrhash.index.items import Entries, Item
from corrhash.index.sqlite_connections import Connections, reporting
from corrhash.index.sqlite_filters import passing, select_ids
from corrhash.index.sqlite_storage import (
    CHANGED,
    DATABASE_FILE,
    LOG_ROWS,
    ROWS,
    as_runs,
    count_items,
    create_database,
    find_damage,
    insert_entries,
    newest_version,
    parse_ids,
    read_about,
    read_batch,
    read_codes,
    read_items,
    select_items,
    store_count,
)

FEW_IDS = 64
"""Ids that are parameters of a statement: quicker than JSON, but each number is a statement."""


class SQLiteIndex(CodeIndex):
    """Codes and items in a folder, durable and shared by processes; results are exact.

    In memory a 64-bit code takes 16 bytes with its id. The codes that passed the last filter are
    kept, so that the next search with the same filter is as fast as one without.

    The folder must be on a local file system: SQLite's write-ahead log does not work over NFS.
    """

    @classmethod
    def open(cls, uri: str, n_bits: int, about: dict[str, Any] | None = None) -> SQLiteIndex:
        """Open the index in a folder, or create one described by ``about`` if none exists."""
        path = Path(uri) / DATABASE_FILE
        found = read_about(path)
        if found is None:
            make_folder(path.parent)
            with reporting(path, "write to"):
                create_database(path, {**(about or {}), "n_bits": check_n_bits(n_bits)})
            found = read_about(path) or {}
        check_stored_bits(found, uri, n_bits)
        return cls(path.parent, found)

    @classmethod
    def look(cls, uri: str) -> dict[str, Any] | None:
        """Return the description of the index in a folder; None if none exists."""
        return read_about(Path(uri) / DATABASE_FILE)

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder = folder
        self.about = about
        self.n_bits: int = about["n_bits"]
        self._path = folder / DATABASE_FILE
        self._multi_index = False
        self._codes = CodeTables(self.n_bits)
        self._version = -1  # of the change log, up to which the codes in memory are current
        self._connections = Connections(self._path)
        self._writer: sqlite3.Connection | None = None
        self._writing_thread: int | None = None
        with self._reading() as connection, suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")  # backups can have another one

    def use_multi_index(self) -> None:
        """Answer single queries of 64 bits by multi-index hashing, which is exact too.

        It takes 48 bytes per code and is built when a search finds millions of codes.
        """
        with self._connections.lock:
            self._codes.use_multi_index()
            self._multi_index = True

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        self._connections.close()

    def __del__(self) -> None:
        with suppress(AttributeError, sqlite3.Error):
            self.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Exclude all other writers inside the block, which is one transaction.

        Everything written inside is committed when the block ends, and nothing if it raises.
        """
        with self._connections.write_lock:
            if self._writing_thread is not None:  # inside another block of this thread
                yield
                return
            with self._connections.lend() as connection:
                with reporting(self._path, "write to"):
                    connection.execute("BEGIN IMMEDIATE")
                self._writer, self._writing_thread = connection, get_ident()
                try:
                    yield
                    with self._writing() as connection:
                        connection.execute("COMMIT")
                finally:
                    self._writer = self._writing_thread = None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection of :meth:`writing`."""
        with reporting(self._path, "write to"):
            self._connections.check_process()
            assert self._writer is not None
            yield self._writer

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection; inside :meth:`writing` the one that sees uncommitted writes."""
        if self._writing_thread == get_ident():
            with self._writing() as connection:
                yield connection
        else:
            with reporting(self._path), self._connections.lend() as connection:
                yield connection

    def _upsert(self, entries: Entries) -> None:
        if not len(entries):
            return
        with self._writing() as connection:
            existing, n_items = self._existing(entries.ids), count_items(connection)
            _drop(connection, existing)
            try:
                insert_entries(connection, entries)
            except sqlite3.IntegrityError as error:
                given = {
                    item.key: number
                    for number, item in zip(entries.ids.tolist(), entries.items, strict=False)
                }
                for key, number in self._ids_of(list(given)).items():
                    if number != given[key]:
                        raise InputError(
                            f"Key {key!r} is already stored under id {number}."
                        ) from error
                raise
            _log(connection, np.sort(entries.ids))
            store_count(connection, n_items + len(entries) - len(existing))

    def _delete(self, ids: NDArray[np.int64]) -> int:
        existing = self._existing(ids)
        with self._writing() as connection:
            n_items = count_items(connection)
            _drop(connection, existing)
            _log(connection, existing)
            store_count(connection, n_items - len(existing))
        return len(existing)

    def _existing(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        with self._reading() as connection:
            (last,) = connection.execute("SELECT max(id) FROM codes").fetchone()
            if last is None or ids.min(initial=0) > last:
                return ids[:0]
            found = [ids[:0]]
            sql = "SELECT group_concat(id) FROM codes WHERE id IN (SELECT value FROM json_each(?))"
            for start in range(0, len(ids), ROWS):
                some = json.dumps(ids[start : start + ROWS].tolist())
                found.append(parse_ids(connection.execute(sql, (some,)).fetchone()[0]))
        return np.sort(np.concatenate(found))

    def _view(self, modality: str, where: Filter | None) -> TableView:
        with self._current_codes():
            view = self._codes.view(modality, where)
        if view is None:
            assert where is not None
            view = self._filtered(modality, where)
        return view

    def current_view(self, modality: str) -> TableView | None:
        """Return all codes of a modality, if no codes were written since the last search."""
        connections = self._connections
        if not connections.lock.acquire(blocking=False):
            return None
        try:
            with self._reading() as connection:
                is_current = newest_version(connection) == self._version
            return self._codes.view(modality, None) if is_current else None
        finally:
            connections.lock.release()

    def _filtered(self, modality: str, where: Filter) -> TableView:
        """Return the codes that pass a filter, all of one version of the database.

        Nobody waits for a slow filter: the lock is held only to bring the codes up to date.
        """
        connections = self._connections
        with reporting(self._path), ExitStack() as loan:
            with connections.lock:
                connection = loan.enter_context(connections.lend())
                connection.execute("BEGIN")
                self._refresh(connection)
                codes = self._codes
                seen = codes.snapshot()
            ids = seen.ids()
            passed = ids[passing(connection, where, ids)]
            connection.execute("COMMIT")
        with connections.lock:
            codes.remember(where, passed, seen)
        return seen.views[modality].of(passed)

    @contextmanager
    def _current_codes(self) -> Iterator[None]:
        """Bring the codes in memory up to date, and let no other thread change them inside."""
        connections = self._connections
        with connections.lock:
            with reporting(self._path), connections.lend() as connection:
                if newest_version(connection) != self._version:
                    connection.execute("BEGIN")
                    self._refresh(connection)
                    connection.execute("COMMIT")
            yield

    def _refresh(self, connection: sqlite3.Connection) -> None:
        """Read the codes that were written since the last time."""
        newest = newest_version(connection)
        if newest == self._version:
            return
        (oldest,) = connection.execute("SELECT min(version) FROM changes").fetchone()
        if oldest <= self._version < newest:
            runs = connection.execute(
                "SELECT first, last FROM changes WHERE version > ?", (self._version,)
            ).fetchall()
            changed = read_codes(connection, self.n_bits, CHANGED, self._version)
            self._codes.replace(self._codes.within(np.array(runs)), changed)
        else:
            codes = CodeTables(self.n_bits)
            if self._multi_index:
                codes.use_multi_index()
            codes.replace(np.empty(0, np.int64), read_codes(connection, self.n_bits))
            self._codes = codes  # once complete: reading can fail
        self._version = newest

    def _select(self, where: Filter) -> NDArray[np.int64]:
        with self._reading() as connection:
            connection.execute("SAVEPOINT filtering")
            every = select_ids(connection, "codes", [])
            found = every[passing(connection, where, every)]
            connection.execute("RELEASE filtering")
        return found

    def _metadata_names(self) -> list[str]:
        # One look into the index of values per name, however many items there are.
        sql = (
            "WITH RECURSIVE names (name) AS (SELECT min(name) FROM fields UNION ALL SELECT "
            "(SELECT min(name) FROM fields WHERE name > names.name) FROM names "
            "WHERE name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL"
        )
        with self._reading() as connection:
            return [name for (name,) in connection.execute(sql)]

    def _get(self, ids: NDArray[np.int64], fields: Sequence[str]) -> dict[int, Item]:
        names, numbers = tuple(fields), ids.tolist()
        if len(numbers) <= FEW_IDS:
            sql = f"{select_items(names)} WHERE items.id IN ({', '.join('?' * len(numbers))})"
        else:
            sql = f"{select_items(names)} WHERE items.id IN (SELECT value FROM json_each(?))"
            numbers = [json.dumps(numbers)]
        with self._reading() as connection:
            rows = connection.execute(sql, numbers).fetchall()
            return dict(zip((row[0] for row in rows), read_items(names, rows), strict=True))

    def _codes_of(self, ids: NDArray[np.int64], modality: str) -> tuple[NDArray[np.int64], Codes]:
        with self._current_codes():
            view = self._codes.tables[modality].view()
        return view.codes(ids)

    def _ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        sql = (
            "SELECT key, id FROM items WHERE key <> '' AND key IN (SELECT value FROM json_each(?))"
        )
        with self._reading() as connection:
            found = dict(connection.execute(sql, (json.dumps(keys),)).fetchall())
        return {key: found[key] for key in keys if key in found}

    def _ids_of_content(self, contents: Sequence[str]) -> dict[str, list[int]]:
        sql = (
            "SELECT content, id FROM items WHERE content <> '' "
            "AND content IN (SELECT value FROM json_each(?)) ORDER BY id"
        )
        found: dict[str, list[int]] = {}
        with self._reading() as connection:
            for content, number in connection.execute(sql, (json.dumps(contents),)):
                found.setdefault(content, []).append(number)
        return found

    def _write_about(self, about: dict[str, Any]) -> None:
        with self._writing() as connection:
            connection.execute(
                "UPDATE meta SET value = ? WHERE name = 'about'", (json.dumps(about),)
            )

    def verify(self) -> None:
        """Check the database file, and that its tables agree; raise a StorageError if not."""
        with self._reading() as connection:
            connection.execute("BEGIN")
            problem = next(find_damage(connection), None)
            connection.execute("COMMIT")
        if problem is not None:
            raise StorageError(
                f"{self._path} is damaged: {problem}. Restore it from a backup, or create it again."
            )

    def new_ids(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return unused ids, larger than all that exist."""
        with self._reading() as connection:
            (last,) = connection.execute("SELECT max(id) FROM codes").fetchone()
        start = 0 if last is None else last + 1
        return np.arange(start, start + len(keys))

    def _batches(self, size: int, fields: Sequence[str]) -> Iterator[Entries]:
        """Iterate in one transaction per batch, so that writers are not held up."""
        after = -1
        while True:
            with self._reading() as connection:
                entries = read_batch(connection, self.n_bits, after, size, fields)
            if entries is None:
                return
            yield entries
            after = int(entries.ids[-1])

    def __len__(self) -> int:
        with self._reading() as connection:
            return count_items(connection)


def _drop(connection: sqlite3.Connection, ids: NDArray[np.int64]) -> None:
    rows = ((number,) for number in ids.tolist())
    connection.executemany("DELETE FROM items WHERE id = ?", rows)


def _log(connection: sqlite3.Connection, ids: NDArray[np.int64]) -> None:
    """Add ascending ids to the change log, and remove its oldest rows."""
    connection.executemany(
        "INSERT INTO changes (first, last) VALUES (?, ?)",  # version: the largest + 1
        as_runs(ids),
    )
    connection.execute(
        "DELETE FROM changes WHERE version <= (SELECT max(version) FROM changes) - ?",
        (LOG_ROWS,),
    )
