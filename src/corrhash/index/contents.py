"""The checksum of all that an index holds, the same in every engine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from corrhash.index.base import CodeIndex


def checksum(index: CodeIndex) -> str:
    """64 hexadecimal digits over all ids, codes and items, the same in every engine."""
    digest = hashlib.sha256()
    for entries in index.batches():
        coded: list[dict[str, str]] = [{} for _ in range(len(entries))]
        for side, codes in entries.codes.items():
            for row, code in zip(entries.rows[side].tolist(), codes.packed, strict=True):
                coded[row][side] = code.tobytes().hex()
        for row, number in enumerate(entries.ids.tolist()):
            known = asdict(entries.item(row))
            line = [number, sorted(coded[row].items()), sorted(known.items())]
            digest.update(json.dumps(line, sort_keys=True, default=bytes.hex).encode())
    return digest.hexdigest()
