"""A Milvus collection: its URI and options, filters as expressions, and entries as rows.

A row holds one code. The image code of item ``i`` is row ``2 * i``, its text code row
``2 * i + 1``. An item without one of them has an empty row in its place, so that one request
replaces everything that was stored under an id. The first row with a code holds the thumbnail.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.errors import InputError
from corrhash.index.filters import TEXT_FIELDS, And, Compare, Filter, HasLabel, Not, Or
from corrhash.index.items import MODALITIES, Entries, Item, by_modality
from corrhash.index.ranking import NO_ROW, Ranking

URI = re.compile(r"milvus://([^/:]+:\d+)/([A-Za-z_][A-Za-z0-9_]*)(?:\?(.+))?")

DEFAULTS = {"shards": 1, "index": "BIN_FLAT", "nlist": 1024}
"""Options of a new collection; ``nprobe`` applies to searches, and the server has a default."""

INDEX_TYPES = ("BIN_FLAT", "BIN_IVF_FLAT")
"""All codes are compared, or those in the ``nprobe`` nearest of ``nlist`` lists."""

MAX_TEXT_BYTES = 65_535
"""Longest string that Milvus stores."""

NO_CODE = len(MODALITIES)
"""The modality of an empty row."""

STRINGS = ("key", "text", "path", "stamp", "content", "thumbnail", "continuous_code")
"""Columns of strings; bytes are stored in base64."""

EMPTY_ROW: dict[str, Any] = {
    **{"modality": NO_CODE, "first": 0, "fields": {}},
    **dict.fromkeys(STRINGS, ""),
}

COLUMNS = {
    **{name: name for name in ("key", "text", "path", "stamp", "content", "thumbnail")},
    **{"labels": "fields", "metadata": "fields"},
    **{"image_continuous": "continuous_code", "text_continuous": "continuous_code"},
}
"""The column that holds each field of an item."""


def parse_uri(uri: str) -> tuple[str, str, dict[str, Any]]:
    """Return the URL of the server, the name of the collection, and the options that are given.

    >>> parse_uri("milvus://localhost:19530/photos?shards=4&nprobe=32")
    ('http://localhost:19530', 'photos', {'shards': 4, 'nprobe': 32})
    """
    found = URI.fullmatch(uri)
    options: dict[str, Any] = dict(parse_qsl(found[3], True)) if found and found[3] else {}
    for name, value in options.items():
        if name in ("shards", "nlist", "nprobe") and value.isdecimal() and int(value):
            options[name] = int(value)
        elif (name, value) not in [("index", kind) for kind in INDEX_TYPES]:
            found = None
    if found is None or bool(found[3]) != bool(options):
        raise InputError(
            f"Invalid Milvus URI {uri!r}. Use milvus://host:port/name with letters, digits and "
            "underscores in the name. These options can follow: "
            f"?shards=4&index={INDEX_TYPES[1]}&nlist=1024&nprobe=32."
        )
    return f"http://{found[1]}", found[2], options


def hashed_id(key: str, attempt: int = 0) -> int:
    """Return the id of a new key; a random one for an empty key, which names no item."""
    if not key:
        return secrets.randbits(62)
    salt = attempt.to_bytes(8, "big")
    digest = hashlib.blake2b(key.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "big") >> 2


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


def rows_in(ids: Iterable[int], condition: str = f"modality < {NO_CODE}") -> str:
    """Return the expression that selects rows of ids: by default, those that have a code."""
    return f"pk in {numbers_of(ids)} and {condition}"


def numbers_of(ids: Iterable[int]) -> list[int]:
    """Return the numbers of the two rows of each id."""
    return [pk for number in ids for pk in (2 * number, 2 * number + 1)]


def portions(values: list[Any], size: int) -> Iterator[list[Any]]:
    """Split a list into parts of at most ``size`` values."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def as_rows(entries: Entries) -> list[dict[str, Any]]:
    """Return entries as rows, two of each."""
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
    coded = {row["pk"] for row in rows}
    empty = [pk for pk in numbers_of(entries.ids.tolist()) if pk not in coded]
    return rows + [{**EMPTY_ROW, "pk": pk, "code": bytes(len(rows[0]["code"]))} for pk in empty]


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


def read_entries(rows: list[dict[str, Any]], n_bits: int, fields: Sequence[str]) -> Entries:
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
    return Entries(ids, codes, places, [read_item(group, fields) for group in grouped])


def read_code(row: dict[str, Any]) -> NDArray[np.uint8]:
    """Return the packed code of a row."""
    (code,) = row["code"]
    return np.frombuffer(code, dtype=np.uint8)


def as_codes(packed: list[NDArray[np.uint8]], n_bits: int) -> Codes:
    """Return packed codes as Codes."""
    stacked = np.stack(packed) if packed else np.empty((0, -(-n_bits // 8)), np.uint8)
    return Codes(stacked, n_bits)


def _as_text(content: bytes | None) -> str:
    text = "" if content is None else base64.b64encode(content).decode()
    if len(text) > MAX_TEXT_BYTES:
        raise InputError(
            f"Milvus stores at most {MAX_TEXT_BYTES * 3 // 4:,} bytes per image or code, got "
            f"{len(content or b''):,}. Use previews of at most 640 pixels."
        )
    return text


def _as_bytes(text: str) -> bytes | None:
    return base64.b64decode(text) if text else None


def check_options(uri: str, options: dict[str, Any], stored: dict[str, Any]) -> None:
    """Refuse options that differ from those that a collection was created with."""
    for option, value in options.items():
        if option != "nprobe" and str(stored[option]) != str(value):
            raise InputError(
                f"{uri} was created with {option}={stored[option]}, got {value}. Omit the option, "
                "or copy the collection to a new URI."
            )


def as_ranking(results: list[NDArray[np.int64]]) -> Ranking:
    """Return the ranking of (2, n) ids and distances of each query."""
    longest = max((result.shape[1] for result in results), default=0)
    both = np.full((2, len(results), longest), NO_ROW, dtype=np.int64)
    for query, result in enumerate(results):
        both[:, query, : result.shape[1]] = result
    return Ranking(both[0], both[1].astype(np.int32))
