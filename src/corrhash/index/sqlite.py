"""SQLiteIndex: a folder whose SQLite database stores everything, with all codes in memory.

The database is the durable copy, written in transactions by any number of processes. Searches scan
a copy of the codes in memory. Before each search the newest version of the change log reveals in
microseconds whether anything was written, and the log which codes to read again.
"""

from __future__ import annotations

import json
import logging
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
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex, check_stored_bits
from corrhash.index.code_table import CodeTables, TableView
from corrhash.index.filters import Filter
from corrhash.index.items import Entries, Item
from corrhash.index.sqlite_checksums import CODES, KEYS, damaged, read_total
from corrhash.index.sqlite_connections import Connections, reporting
from corrhash.index.sqlite_damage import DamageReport, check_all, verify_source
from corrhash.index.sqlite_filters import passing, select_ids
from corrhash.index.sqlite_generation import (
    Generation,
    check_generation,
    contains,
    newest,
    read_generation,
    runs_after,
    write_generation,
)
from corrhash.index.sqlite_records import append_records, read_records
from corrhash.index.sqlite_rows import (
    CHANGED,
    ROWS,
    fetch,
    ids_by_content,
    parse_ids,
    read_batch,
    read_codes,
    read_items,
    select_items,
)
from corrhash.index.sqlite_storage import (
    DATABASE_FILE,
    about_in,
    create_database,
    delete_items,
    insert_entries,
    log_ids,
    read_about,
    write_about,
)

log = logging.getLogger("corrhash")

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
        self._generation: Generation | None = None  # of the codes in memory
        self._damage = DamageReport(self._path)
        self._verified: set[str] = set()  # sources whose totals agree
        self._connections = Connections(self._path)
        self._writer: sqlite3.Connection | None = None
        self._writing_thread: int | None = None
        expected = read_generation(folder)  # first: a write stores it after its commit
        with self._reading() as connection:
            check_generation(connection, self._path, expected)
            with suppress(sqlite3.OperationalError):
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
                    self.about = about_in(connection)  # another process may have changed it
                    yield
                    with self._writing() as connection:
                        generation = newest(connection)
                        connection.execute("COMMIT")
                    write_generation(self.folder, generation)
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
            delete_items(connection, self._existing(entries.ids).tolist())
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
            log_ids(connection, np.sort(entries.ids))

    def _delete(self, ids: NDArray[np.int64]) -> int:
        existing = self._existing(ids)
        with self._writing() as connection:
            delete_items(connection, existing.tolist())
            log_ids(connection, existing)
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
                is_current = newest(connection) == self._generation
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
            passed = ids[passing(connection, where, ids, self._verified)]
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
                if newest(connection) != self._generation:
                    connection.execute("BEGIN")
                    self._refresh(connection)
                    connection.execute("COMMIT")
            yield

    def _refresh(self, connection: sqlite3.Connection) -> None:
        """Read the codes that were written since the last time."""
        found, known = newest(connection), self._generation
        if found == known:
            return
        damaged_ids: list[int] = []
        if known is not None and not contains(connection, known):
            check_generation(connection, self._path, read_generation(self.folder))
            log.warning("%s was replaced. Reading all codes again.", self._path)
            known = None
        runs = None if known is None else runs_after(connection, known, found)
        if known is not None and runs is not None:
            changed = read_codes(connection, self.n_bits, damaged_ids, CHANGED, known.version)
            self._codes.replace(self._codes.within(runs), changed)
        else:
            codes = CodeTables(self.n_bits)
            if self._multi_index:
                codes.use_multi_index()
            every = read_codes(connection, self.n_bits, damaged_ids)
            codes.replace(np.empty(0, np.int64), every)
            self._codes = codes  # once complete: reading can fail
        self.about = about_in(connection)  # names the model of these codes
        self._generation = found
        self._damage.note(dict.fromkeys(damaged_ids, "its code is damaged"))

    def _select(self, where: Filter) -> NDArray[np.int64]:
        with self._reading() as connection:
            connection.execute("SAVEPOINT filtering")
            every = select_ids(connection, "codes", [])
            if len(every) != read_total(connection, CODES).n:
                raise damaged("some codes are missing")
            found = every[passing(connection, where, every, self._verified)]
            connection.execute("RELEASE filtering")
        return found

    def _metadata_names(self) -> list[str]:
        sql = "SELECT source FROM totals WHERE source > 'field:' AND source < 'field;'"
        with self._reading() as connection:
            sources = [source for (source,) in connection.execute(sql)]
        return sorted({source.split(":")[1] for source in sources})

    def _get(self, ids: NDArray[np.int64], fields: Sequence[str]) -> dict[int, Item]:
        names, numbers, damage = tuple(fields), ids.tolist(), dict[int, str]()
        if len(numbers) <= FEW_IDS:
            sql = f"{select_items(names)} WHERE items.id IN ({', '.join('?' * len(numbers))})"
        else:
            sql = f"{select_items(names)} WHERE items.id IN (SELECT value FROM json_each(?))"
        with self._reading() as connection:
            few = len(numbers) <= FEW_IDS
            rows = fetch(connection, sql, numbers if few else (json.dumps(numbers),))
            items = read_items(names, rows, damage)
            if missing := {*numbers} - items.keys() - damage.keys():
                lost = self._existing(np.array(sorted(missing), np.int64)).tolist()
                damage |= dict.fromkeys(lost, "its row is missing")
        self._damage.note(damage)
        return items

    def _codes_of(self, ids: NDArray[np.int64], modality: str) -> tuple[NDArray[np.int64], Codes]:
        with self._current_codes():
            view = self._codes.tables[modality].view()
        return view.codes(ids)

    def _ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        sql = (
            f"{select_items(('key',))} WHERE items.key <> '' "
            "AND items.key IN (SELECT value FROM json_each(?))"
        )
        damage: dict[int, str] = {}
        with self._reading() as connection:
            rows = fetch(connection, sql, (json.dumps(keys),))
            items = read_items(("key",), rows, damage)
            found = {item.key: number for number, item in items.items()}
            if KEYS not in self._verified and not found.keys() >= {*keys}:
                connection.execute("SAVEPOINT verifying")
                verify_source(connection, KEYS, self._verified)
                connection.execute("RELEASE verifying")
        self._damage.note(damage)
        return {key: found[key] for key in keys if key in found}

    def _ids_of_content(self, contents: Sequence[str]) -> dict[str, list[int]]:
        with self._reading() as connection:
            return ids_by_content(connection, contents)

    def _append(self, kind: str, records: Sequence[dict[str, Any]]) -> None:
        with self._writing() as connection:
            append_records(connection, kind, records)
            log_ids(connection, None)

    def _records(self, kind: str) -> list[dict[str, Any]]:
        with self._reading() as connection:
            connection.execute("SAVEPOINT reading")
            found = read_records(connection, kind)
            connection.execute("RELEASE reading")
        return found

    def _write_about(self, about: dict[str, Any]) -> None:
        with self._writing() as connection:
            write_about(connection, about)

    def verify(self) -> None:
        """Check every row, and that all tables agree; raise a StorageError if not."""
        with self._reading() as connection:
            connection.execute("BEGIN")
            check_all(connection, self._path, self.n_bits)
            connection.execute("COMMIT")

    def new_ids(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return unused ids, larger than all that exist."""
        with self._reading() as connection:
            (last,) = connection.execute("SELECT max(id) FROM codes").fetchone()
        start = 0 if last is None else last + 1
        return np.arange(start, start + len(keys))

    def _batches(self, size: int, fields: Sequence[str]) -> Iterator[Entries]:
        """Iterate in one transaction per batch, so that writers are not held up."""
        with self._current_codes():  # notices codes that are missing
            pass
        after = -1
        while True:
            damage: dict[int, str] = {}
            with self._reading() as connection:
                found = read_batch(connection, self.n_bits, after, size, fields, damage)
            self._damage.note(damage)
            if found is None:
                return
            after, entries = found
            if len(entries):
                yield entries

    def __len__(self) -> int:
        with self._reading() as connection:
            return read_total(connection, CODES).n
