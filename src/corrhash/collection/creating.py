"""Creating a collection in a folder: one process at a time, without interrupted attempts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from corrhash._files import backup_path, is_temporary, make_folder
from corrhash.errors import InputError
from corrhash.index.sqlite_storage import DATABASE_FILE, DATABASE_FILES

MODEL_FOLDER = "model"
"""Subfolder with a copy of the model that the collection was created with."""

CREATING_LOCK = ".creating.lock"
WRITTEN_ASIDE = (MODEL_FOLDER, DATABASE_FILE)
"""Names that a creation writes under a temporary name first."""

COLLECTION_FILES = {MODEL_FOLDER, CREATING_LOCK, *DATABASE_FILES}


@contextmanager
def creating_in(folder: Path) -> Iterator[None]:
    """Hold the creation lock of a folder, and remove what an interrupted creation left in it."""
    _check_new(folder)
    lock = FileLock(make_folder(folder) / CREATING_LOCK)
    try:
        lock.acquire()
    except OSError as error:
        raise InputError(
            f"Cannot write to {folder}: {error.strerror}. Choose a writable folder."
        ) from error
    try:
        for path in folder.iterdir():  # their writer has ended, or it would hold the lock
            if _is_left_over(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield
    finally:
        lock.release()


def _check_new(folder: Path) -> None:
    if folder.is_file():
        raise InputError(f"{folder} is a file. Choose a new or empty folder.")
    for path in folder.iterdir() if folder.exists() else ():
        if path.name not in COLLECTION_FILES and not _is_left_over(path):
            raise InputError(
                f"{folder} contains other files, such as {path.name}. Choose a new or empty folder."
            )


def _is_left_over(path: Path) -> bool:
    aside = backup_path(path.with_name(MODEL_FOLDER))
    return path == aside or any(is_temporary(path, name) for name in WRITTEN_ASIDE)
