"""Connections to the SQLite database of a collection, and the errors of SQLite in plain words."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections import deque
from pathlib import Path
from threading import Condition, Lock, RLock, get_ident
from weakref import WeakSet

from corrhash.errors import InputError, StorageError
from corrhash.index.time_limit import check_time

BUSY_SECONDS = 60.0
"""How long a writer waits for another one, and a fork for the connections in use."""

CLOCK_TICK = 0.02
"""Seconds within which two changes of a file can have the same time."""


class Connections:
    """The connections of this process to one database, each lent to one thread at a time.

    **Fork.** SQLite's locks belong to a process, so a child that used or closed a connection of
    its parent could damage the database. All connections are closed before a fork, and opened
    again when they are needed. A child that was forked inside a write cannot use the database.

    **Read-only folders.** Where this process cannot create a log and no other process has one,
    SQLite can only read the file as if it never changed. Each loan then verifies that it did not.

    Attributes
    ----------
    lock : held by a thread that uses what it has read from the database in memory.
    write_lock : held by the thread that writes, and taken before ``lock``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: deque[sqlite3.Connection] = deque()
        self._state: tuple[int, ...] | None = None  # of a file that is read without locks
        self._file: tuple[int, int] | None = None  # device and number of the file that is open
        self._inherited = False
        self._make_locks()
        _open_here.add(self)

    def _make_locks(self) -> None:
        self.lock, self.write_lock = RLock(), RLock()
        self._borrowers: list[int] = []  # threads
        self._returned = Condition()

    def lend(self) -> _Loan:
        """Lend a connection inside a block; it is closed if the block raises."""
        return _Loan(self)

    def _take(self) -> sqlite3.Connection:
        self.check_process()
        with self._returned:
            if self._state is not None and self._state != _state(self.path):
                self.close()
            stat = self.path.stat()
            if self._file != (stat.st_dev, stat.st_ino):  # another file has taken its place
                self.close()
                self._file = (stat.st_dev, stat.st_ino)
            connection = self._idle.pop() if self._idle else self._connect()
            self._borrowers.append(get_ident())
            return connection

    def _give_back(self, connection: sqlite3.Connection, completed: bool) -> None:
        if self._inherited:  # the block began in the parent process
            _never_closed.append(connection)
            return
        with self._returned:
            self._borrowers.remove(get_ident())
            self._returned.notify_all()
            if completed:
                self._idle.append(connection)
            else:
                connection.close()
        if self._state is not None and self._state != _state(self.path):
            raise StorageError(f"{self.path} changed while it was read. Try again.", "busy")

    def _connect(self) -> sqlite3.Connection:
        writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        if writable or _log(self.path).exists():
            return _open(self.path, "mode=rw" if writable else "mode=ro")
        if self._state is None:
            self._state = _state(self.path)
            if time.time() - self.path.stat().st_mtime < CLOCK_TICK:
                time.sleep(CLOCK_TICK)
        return _open(self.path, "immutable=1")

    def check_process(self) -> None:
        """Raise an error in a process that was forked inside a write."""
        if self._inherited:
            raise StorageError(
                f"This process was forked while {self.path} was being written. Fork at another "
                "moment, or start processes with spawn."
            )

    def close(self) -> None:
        """Close all connections that are not lent; the next loan opens a new one."""
        self._state = None
        while self._idle:
            self._idle.pop().close()

    def before_fork(self) -> None:
        """Wait for other threads, close all connections, and lend none until the fork."""
        end = time.monotonic() + BUSY_SECONDS
        self._held = [
            lock
            for lock in (self.write_lock, self.lock)
            if lock.acquire(timeout=max(0, end - time.monotonic()))
        ]
        self._returned.acquire()
        if get_ident() not in self._borrowers:
            self._returned.wait_for(lambda: not self._borrowers, max(0, end - time.monotonic()))
        if not self._borrowers:
            self.close()

    def after_fork_in_parent(self) -> None:
        """Lend connections again."""
        self._returned.release()
        for lock in self._held:
            lock.release()

    def after_fork_in_child(self) -> None:
        """Lend new connections, unless the parent was busy for too long."""
        if self._borrowers or len(self._held) < 2:
            self._inherited = True
            _never_closed.extend(self._idle)
            self._idle.clear()
        self._make_locks()


class _Loan:
    """A block with a connection. A class, because a generator takes twice the time."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections

    def __enter__(self) -> sqlite3.Connection:
        with reporting(self.connections.path):
            self.connection = self.connections._take()
        return self.connection

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.connections._give_back(self.connection, completed=kind is None)


_open_here: WeakSet[Connections] = WeakSet()
_forked: list[Connections] = []
_forking = Lock()
_never_closed: list[sqlite3.Connection] = []


def _before_fork() -> None:
    _forking.acquire()
    _forked[:] = _open_here
    for connections in _forked:
        connections.before_fork()


def _after_fork_in_parent() -> None:
    for connections in _forked:
        connections.after_fork_in_parent()
    _forked.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    for connections in _forked:
        connections.after_fork_in_child()
    _forked.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def _open(path: Path, access: str) -> sqlite3.Connection:
    """Open a connection, which one thread at a time can use."""
    uri = f"{path.absolute().as_uri()}?{access}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute("PRAGMA cache_size = -16384")
    return connection


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _state(path: Path) -> tuple[int, ...]:
    """Return numbers that differ if anyone has written to a database."""
    stat = path.stat()
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, _log(path).exists())


class reporting:
    """Turns errors of SQLite, of the disk and of damaged content into StorageError in a block."""

    def __init__(self, path: Path, action: str = "read") -> None:
        self.path, self.action = path, action

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, (InputError, StorageError)):
            return
        if isinstance(error, UnicodeEncodeError):
            raise InputError(
                f"The text {error.object!r} is not valid Unicode. Correct or omit it."
            ) from error
        if isinstance(error, (sqlite3.Error, OSError, ValueError, KeyError, TypeError)):
            if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
                check_time()
            raise _storage_error(self.path, self.action, error) from error


def _storage_error(path: Path, action: str, error: Exception) -> StorageError:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StorageError(
            f"Another process has been writing to {path} for more than {BUSY_SECONDS:g} s. "
            "Try again when it has finished.",
            "busy",
        )
    problem = f"Cannot {action} {path}: {getattr(error, 'strerror', None) or error}."
    if name == "SQLITE_FULL" or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(f"{problem} Free some space; stored items are unchanged.", "full")
    if isinstance(error, OSError) or name.startswith(
        ("SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_CANTOPEN")
    ):
        return StorageError(f"{problem} Check the permissions; stored items are unchanged.")
    return StorageError(f"{problem} The file is damaged. Restore it from a backup.")
