"""Rows of CSV, TSV, JSON Lines and Parquet files, read as a stream."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

from corrhash._files import open_regular
from corrhash.errors import InputError, optional_packages

JSON_LINES = (".jsonl", ".ndjson")
PARQUET = ".parquet"
SUFFIXES = (".csv", ".tsv", *JSON_LINES, PARQUET)

BATCH = 512
"""Rows of a Parquet file in memory at a time."""

Cells = dict[str, Any] | InputError
"""The cells of a row by column; an error if the row cannot be parsed."""


def read_rows(path: Path, key_columns: list[str] | None = None) -> Iterator[tuple[str, Cells]]:
    """Yield the location and the cells of each row.

    With ``key_columns``, a Parquet file is read for these columns only, if they can be keys.
    """
    suffix = path.suffix.lower()
    if suffix == PARQUET:
        return _parquet_rows(path, key_columns)
    return _json_rows(path) if suffix in JSON_LINES else _csv_rows(path)


def _json_rows(path: Path) -> Iterator[tuple[str, Cells]]:
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            yield f"line {number}", _parsed(line)


def _parsed(line: str) -> Cells:
    try:
        cells = json.loads(line)
    except (ValueError, RecursionError) as error:
        return InputError(f"Invalid JSON: {error}.")
    if not isinstance(cells, dict):
        return InputError(f'Expected a JSON object such as {{"image": "a.jpg"}}, got {cells!r}.')
    return cells


def _csv_rows(path: Path) -> Iterator[tuple[str, Cells]]:
    lines = _lines(path)
    heading = next(lines, "")
    delimiter = max("\t;,", key=heading.count)
    reader = csv.DictReader(chain([heading], lines), delimiter=delimiter, restkey="", strict=True)
    try:
        reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
        for cells in reader:
            where = f"line {reader.line_num}"
            if cells.pop("", None):
                yield (
                    where,
                    InputError(
                        "This row has more cells than the header. Put cells that contain "
                        f"{delimiter!r} in quotes."
                    ),
                )
            else:
                yield where, cells
    except csv.Error as error:
        line = max(1, reader.line_num)
        raise InputError(f"Cannot read line {line} of {path}: {error}.") from error


def _parquet_rows(path: Path, key_columns: list[str] | None) -> Iterator[tuple[str, Cells]]:
    with optional_packages(f"Reading {path}"):
        import pyarrow
        import pyarrow.parquet

    try:
        with open_regular(path) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            schema, names = file.schema_arrow, None
            if key_columns is not None:  # not images in bytes, which are large
                known = [name for name in key_columns if name in schema.names]
                names = [name for name in known if _can_be_key(schema.field(name).type)]
            number = 0
            for batch in file.iter_batches(BATCH, columns=names):
                cells = batch.to_pylist() or [{} for _ in range(batch.num_rows)]
                for row in cells:
                    number += 1
                    yield f"row {number}", row
    except InputError:
        raise
    except (OSError, ValueError, pyarrow.ArrowException, MemoryError, OverflowError) as error:
        reason = str(error).strip().partition("\n")[0][:300]
        raise InputError(
            f"Cannot read {path} as Parquet: {reason}. The file may be damaged: download or export "
            "it again."
        ) from error


def _can_be_key(kind: Any) -> bool:
    import pyarrow.types as types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind))


def _lines(path: Path) -> Iterator[str]:
    try:
        with open_regular(path) as file, TextIOWrapper(file, encoding="utf-8-sig") as lines:
            yield from lines
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error}). Save it as UTF-8.") from error
