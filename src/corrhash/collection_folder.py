"""The folder of a new collection: empty, or what an interrupted creation left in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from corrhash.atomic_write import is_temporary, make_folder, stepped_aside
from corrhash.errors import InputError

MODEL_FOLDER = "model"
"""A folder of its own within that of the collection: the model whose codes it holds."""

CREATING_LOCK = ".creating.lock"
WRITTEN_ASIDE = (MODEL_FOLDER, "collection.json")
"""What a creation writes under another name first."""

OURS = {*WRITTEN_ASIDE, "items.lance", ".writing.lock", CREATING_LOCK}


@contextmanager
def creating_in(folder: Path) -> Iterator[None]:
    """While it lasts no other process creates a collection in this folder."""
    _check_new(folder)
    lock = FileLock(make_folder(folder) / CREATING_LOCK)
    try:
        lock.acquire()
    except OSError as error:
        raise InputError(
            f"Cannot write into {folder}: {error.strerror}. Choose a folder that is writable."
        ) from error
    try:
        for path in folder.iterdir():  # whoever wrote these is gone, or would have the lock
            if _is_left_over(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield
    finally:
        lock.release()


def _check_new(folder: Path) -> None:
    if folder.is_file():
        raise InputError(f"{folder} is a file. Choose a new or empty folder.")
    for path in folder.iterdir() if folder.exists() else ():
        if path.name not in OURS and not _is_left_over(path):
            raise InputError(
                f"{folder} holds other files, such as {path.name}. Choose a new or empty folder."
            )


def _is_left_over(path: Path) -> bool:
    aside = stepped_aside(path.with_name(MODEL_FOLDER))
    return path == aside or any(is_temporary(path, name) for name in WRITTEN_ASIDE)
