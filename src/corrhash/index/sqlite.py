"""SQLiteIndex: a folder whose SQLite database stores everything, with all codes in memory.

The database is the durable copy, written in transactions by any number of processes. Searches scan
a copy of the codes in memory. Before each search ``PRAGMA data_version`` reveals in microseconds
whether another connection has committed, and the change log which codes to read again.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock, get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash._files import make_folder
from corrhash.codes import Codes, check_n_bits
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex, check_stored_bits
from corrhash.index.code_table import CodeTables
from corrhash.index.filters import Filter, balanced
from corrhash.index.items import Entries, Item
from corrhash.index.ranking import Ranking
from corrhash.index.sqlite_storage import (
    CHANGED,
    DATABASE_FILE,
    LOG_ROWS,
    ROWS,
    as_runs,
    as_sql,
    connect,
    create_database,
    insert_entries,
    parse_ids,
    read_about,
    read_batch,
    read_codes,
    read_items,
    reporting,
    select_items,
)


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
        self._data_version = -1
        self._lock = RLock()  # for the codes in memory and the connection that reads them
        self._write_lock = RLock()
        self._writing_thread: int | None = None
        self._idle: deque[sqlite3.Connection] = deque()
        with reporting(self._path):
            self._reader, self._writer = connect(self._path), connect(self._path)

    def use_multi_index(self) -> None:
        """Answer single queries of 64 bits by multi-index hashing, which is exact too.

        It takes 48 bytes per code and is built when a search finds millions of codes.
        """
        with self._lock:
            self._codes.use_multi_index()
            self._multi_index = True

    def close(self) -> None:
        """Close all connections; the index cannot be used afterwards."""
        for connection in (self._reader, self._writer, *self._idle):
            connection.close()

    def __del__(self) -> None:
        with suppress(AttributeError, sqlite3.Error):
            self.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Exclude all other writers inside the block, which is one transaction.

        Everything written inside is committed when the block ends, and nothing if it raises.
        """
        with self._write_lock:
            if self._writing_thread is not None:  # inside another block of this thread
                yield
                return
            with reporting(self._path, "write to"):
                self._writer.execute("BEGIN IMMEDIATE")
            self._writing_thread = get_ident()
            try:
                yield
                with reporting(self._path, "write to"):
                    self._writer.execute("COMMIT")
            finally:
                self._writing_thread = None
                with suppress(sqlite3.Error):
                    self._writer.rollback()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection; inside :meth:`writing` the one that sees uncommitted writes."""
        with reporting(self._path):
            if self._writing_thread == get_ident():
                yield self._writer
                return
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = connect(self._path)
            yield connection
            self._idle.append(connection)

    def _upsert(self, entries: Entries) -> None:
        if not len(entries):
            return
        with reporting(self._path, "write to"):
            self._drop(self._existing(entries.ids))
            try:
                insert_entries(self._writer, entries)
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
            self._log(np.sort(entries.ids))

    def _delete(self, ids: NDArray[np.int64]) -> int:
        existing = self._existing(ids)
        with reporting(self._path, "write to"):
            self._drop(existing)
            self._log(existing)
        return len(existing)

    def _drop(self, ids: NDArray[np.int64]) -> None:
        rows = ((number,) for number in ids.tolist())
        self._writer.executemany("DELETE FROM items WHERE id = ?", rows)

    def _log(self, ids: NDArray[np.int64]) -> None:
        """Add ascending ids to the change log, and remove its oldest rows."""
        self._writer.executemany(
            "INSERT INTO changes (first, last) VALUES (?, ?)",  # version: the largest + 1
            as_runs(ids),
        )
        self._writer.execute(
            "DELETE FROM changes WHERE version <= (SELECT max(version) FROM changes) - ?",
            (LOG_ROWS,),
        )

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

    def _search(self, queries: Codes, k: int, modality: str, where: Filter | None) -> Ranking:
        with self._lock, reporting(self._path):
            self._refresh()
            view = self._codes.view(modality, where, self._passing)
        return view.nearest(queries, k)

    def _refresh(self) -> None:
        """Bring the codes in memory up to date."""
        (data_version,) = self._reader.execute("PRAGMA data_version").fetchone()
        if data_version != self._data_version:
            with _transaction(self._reader):
                self._apply_changes()
            self._data_version = data_version

    def _apply_changes(self) -> None:
        """Read the codes that were written since the last time."""
        oldest, newest = self._reader.execute(
            "SELECT (SELECT min(version) FROM changes), (SELECT max(version) FROM changes)"
        ).fetchone()
        if newest == self._version:
            return
        if self._version < oldest:
            self._codes = CodeTables(self.n_bits)
            if self._multi_index:
                self._codes.use_multi_index()
            self._codes.replace(np.empty(0, np.int64), read_codes(self._reader, self.n_bits))
        else:
            runs = self._reader.execute(
                "SELECT first, last FROM changes WHERE version > ?", (self._version,)
            ).fetchall()
            changed = read_codes(self._reader, self.n_bits, CHANGED, self._version)
            self._codes.replace(self._codes.within(np.array(runs)), changed)
        self._version = newest

    def _passing(self, where: Filter) -> NDArray[np.int64]:
        """Return the ascending ids that pass a filter, of the same version as the codes."""
        with _transaction(self._reader):
            self._apply_changes()
            return _ids_passing(self._reader, where)

    def _select(self, where: Filter) -> NDArray[np.int64]:
        with self._reading() as connection:
            return _ids_passing(connection, where)

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
        names = tuple(fields)
        sql = f"{select_items(names)} WHERE items.id IN (SELECT value FROM json_each(?))"
        with self._reading() as connection:
            rows = connection.execute(sql, (json.dumps(ids.tolist()),)).fetchall()
        return dict(zip((row[0] for row in rows), read_items(names, rows), strict=True))

    def _codes_of(self, ids: NDArray[np.int64], modality: str) -> tuple[NDArray[np.int64], Codes]:
        with self._lock, reporting(self._path):
            self._refresh()
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
        with reporting(self._path, "write to"):
            self._writer.execute(
                "UPDATE meta SET value = ? WHERE name = 'about'", (json.dumps(about),)
            )

    def new_ids(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` unused ids, larger than all that exist."""
        with self._reading() as connection:
            (last,) = connection.execute("SELECT max(id) FROM codes").fetchone()
        start = 0 if last is None else last + 1
        return np.arange(start, start + n)

    def _batches(self, size: int) -> Iterator[Entries]:
        """Iterate in one transaction per batch, so that writers are not held up."""
        after = -1
        while True:
            with self._reading() as connection:
                entries = read_batch(connection, self.n_bits, after, size)
            if entries is None:
                return
            yield entries
            after = int(entries.ids[-1])

    def __len__(self) -> int:
        with self._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM codes").fetchone()[0])


def _ids_passing(connection: sqlite3.Connection, where: Filter) -> NDArray[np.int64]:
    """Return the ascending ids that pass a filter."""
    condition, parameters = as_sql(balanced(where))
    sql = f"SELECT group_concat(id) FROM codes WHERE {condition}"
    try:
        (text,) = connection.execute(sql, parameters).fetchone()
    except sqlite3.OperationalError as error:
        if "too many SQL variables" not in str(error):
            raise
        raise InputError(
            f"The filter has too many conditions ({error}). Make it shorter."
        ) from error
    return np.sort(parse_ids(text))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Read one version of the database inside the block."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()
