"""What a Milvus collection stores: filters as expressions, and entries as rows.

A row holds one code. The image code of item ``i`` is row ``2 * i``, its text code row
``2 * i + 1``. The first row of an item holds its thumbnail.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.errors import InputError
from corrhash.index.filters import TEXT_FIELDS, And, Compare, Filter, HasLabel, Not, Or
from corrhash.index.items import FIELDS, MODALITIES, Entries, Item, by_modality

MAX_TEXT_BYTES = 65_535
"""Longest string that Milvus stores."""

STRINGS = ("key", "text", "path", "stamp", "content", "thumbnail", "continuous_code")
"""Columns of strings; bytes are stored in base64."""

COLUMNS = {
    **{name: name for name in ("key", "text", "path", "stamp", "content", "thumbnail")},
    **{"labels": "fields", "metadata": "fields"},
    **{"image_continuous": "continuous_code", "text_continuous": "continuous_code"},
}
"""The column that holds each field of an item."""


def as_expression(where: Filter) -> str:
    """Translate a filter to an expression of Milvus.

    >>> as_expression(HasLabel('a "dog"'))
    'json_contains(fields["labels"], "a \\\\"dog\\\\"")'
    """
    match where:
        case Compare(field, "!=", value) if not isinstance(value, bool):
            # The != of Milvus is also true where the field is missing or of another kind.
            less, more = Compare(field, "<", value), Compare(field, ">", value)
            return f"({as_expression(less)} or {as_expression(more)})"
        case Compare(field, operator, value):
            if isinstance(value, bool):
                value, operator = value == (operator == "="), "="
            sign = "==" if operator == "=" else operator
            if field in TEXT_FIELDS:
                # Milvus has no constant for false, but no row has a negative number.
                return f"({field} {sign} {quoted(value)})" if isinstance(value, str) else "pk < 0"
            literal = quoted(value) if isinstance(value, str) else json.dumps(value)
            return f'(fields["metadata"]["{field}"] {sign} {literal})'
        case HasLabel(label):
            return f'json_contains(fields["labels"], {quoted(label)})'
        case Not(part):
            return f"(not ({as_expression(part)}))"
        case And(parts):
            return f"({' and '.join(map(as_expression, parts))})" if parts else "pk >= 0"
        case Or(parts):
            return f"({' or '.join(map(as_expression, parts))})" if parts else "pk < 0"


def quoted(text: str) -> str:
    """Return a string literal."""
    return json.dumps(text, ensure_ascii=False)


def rows_in(ids: Iterable[int]) -> str:
    """Return the expression that selects all rows of ids."""
    return f"pk in {[pk for number in ids for pk in (2 * number, 2 * number + 1)]}"


def portions(values: list[Any], size: int) -> Iterator[list[Any]]:
    """Split a list into parts of at most ``size`` values."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def as_rows(entries: Entries) -> list[dict[str, Any]]:
    """Return entries as rows."""
    rows, begun = [], set()
    for modality, places, codes in by_modality(entries):
        for place, code in zip(places.tolist(), codes.packed, strict=True):
            item, first = entries.item(place), place not in begun
            begun.add(place)
            continuous = item.image_continuous if modality == "image" else item.text_continuous
            row = {
                "pk": 2 * int(entries.ids[place]) + MODALITIES.index(modality),
                "code": code.tobytes(),
                "modality": MODALITIES.index(modality),
                "first": int(first),
                **{name: _checked(getattr(item, name), name) for name in ("key", "text", "path")},
                "stamp": item.stamp,
                "content": item.content,
                "fields": {"labels": list(item.labels), "metadata": dict(item.metadata)},
                "thumbnail": _as_text(item.thumbnail if first else None),
                "continuous_code": _as_text(continuous),
            }
            rows.append(row)
    return rows


def _checked(text: str, name: str) -> str:
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise InputError(
            f"Milvus stores strings of at most {MAX_TEXT_BYTES:,} bytes, got {name} = "
            f"{text[:20]!r}... with {len(text.encode()):,} bytes. Shorten it."
        )
    return text


def read_item(rows: list[dict[str, Any]], names: Sequence[str]) -> Item:
    """Return an item from its rows, in order of their numbers."""
    first, values = rows[0], {}
    for name in names:
        if name in ("labels", "metadata"):
            values[name] = first["fields"][name]
        elif name.endswith("_continuous"):
            modality = MODALITIES.index(name.removesuffix("_continuous"))
            of_modality = [row for row in rows if int(row["pk"]) % 2 == modality]
            values[name] = _as_bytes(of_modality[0]["continuous_code"]) if of_modality else None
        else:
            value = first[COLUMNS[name]]
            values[name] = _as_bytes(value) if name == "thumbnail" else value
    return Item(**values)


def read_entries(rows: list[dict[str, Any]], n_bits: int) -> Entries:
    """Return entries from their rows, in order of their numbers."""
    grouped = [list(group) for _, group in groupby(rows, key=lambda row: int(row["pk"]) // 2)]
    ids = np.array([int(group[0]["pk"]) // 2 for group in grouped], dtype=np.int64)
    codes, places = {}, {}
    for number, modality in enumerate(MODALITIES):
        of_modality = [
            (place, row)
            for place, group in enumerate(grouped)
            for row in group
            if int(row["pk"]) % 2 == number
        ]
        places[modality] = np.array([place for place, _ in of_modality], dtype=np.int64)
        codes[modality] = as_codes([read_code(row) for _, row in of_modality], n_bits)
    return Entries(ids, codes, places, [read_item(group, FIELDS) for group in grouped])


def read_code(row: dict[str, Any]) -> NDArray[np.uint8]:
    """Return the packed code of a row."""
    (code,) = row["code"]
    return np.frombuffer(code, dtype=np.uint8)


def as_codes(packed: list[NDArray[np.uint8]], n_bits: int) -> Codes:
    """Return packed codes as Codes."""
    stacked = np.stack(packed) if packed else np.empty((0, -(-n_bits // 8)), np.uint8)
    return Codes(stacked, n_bits)


def _as_text(content: bytes | None) -> str:
    return "" if content is None else base64.b64encode(content).decode()


def _as_bytes(text: str) -> bytes | None:
    return base64.b64decode(text) if text else None
