"""Lists: a .jsonl file, each line of which is an item, as people or exports write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corrhash.datasets.feature_file import read_feature_file
from corrhash.errors import InputError
from corrhash.index.item import SIDES
from corrhash.records import Record, Unusable
from corrhash.sources.base import Records, Share, Source, record_of

SUFFIX = ".jsonl"
CODES = tuple(f"{side}_code" for side in SIDES)
"""By these a line of an export is known: nobody else writes codes."""


def open_list(path: Path, features: Path | None, share: Share) -> Source:
    """The lines of a list, with a row of features for each where a file of them is given."""
    try:
        with path.open(encoding="utf-8") as file:
            total = sum(1 for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {path}: {error}. Check the path.") from error
    rows = None if features is None else read_feature_file(features, total)
    return Source(share.of(_lines(path, rows)), share.size(total))


def _lines(path: Path, features: Any) -> Records:
    row = 0
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            vector = None if features is None else features[row]
            row += 1
            try:
                yield _record(_fields(line), path.parent, vector)
            except InputError as error:
                yield Unusable(f"line {number} of {path.name}", str(error))


def _fields(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"It cannot be read as JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise InputError(f'It is no object of JSON, as {{"image": "a.jpg"}}. Got {fields!r}.')
    if any(code in fields for code in CODES):  # another model makes codes and ids of its own
        return {name: value for name, value in fields.items() if name not in ("id", *CODES)}
    return fields


def _record(content: dict[str, Any], folder: Path, vector: Any) -> Record:
    name, path = (_place(content, field) for field in ("image", "path"))
    picture = folder / name if name else Path(path) if path else None
    if vector is None:
        return record_of(content, name or path, picture)
    return record_of(content, name or path, vector, picture)


def _place(content: dict[str, Any], field: str) -> str:
    """Where a picture is, taken from the fields of a line; nothing if they do not tell."""
    place = content.pop(field, None) or ""
    if not isinstance(place, str):
        raise InputError(f"{field} is the path of a picture. Got {place!r}.")
    return place
