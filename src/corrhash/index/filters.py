"""Filters as trees of comparisons, which every engine translates to its own query language.

A comparison is false if the item lacks the field or its value is of another kind: ``year != 2015``
excludes items without a year. The size of a filter is limited, and every filter is simplified
before an engine reads it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from corrhash.errors import InputError

Value = str | float | bool
Operator = Literal["=", "!=", "<", "<=", ">", ">="]

_COMPARISONS: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

TEXT_FIELDS = ("key", "text", "path")
"""String fields that every item has; all other names are metadata."""

RESERVED = (*TEXT_FIELDS, "labels", "and", "or", "not", "in", "true", "false")
"""Names that metadata fields cannot have."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LARGEST = 2**53
"""Integers up to this one are exact in every engine."""

MAX_DEPTH = 20
"""Most nested parentheses, or levels of ``And`` and ``Or``."""

TOO_DEEP = f"A filter can nest at most {MAX_DEPTH} levels of parentheses. Simplify it."

MAX_TERMS = 2000
"""Most comparisons and labels."""


@dataclass(frozen=True)
class Compare:
    """Comparison of a field with a value."""

    field: str
    operator: Operator
    value: Value


@dataclass(frozen=True)
class HasLabel:
    """Test for a label of the item."""

    label: str


@dataclass(frozen=True)
class Not:
    """Negation of a filter."""

    part: Filter


@dataclass(frozen=True)
class And:
    """Conjunction of filters."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    """Disjunction of filters."""

    parts: tuple[Filter, ...]


Filter = Compare | HasLabel | Not | And | Or


def simplify(where: Filter) -> Filter:
    """Return an equal filter without double negation, nor ``and`` in ``and``, nor ``or`` in ``or``.

    >>> simplify(Not(Not(HasLabel("dog"))))
    HasLabel(label='dog')
    """
    simple = _simplified(where, 0)
    if (n_terms := _n_terms(simple)) > MAX_TERMS:
        raise InputError(
            f"A filter can have at most {MAX_TERMS:,} comparisons and labels, got {n_terms:,}. "
            "Split it."
        )
    return simple


def _simplified(where: Filter, depth: int) -> Filter:
    negative = False
    while isinstance(where, Not):
        where, negative = where.part, not negative
    if isinstance(where, (And, Or)):
        if depth == MAX_DEPTH:
            raise InputError(TOO_DEEP)
        kind, parts = type(where), list[Filter]()
        for part in where.parts:
            simple = _simplified(part, depth + 1)
            parts += simple.parts if isinstance(simple, kind) else [simple]
        where = parts[0] if len(parts) == 1 else kind(tuple(parts))
        if isinstance(where, Not) and negative:
            return where.part
    return Not(where) if negative else where


def _n_terms(where: Filter) -> int:
    match where:
        case Not(part):
            return _n_terms(part)
        case And(parts) | Or(parts):
            return sum(map(_n_terms, parts))
        case _:
            return 1


Test = Callable[[Mapping[str, Any]], bool]
"""Test of an item's fields, with its labels under ``labels``."""


def holds(where: Filter, fields: Mapping[str, Any]) -> bool:
    """Return whether an item's fields, with its labels under ``labels``, pass a filter.

    >>> holds(Compare("year", ">", 2000), {"year": 1999})
    False
    """
    return as_test(where)(fields)


def as_test(where: Filter) -> Test:
    """Compile a filter to a function, for many items."""
    match where:
        case Compare(field, sign, value):
            return _comparison(field, sign, value)
        case HasLabel(label):
            return lambda fields: label in fields.get("labels", ())
        case Not(part):
            test = as_test(part)
            return lambda fields: not test(fields)
        case And(parts):
            tests = [as_test(part) for part in parts]
            return lambda fields: all(test(fields) for test in tests)
        case Or(parts):
            tests = [as_test(part) for part in parts]
            return lambda fields: any(test(fields) for test in tests)


def field_names(where: Filter) -> set[str]:
    """Return the names of the fields that a filter compares.

    >>> field_names(Not(Or((Compare("year", ">", 2000), HasLabel("dog")))))
    {'year'}
    """
    match where:
        case Compare(field):
            return {field}
        case HasLabel():
            return set()
        case Not(part):
            return field_names(part)
        case And(parts) | Or(parts):
            return set().union(*map(field_names, parts))


def balanced(where: Filter) -> Filter:
    """Return an equal filter that joins two parts at a time, as a tree of small depth.

    Engines limit the depth of an expression, and some parse a chain as a tree as deep as it is
    long.
    """
    match where:
        case Not(part):
            return Not(balanced(part))
        case And(parts) | Or(parts) if len(parts) > 2:
            half = len(parts) // 2
            join = type(where)
            return join((balanced(join(parts[:half])), balanced(join(parts[half:]))))
        case And(parts) | Or(parts):
            return type(where)(tuple(map(balanced, parts)))
        case _:
            return where


def _comparison(field: str, sign: Operator, value: Value) -> Test:
    kind, compare = kind_of(value), _COMPARISONS[sign]

    def test(fields: Mapping[str, Any]) -> bool:
        found = fields.get(field)
        return kind_of(found) == kind and compare(found, value)

    return test


def kind_of(value: Any) -> str | None:
    """Return ``boolean``, ``number`` or ``string``; None for values that filters do not compare."""
    if isinstance(value, bool):  # before numbers: bool is a subclass of int
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else None
