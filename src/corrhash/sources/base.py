"""Source and Share: records in a fixed order, and those that one of several processes reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from corrhash.datasets import folder as pictures
from corrhash.errors import InputError
from corrhash.records import Record, Unusable

T = TypeVar("T")
Records = Iterator[Record | Unusable]


@dataclass(frozen=True)
class Source:
    """Records in a fixed order, and how many there are; None if only reading them would tell."""

    records: Records
    total: int | None


@dataclass(frozen=True)
class Share:
    """Which of how many shares a process reads; all there is by default.

    >>> list(Share(1, 3).of("abcdefgh")), Share(1, 3).size(8)
    (['b', 'e', 'h'], 3)
    """

    number: int = 0
    n: int = 1

    @classmethod
    def parse(cls, text: str) -> Share:
        """``0/4`` is the first of four."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        number, n = map(int, found.groups()) if found else (0, 0)
        if not number < n:
            raise InputError(
                f"A share is written as 0/4, the first of four; the last is 3/4. Got {text!r}."
            )
        return cls(number, n)

    @classmethod
    def of_environment(cls) -> Share:
        """That of one of the processes which torchrun started; else everything."""
        number, n = (os.environ.get(name) for name in ("RANK", "WORLD_SIZE"))
        return cls() if number is None or n is None else cls.parse(f"{number}/{n}")

    def of(self, things: Iterable[T]) -> Iterator[T]:
        """Those that fall to this share when all are dealt out in turn."""
        return islice(things, self.number, None, self.n)

    def size(self, total: int) -> int:
        """How many of ``total`` things fall to this share."""
        return len(range(self.number, total, self.n))


EVERYTHING = Share()


def files_at(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The file itself, or those in a folder, by the ends of their names.

    A folder that holds pictures beside them is one of pictures.
    """
    if not path.is_dir():
        return [path] if path.name.lower().endswith(suffixes) else []
    files = sorted(file for file in path.iterdir() if file.is_file())
    if any(file.suffix.lower() in pictures.SUFFIXES for file in files):
        return []
    return [file for file in files if file.name.lower().endswith(suffixes)]


def record_of(
    fields: Mapping[str, Any], key: str, image: Any = None, picture: Any = None
) -> Record:
    """A record from named fields; those with names that mean nothing here become metadata.

    A field ``metadata`` that holds more fields is taken as it is.
    """
    content = dict(fields)
    given = content.pop("metadata") if isinstance(content.get("metadata"), Mapping) else {}
    known = {name: content.pop(name) for name in ("text", "labels") if content.get(name)}
    key = str(content.pop("key", "") or key)
    metadata = {name: value for name, value in content.items() if value not in (None, "", [])}
    return Record(key, image, **known, metadata={**metadata, **given}, picture=picture)
