"""Lists: a .jsonl file, each line of which is an item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corrhash.datasets.feature_file import read_feature_file
from corrhash.errors import InputError
from corrhash.records import Record
from corrhash.sources.base import Records, Share, Source, record_of

SUFFIX = ".jsonl"


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
            try:
                content = dict(json.loads(line))
            except (ValueError, TypeError) as error:
                raise InputError(
                    f'Line {number} of {path} is no object of JSON, as {{"image": "a.jpg"}}: '
                    f"{error}."
                ) from error
            yield _record(content, path.parent, None if features is None else features[row])
            row += 1


def _record(content: dict[str, Any], folder: Path, vector: Any) -> Record:
    name = content.pop("image", None)
    picture, key = (None, "") if name is None else (folder / name, str(name))
    if vector is None:
        return record_of(content, key, picture)
    return record_of(content, key, vector, picture)
