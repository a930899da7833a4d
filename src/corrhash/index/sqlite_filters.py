"""Filters over an SQLite database: one indexed query per comparison, combined as masks of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corrhash.index.code_table import rows_of
from corrhash.index.filters import TEXT_FIELDS, And, Compare, Filter, HasLabel, Not, Or, kind_of
from corrhash.index.sqlite_checksums import ITEMS, KEYS, MODULUS, Total, check_total
from corrhash.index.sqlite_damage import verify_source
from corrhash.index.sqlite_rows import parse_ids
from corrhash.index.time_limit import check_time, seconds_left

if TYPE_CHECKING:
    import sqlite3

PROGRESS_STEPS = 10_000
"""Steps of SQLite's virtual machine between two looks at the time limit, about a millisecond."""

CONJUNCTION = 100
"""Comparisons of one statement; SQLite refuses expressions deeper than 1,000."""


def passing(
    connection: sqlite3.Connection,
    where: Filter,
    ids: NDArray[np.int64],
    verified: set[str],
) -> NDArray[np.bool_]:
    """Return a mask of all ``ids``, which ascend, that pass a filter.

    Each comparison reads an index of the database once; masks are combined in memory. The first
    comparison of a field verifies its total, and notes the source in ``verified``.
    """
    if seconds_left() is None:
        return _passing(connection, where, ids, verified)
    # SQLite calls the handler while it works, and stops with an error if the answer is True.
    connection.set_progress_handler(lambda: (seconds_left() or 0) <= 0, PROGRESS_STEPS)
    try:
        return _passing(connection, where, ids, verified)
    finally:
        connection.set_progress_handler(None, 0)


def _passing(
    connection: sqlite3.Connection, where: Filter, ids: NDArray[np.int64], verified: set[str]
) -> NDArray[np.bool_]:
    check_time()
    match where:
        case Not(part):
            return ~_passing(connection, part, ids, verified)
        case And(parts):
            mask = np.ones(len(ids), dtype=bool)
            ranges: dict[tuple[str, str | None], list[Compare]] = {}
            for part in parts:
                if isinstance(part, Compare):  # all comparisons of a field are one range
                    ranges.setdefault((part.field, kind_of(part.value)), []).append(part)
                else:
                    mask &= _passing(connection, part, ids, verified)
            for comparisons in ranges.values():
                for start in range(0, len(comparisons), CONJUNCTION):
                    some = comparisons[start : start + CONJUNCTION]
                    mask &= _mask(ids, _select(connection, verified, *some))
            return mask
        case Or(parts):
            mask = np.zeros(len(ids), dtype=bool)
            for part in parts:
                if isinstance(part, (Compare, HasLabel)):
                    mask[rows_of(ids, _select(connection, verified, part))[0]] = True
                else:
                    mask |= _passing(connection, part, ids, verified)
            return mask
        case _:
            return _mask(ids, _select(connection, verified, where))


def _mask(ids: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = np.zeros(len(ids), dtype=bool)
    mask[rows_of(ids, some)[0]] = True
    return mask


def _select(
    connection: sqlite3.Connection, verified: set[str], *leaves: Compare | HasLabel
) -> NDArray[np.int64]:
    """Return the ids that meet comparisons of one field, after verifying what they depend on."""
    first = leaves[0]
    if isinstance(first, Compare):
        kind, source = kind_of(first.value), f"field:{first.field}:{kind_of(first.value)}"
        if first.field in TEXT_FIELDS and kind == "string":
            source = KEYS if "key <> ''" in as_sql(*leaves)[0] else ITEMS
        verify_source(connection, source, verified)
    found = select_ids(connection, *as_sql(*leaves))
    if isinstance(first, HasLabel):
        total = Total(len(found), int(found.sum()) % MODULUS)
        check_total(connection, f"label:{first.label}", total)
    return found


def select_ids(
    connection: sqlite3.Connection, source: str, parameters: list[Any]
) -> NDArray[np.int64]:
    """Return the ids of a table with an optional WHERE, in the order of the index that is read."""
    (text,) = connection.execute(f"SELECT group_concat(id) FROM {source}", parameters).fetchone()
    return parse_ids(text)


def as_sql(*leaves: Compare | HasLabel) -> tuple[str, list[Any]]:
    """Translate a label, or comparisons of one field with one kind of value, to a table and WHERE.

    >>> as_sql(HasLabel("dog"))
    ('labels WHERE label = ?', ['dog'])
    >>> as_sql(Compare("key", ">=", "a"), Compare("key", "<", "b"))
    ("items WHERE key >= ? AND key < ? AND key <> ''", ['a', 'b'])
    """
    first = leaves[0]
    if isinstance(first, HasLabel):
        return "labels WHERE label = ?", [first.label]
    comparisons = [leaf for leaf in leaves if isinstance(leaf, Compare)]
    values, kind = [leaf.value for leaf in comparisons], kind_of(first.value)
    signs = [_SQL[leaf.operator] for leaf in comparisons]
    if first.field not in TEXT_FIELDS:
        found = " AND ".join(f"value {sign} ?" for sign in signs)
        return f"fields WHERE name = ? AND kind = ? AND {found}", [first.field, kind, *values]
    if kind != "string":
        return "items WHERE FALSE", []
    found = " AND ".join(f"{first.field} {sign} ?" for sign in signs)
    # The index of keys has no empty ones. Use it for comparisons that exclude them anyway.
    excluded = any(leaf.operator in ("=", ">", ">=") and leaf.value for leaf in comparisons)
    return f"items WHERE {found}" + (
        " AND key <> ''" if first.field == "key" and excluded else ""
    ), values


_SQL = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
