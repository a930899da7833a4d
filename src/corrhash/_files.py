"""Files and folders: atomic writes, regular files, the cache folder, checksums and text files."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from corrhash.errors import InputError

_cache_folder: ContextVar[Path | None] = ContextVar("cache_folder", default=None)
_stays_offline: ContextVar[bool] = ContextVar("stays_offline", default=False)


@contextmanager
def atomic_write(path: str | Path, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path`` and rename it to ``path`` once it is on disk.

    A crash leaves the old file or the new one, never a part. Without ``replace``, an existing file
    stays and FileExistsError is raised.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "greeting.txt") as file:
    ...     _ = file.write(b"hello")
    >>> (folder / "greeting.txt").read_text()
    'hello'
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"Cannot write {path}: it is a folder. Pass the name of a file.")
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
        if replace:
            temporary.replace(path)
        else:
            os.link(temporary, path)
            temporary.unlink()
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def temporary_name(path: Path) -> Path:
    """Return a new name beside ``path``, for content that will replace it."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def is_temporary(path: Path, name: str) -> bool:
    """Whether ``path`` is left over from an interrupted write of a file or folder ``name``."""
    return re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}\.tmp", path.name) is not None


def check_suffix(path: str | Path, suffixes: Sequence[str], what: str) -> None:
    """Raise an error unless the name of a file to write ends in one of the suffixes.

    >>> check_suffix("codes.txt", [".npz"], "a file of codes")
    Traceback (most recent call last):
    corrhash.errors.InputError: The name of a file of codes must end in .npz, got 'codes.txt'.
    """
    if Path(path).suffix.lower() not in suffixes:
        *first, last = suffixes
        valid = f"{', '.join(first)} or {last}" if first else last
        raise InputError(f"The name of {what} must end in {valid}, got {Path(path).name!r}.")


def replace_folder(new: Path, folder: Path) -> None:
    """Replace ``folder`` with ``new``, a folder beside it.

    Folders cannot be exchanged in one step, so the old one is renamed to :func:`backup_path` first.
    If a crash left it there, it is restored before anything else is done.
    """
    backup = backup_path(folder)
    if backup.exists() and not folder.exists():
        backup.rename(folder)
    shutil.rmtree(backup, ignore_errors=True)
    if folder.exists():
        folder.rename(backup)
    try:
        new.rename(folder)
    except BaseException:
        if backup.exists():
            backup.rename(folder)
        raise
    _sync_folder(folder.parent)
    shutil.rmtree(backup, ignore_errors=True)


def backup_path(folder: Path) -> Path:
    """Return the name of the old folder while :func:`replace_folder` runs."""
    return folder.with_name(f".{folder.name}.old")


def make_folder(folder: str | Path) -> Path:
    """Create a folder and its parents if they do not exist, and return it."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Cannot make the folder {folder}: {error.strerror}. Choose another path."
        ) from error
    return folder


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, on systems that can open a folder (POSIX)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_folder() -> Path:
    """Return the folder for downloads and computed features.

    It is the folder of :func:`caching_in`, else ``$CORRHASH_CACHE``, else ``~/.cache/corrhash``.
    """
    folder = _cache_folder.get() or os.environ.get("CORRHASH_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "corrhash"


@contextmanager
def caching_in(folder: str | Path | None) -> Iterator[None]:
    """Use ``folder`` as the cache folder inside the block; None changes nothing.

    >>> with caching_in("elsewhere"):
    ...     cache_folder().name
    'elsewhere'
    """
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise InputError(f"Cannot cache in {folder}: it is a file. Pass the path of a folder.")
    token = _cache_folder.set(_cache_folder.get() if folder is None else Path(folder))
    try:
        yield
    finally:
        _cache_folder.reset(token)


@contextmanager
def staying_offline(stay: bool = True) -> Iterator[None]:
    """Switch downloads off inside the block, as for an encoder that a saved model names."""
    token = _stays_offline.set(stay or _stays_offline.get())
    try:
        yield
    finally:
        _stays_offline.reset(token)


def is_offline() -> bool:
    """Return whether downloads are switched off, here, by ``--offline`` or in the environment."""
    if _stays_offline.get():
        return True
    names = ("CORRHASH_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in names)


def absolute_path(path: str | Path) -> Path:
    """Return an absolute path without ``..``; symbolic links stay as they are."""
    return Path(os.path.normpath(Path(path).absolute()))


@contextmanager
def open_regular(path: str | Path, *, links: bool = True) -> Iterator[BufferedReader]:
    """Open a regular file to read; raise OSError for anything else.

    Reading a pipe or a device can block forever, or never end. Without ``links``, a symbolic link
    is not opened either.
    """
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags | (0 if links else getattr(os, "O_NOFOLLOW", 0)))
    except ValueError as error:  # a NUL character
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    except OSError as error:
        if error.errno == errno.ELOOP and not links and Path(path).is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from error
        raise
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            kind = "a folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "a pipe or a device"
            raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
        yield file


def is_regular(path: str | Path) -> bool:
    """Return whether a path is a regular file that this process can look at."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - Path.is_file raises errors
    except (OSError, ValueError):
        return False


def file_sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file, as 64 hexadecimal digits."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


CHECKSUM_DIGITS = 32


def content_checksum(content: Path | bytes) -> str:
    """Return the first 128 bits of the SHA-256 of a file or of bytes, to find equal content."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()[:CHECKSUM_DIGITS]
    return file_sha256(content)[:CHECKSUM_DIGITS]


def read_text(path: str | Path) -> str:
    """Read a UTF-8 text file, with or without a byte order mark."""
    try:
        with open_regular(path) as file:
            return file.read().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error}). Save it as UTF-8.") from error


def read_lines(path: str | Path) -> list[str]:
    """Read the lines of a text file from a published dataset: UTF-8 or Latin-1, any line end.

    Empty lines are kept because line i often belongs to item i, except for one at the end.
    """
    try:
        with open_regular(path) as file:
            content = file.read().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path.") from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return lines[:-1] if lines and not lines[-1] else lines
