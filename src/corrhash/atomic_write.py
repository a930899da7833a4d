"""Writing so that a crash leaves the old file or folder or the new one, never half of one."""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from corrhash.errors import InputError


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path`` and rename it to ``path`` once it is on disk.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "greeting.txt") as file:
    ...     _ = file.write(b"hello")
    >>> (folder / "greeting.txt").read_text()
    'hello'
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"Cannot write {path}: it is a folder. Give the name of a file.")
    temporary = temporary_name(path)
    try:
        file = temporary.open("xb")
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error.strerror}. Choose a folder that exists and is writable."
        ) from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def temporary_name(path: Path) -> Path:
    """A new name beside ``path`` for what shall take its place."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def is_temporary(path: Path, name: str) -> bool:
    """Whether ``path`` is what an interrupted writing of a file or folder ``name`` left behind."""
    return re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}\.tmp", path.name) is not None


def replace_folder(new: Path, folder: Path) -> None:
    """Put the folder ``new``, which lies beside it, in the place of ``folder``.

    No system exchanges folders at once, so that the old one steps aside first. Where a crash left
    it there, it is back in its place before anything else is done.
    """
    old = stepped_aside(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    _sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def stepped_aside(folder: Path) -> Path:
    """Where the old folder is while a new one takes its place."""
    return folder.with_name(f".{folder.name}.old")


def make_folder(folder: str | Path) -> Path:
    """The folder, made if it is not there, or an error that says why it cannot be."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Cannot make the folder {folder}: {error.strerror}. Choose another place."
        ) from error
    return folder


def _sync_folder(folder: Path) -> None:
    """Make a rename itself durable, where the system allows a folder to be opened (POSIX)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
