"""All that an index holds, line by line: for files, and for a checksum that engines share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from corrhash.index.base import CodeIndex
from corrhash.index.item import FIELDS, SHOWN
from corrhash.progress import report


def checksum(index: CodeIndex) -> str:
    """64 hexadecimal digits over all ids, codes and items, the same in every engine."""
    digest = hashlib.sha256()
    for line in as_lines(index, FIELDS):
        digest.update(json.dumps(line, sort_keys=True, default=bytes.hex).encode())
    return digest.hexdigest()


def as_lines(index: CodeIndex, fields: tuple[str, ...] = SHOWN) -> Iterator[dict[str, Any]]:
    """Each item in ascending order of id: its id, its codes in hexadecimal digits, its fields."""
    total, done = len(index), 0
    for entries in index.batches():
        lines: list[dict[str, Any]] = [{"id": number} for number in entries.ids.tolist()]
        for side, codes in sorted(entries.codes.items()):
            for row, code in zip(entries.rows[side].tolist(), codes.packed, strict=True):
                lines[row][f"{side}_code"] = code.tobytes().hex()
        for row, line in enumerate(lines):
            item = entries.item(row)
            yield {**line, **{name: getattr(item, name) for name in fields}}
        done += len(entries)
        report("Reading items", done, max(total, done))
