"""Files of judgments: the table that ``--supervision`` reads, JSON Lines, and click logs.

A click log lists what was shown for a query, best first, and what was clicked. A clicked item fits.
An item that was shown above the last click and not clicked was seen and does not fit. What follows
the last click may not have been seen, so nothing is known about it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from corrhash._files import atomic_write, check_suffix, read_text
from corrhash.collection.judging import Judgment, at_time
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex

TABLES = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*TABLES, ".jsonl")
HEADING = ("image", "text", "similar")
CLICKS = {"query", "item", "clicked"}
"""Columns of a click log; ``time`` and ``session`` are optional."""

VALUES = {"1": 1, "+1": 1, "-1": -1}
FORMATS = (
    "Each line must have an image key, a text or its key, and 1 or -1. A click log must start with "
    "a line of column names, including query, item and clicked."
)


def write_judgments(path: Path, judgments: Sequence[Judgment], index: CodeIndex) -> int:
    """Write judgments to a file, and return how many of them it can hold.

    A .jsonl file holds all of them. A table holds keys of images and texts, as ``--supervision``
    reads them: queries by key, and queries by a text that is the text of an item.
    """
    check_suffix(path, SUFFIXES, "a file of judgments")
    if path.suffix.lower() == ".jsonl":
        lines = [json.dumps(one.record(), ensure_ascii=False) + "\n" for one in judgments]
    else:
        lines = _table(judgments, index, TABLES[path.suffix.lower()])
    with atomic_write(path) as file:
        file.writelines(line.encode() for line in lines)
    return len(lines) - (path.suffix.lower() != ".jsonl")


def _table(judgments: Sequence[Judgment], index: CodeIndex, separator: str) -> list[str]:
    """Return the lines of a table, the heading first."""
    wanted, key_of = {one.query for one in judgments if one.kind == "text"}, dict[str, str]()
    for entries in index.batches(fields=["key", "text"]) if wanted else ():
        for item in entries.items:
            if item.text in wanted:
                key_of.setdefault(item.text, item.key)
    found: dict[tuple[str, str], int] = {}
    for one in judgments:
        query = key_of.get(one.query) if one.kind == "text" else one.query
        if query is not None and one.kind != "image":
            pair = (one.item, query) if one.find == "image" else (query, one.item)
            found[pair] = one.verdict
    rows = [HEADING, *((*pair, verdict) for pair, verdict in found.items())]
    return [_line(row, separator) for row in rows]


def _line(row: Iterable[Any], separator: str) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator="\n").writerow(row)
    return file.getvalue()


@dataclass
class ReadJudgments:
    """Judgments of a file, and how many of its lines name items that do not exist."""

    judgments: list[Judgment] = field(default_factory=list)
    n_unknown: int = 0


def read_judgment_file(path: Path, index: CodeIndex) -> ReadJudgments:
    """Read a table of judgments, a click log or a .jsonl file.

    The second column of a table is the key of an item or a query text. If the item has a text, that
    text is the query. Judgments about items that do not exist are counted and skipped.
    """
    check_suffix(path, SUFFIXES, "a file of judgments")
    lines = read_text(path).split("\n")
    if path.suffix.lower() == ".jsonl":
        found = list(_of_json_lines(path, lines))
    else:
        rows = csv.reader(lines, delimiter=TABLES[path.suffix.lower()])
        try:
            cells = [(rows.line_num, [cell.strip() for cell in row]) for row in rows if row]
        except csv.Error as error:
            raise InputError(f"Cannot read line {rows.line_num} of {path}: {error}.") from error
        if not cells:
            raise InputError(f"{path} contains no judgments. {FORMATS}")
        heading = [name.lower() for name in cells[0][1]]
        is_log = {*heading} >= CLICKS
        found = list(_of_clicks(path, heading, cells[1:]) if is_log else _of_table(path, cells))
        found = found if is_log else _resolved(found, index)
    return _known(found, index)


def _of_table(path: Path, cells: Sequence[tuple[int, list[str]]]) -> Iterator[Judgment]:
    for at, (number, row) in enumerate(cells):
        if len(row) == 3 and row[2] in VALUES:
            yield Judgment("text", row[1], row[0], VALUES[row[2]])
        elif at or len(row) != 3:  # else the heading
            raise InputError(f"Line {number} of {path} is not a judgment: {row!r}. {FORMATS}")


def _resolved(judgments: Sequence[Judgment], index: CodeIndex) -> list[Judgment]:
    """Replace queries that are keys of items by the texts of these items, if they have one."""
    ids = index.ids_of(list({one.query for one in judgments}))
    items = index.get(list(ids.values()), ["text"])
    texts = {key: item.text for key, item in zip(ids, items, strict=True) if item is not None}
    return [
        replace(one, kind="key")
        if texts.get(one.query) == ""
        else replace(one, query=texts.get(one.query, one.query))
        for one in judgments
    ]


def _of_clicks(
    path: Path, heading: Sequence[str], cells: Sequence[tuple[int, list[str]]]
) -> Iterator[Judgment]:
    rows = []
    for number, row in cells:
        values = dict(zip(heading, row, strict=False))
        if len(row) != len(heading) or values["clicked"] not in ("0", "1"):
            raise InputError(
                f"Line {number} of {path} must have {len(heading)} fields, with 0 or 1 in the "
                f"column clicked, got {row!r}."
            )
        rows.append(values)
    for _, shown in groupby(rows, key=lambda row: (row["query"], row.get("session"))):
        page = list(shown)
        clicked = {row["item"] for row in page if row["clicked"] == "1"}
        times = {row["item"]: row.get("time", "") for row in page}
        for one in _of_impression(page[0]["query"], list(times), clicked):
            yield at_time(one, times[one.item]) if times[one.item] else one


def _of_impression(
    query: str, shown: Sequence[str], clicked: Iterable[str], time: str = ""
) -> Iterator[Judgment]:
    """Yield what the clicks on the results of one query reveal."""
    fitting = set(clicked)
    last = max((rank for rank, item in enumerate(shown) if item in fitting), default=-1)
    for item in shown[: last + 1]:
        one = Judgment("text", query, item, 1 if item in fitting else -1)
        yield at_time(one, time) if time else one


def _of_json_lines(path: Path, lines: Iterable[str]) -> Iterator[Judgment]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
            yield from _of_object(values)
        except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
            raise InputError(
                f"Line {number} of {path} is neither a judgment (fields kind, query, item and "
                f"verdict) nor an impression (fields query, shown and clicked): {error}"
            ) from error


def _of_object(values: Mapping[str, Any]) -> Iterator[Judgment]:
    if "shown" in values:
        shown, clicked = (_keys(values, name) for name in ("shown", "clicked"))
        if unseen := sorted({*clicked} - {*shown}):
            raise InputError(f"{unseen[0]!r} was clicked but not shown.")
        yield from _of_impression(values["query"], shown, clicked, str(values.get("time", "")))
    else:
        one = Judgment(**values)
        one = at_time(one, one.time)
        if one.vector is not None and not len(one.vector):
            raise InputError("The features are empty.")
        yield one


def _keys(values: Mapping[str, Any], name: str) -> list[str]:
    if not isinstance(values[name], list):
        raise InputError(f"{name} must be a list of keys, got {values[name]!r}.")
    return [str(key) for key in values[name]]


def _known(judgments: Sequence[Judgment], index: CodeIndex) -> ReadJudgments:
    names = {one.item for one in judgments} | {one.query for one in judgments if one.kind == "key"}
    ids = index.ids_of(sorted(names))
    kept = [one for one in judgments if one.item in ids and (one.kind != "key" or one.query in ids)]
    return ReadJudgments(kept, len(judgments) - len(kept))
