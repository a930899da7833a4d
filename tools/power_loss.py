"""Simulate power losses: rebuild a folder as a disk may hold it after the power fails.

A process runs with ``power_loss.c`` preloaded, which records its writes and its calls of fsync. At
any moment, a disk certainly holds what was written before the last fsync of a file, and any of the
later sectors, in any order. A new or deleted name is certain after an fsync of the folder.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("power_loss.c")
SECTOR = 512
HEADER = struct.Struct("=4q")


class Call(NamedTuple):
    """A recorded call: create, unlink, write, truncate or sync, by its first letter."""

    operation: str
    path: Path
    offset: int
    data: bytes


def compile_recorder(folder: Path) -> Path:
    """Compile the library to preload."""
    library = folder / "power_loss.so"
    words = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(words, check=True)
    return library


def why_not() -> str | None:
    """Return why power losses cannot be simulated here; None if they can."""
    return None if os.uname().sysname == "Linux" and shutil.which("gcc") else "needs gcc and Linux"


def recording(library: Path, folder: Path, journal: Path) -> dict[str, str]:
    """Return the environment of a process whose writes to a folder are recorded."""
    names = {"POWER_LOSS_FOLDER": str(folder), "POWER_LOSS_JOURNAL": str(journal)}
    return {**os.environ, "LD_PRELOAD": str(library), **names}


def read_journal(path: Path) -> list[Call]:
    """Return the recorded calls, in order."""
    return list(_calls(path.read_bytes()))


def _calls(content: bytes) -> Iterator[Call]:
    at = 0
    while at < len(content):
        operation, n_path, offset, n_data = HEADER.unpack_from(content, at)
        at += HEADER.size
        path = Path(os.fsdecode(content[at : at + n_path]))
        data = content[at + n_path : at + n_path + n_data]
        at += n_path + n_data
        yield Call(chr(operation), path, offset, data)


@dataclass(eq=False)
class File:
    """What a disk holds of a file, and the writes and truncations that it may hold."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Call] = field(default_factory=list)

    def after_loss(self, rng: random.Random, kept: float) -> bytes:
        """Return a possible content: each pending sector is there with a probability."""
        content = bytearray(self.synced)
        for call in self.pending:
            if call.operation == "t":
                if rng.random() < kept:
                    _truncate(content, call.offset)
                continue
            end = call.offset + len(call.data)
            starts = [call.offset, *range((call.offset // SECTOR + 1) * SECTOR, end, SECTOR)]
            for start, stop in zip(starts, [*starts[1:], end], strict=True):
                if rng.random() < kept:
                    _write(content, start, call.data[start - call.offset : stop - call.offset])
        return bytes(content)

    def sync(self) -> None:
        """Let the disk hold everything."""
        for call in self.pending:
            if call.operation == "t":
                _truncate(self.synced, call.offset)
            else:
                _write(self.synced, call.offset, call.data)
        self.pending.clear()


def _write(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def _truncate(content: bytearray, length: int) -> None:
    content.extend(bytes(max(0, length - len(content))))
    del content[length:]


class Disk:
    """The files of a folder that a disk holds, changed by recorded calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = [path for path in folder.iterdir() if path.is_file()]
        self._files = {path: File(bytearray(path.read_bytes())) for path in files}
        self._synced_names = dict(self._files)
        self._pending_names: list[tuple[Path, File | None]] = []

    def apply(self, call: Call) -> None:
        """Change the files as a call did."""
        if call.path == self.folder:
            self._synced_names = self._names(len(self._pending_names))
            self._pending_names.clear()
        elif call.operation in "cu":
            created = File() if call.operation == "c" else None
            self._pending_names.append((call.path, created))
            if created is None:
                del self._files[call.path]
            else:
                self._files[call.path] = created
        elif call.operation == "s":
            self._files[call.path].sync()
        else:
            self._files[call.path].pending.append(call)

    def _names(self, n_pending: int) -> dict[Path, File]:
        names: dict[Path, File | None] = {**self._synced_names}
        names.update(self._pending_names[:n_pending])
        return {path: file for path, file in names.items() if file is not None}

    def lose_power(self, rng: random.Random) -> None:
        """Replace the folder's files by what the disk may hold now.

        In a third of all losses nothing but what was synced is there.
        """
        kept = rng.choice([0, 0.5, 0.9])
        names = self._names(rng.randint(0, len(self._pending_names)) if kept else 0)
        for path in self.folder.iterdir():
            if path.is_file():
                path.unlink()
        for path, file in names.items():
            path.write_bytes(file.after_loss(rng, kept))
