"""Filter expressions, which every engine translates to its own query language.

::

    year >= 2015 and not ('dog' in labels or place = 'Paris')

A name is ``key``, ``text``, ``path`` or a metadata field. A value is a number, a quoted string
(double a quote inside it), ``true`` or ``false``. ``not`` binds tighter than ``and``, and ``and``
tighter than ``or``. A comparison is false if the item lacks the field or its value is of another
kind: ``year != 2015`` excludes items without a year.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast

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

MAX_DEPTH = 100
"""Most nested parentheses and nots."""


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


def as_filter(where: str | Filter | None) -> Filter | None:
    """Parse a filter given as a string; return filters and None as they are."""
    return parse_filter(where) if isinstance(where, str) else where


@lru_cache
def parse_filter(text: str) -> Filter:
    """Parse a filter expression.

    >>> parse_filter("year >= 2015 and 'dog' in labels")
    And(parts=(Compare(field='year', operator='>=', value=2015), HasLabel(label='dog')))
    """
    return _Parser(text).parse()


Test = Callable[[Mapping[str, Any]], bool]
"""Test of an item's fields, with its labels under ``labels``."""


def holds(where: Filter, fields: Mapping[str, Any]) -> bool:
    """Return whether an item's fields, with its labels under ``labels``, pass a filter.

    >>> holds(parse_filter("year > 2000"), {"year": 1999})
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

    >>> sorted(field_names(parse_filter("year > 2000 and not (place = 'Paris' or year = 1999)")))
    ['place', 'year']
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


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


_TOKENS = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<operator>!=|<=|>=|=|<|>)
    |(?P<parenthesis>[()])""",
    re.VERBOSE,
)


class _Parser:
    """Recursive-descent parser with one method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._split())
        self.at = 0
        self.depth = 0

    def parse(self) -> Filter:
        where = self._any()
        if self._peek().kind != "end":
            raise self._error("'and' or 'or'")
        return where

    def _any(self) -> Filter:
        parts = [self._all()]
        while self._take("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self) -> Filter:
        parts = [self._one()]
        while self._take("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self) -> Filter:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise InputError(
                f"A filter can nest at most {MAX_DEPTH} parentheses and nots. Simplify it."
            )
        if self._take("not"):
            where: Filter = Not(self._one())
        elif self._take("("):
            where = self._any()
            if not self._take(")"):
                raise self._error("')'")
        elif self._peek().kind == "text":
            where = self._label()
        else:
            where = self._comparison()
        self.depth -= 1
        return where

    def _label(self) -> Filter:
        label = _unquoted(self._next().text)
        if not (self._take("in") and self._take("labels")):
            raise self._error("'in labels'")
        return HasLabel(label)

    def _comparison(self) -> Filter:
        name = self._peek()
        if name.kind != "name":
            raise self._error("a field name, a label, 'not' or '('")
        if name.text.lower() in RESERVED and name.text not in TEXT_FIELDS:
            if name.text == "labels":
                raise InputError(
                    f"Cannot parse the filter {self.text!r}. labels can only be used as 'VALUE' in "
                    "labels, for example: 'dog' in labels."
                )
            raise self._error("a field name")
        self._next()
        if self._take("in") and self._take("labels"):
            raise InputError(
                f"Cannot parse the filter {self.text!r}. Quote the label: '{name.text}' in labels."
            )
        if self._peek().kind != "operator":
            raise self._error("one of = != < <= > >=")
        sign = cast(Operator, self._next().text)
        return Compare(name.text, sign, self._value(sign))

    def _value(self, sign: Operator) -> Value:
        token = self._peek()
        if token.kind == "text":
            return _unquoted(self._next().text)
        if token.kind == "number":
            return self._number(self._next().text)
        truth = {"true": True, "false": False}.get(token.text.lower())
        if truth is None:
            raise self._error("a number, a quoted string, true or false")
        if sign not in ("=", "!="):
            raise InputError(
                f"Booleans can be compared with = and != only, got {sign} in {self.text!r}."
            )
        self._next()
        return truth

    def _number(self, text: str) -> Value:
        number = int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
        if abs(number) > LARGEST:
            raise InputError(
                f"Numbers in a filter must not exceed 2^53, got {text}. Store and compare strings."
            )
        return number

    def _split(self) -> Iterator[_Token]:
        start = 0
        while start < len(self.text):
            found = _TOKENS.match(self.text, start)
            if found is None:
                quote = " (unclosed quote)" if self.text[start] in "'\"" else ""
                raise InputError(
                    f"Cannot parse the filter {self.text!r} at {self.text[start:]!r}{quote}. "
                    f"{_EXAMPLE}"
                )
            if found.lastgroup != "space":
                yield _Token(str(found.lastgroup), found.group(), start)
            start = found.end()
        yield _Token("end", "", start)

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _next(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _take(self, word: str) -> bool:
        """Consume a word if it is the next token."""
        token = self._peek()
        found = token.kind in ("name", "parenthesis") and token.text.lower() == word
        self.at += found
        return found

    def _error(self, expected: str) -> InputError:
        rest = self.text[self._peek().start :]
        found = f"got {rest!r}" if rest else "but the filter ended"
        return InputError(
            f"Cannot parse the filter {self.text!r}: expected {expected}, {found}. {_EXAMPLE}"
        )


_EXAMPLE = "Example: year >= 2015 and 'dog' in labels."


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def format_filter(where: Filter) -> str:
    """Write a filter as a string that :func:`parse_filter` reads.

    >>> format_filter(parse_filter("year>=2015 and not 'dog' in labels"))
    "(year >= 2015 and not 'dog' in labels)"
    """
    match where:
        case Compare(field, sign, value):
            return f"{field} {sign} {_quoted(value) if isinstance(value, str) else _literal(value)}"
        case HasLabel(label):
            return f"{_quoted(label)} in labels"
        case Not(part):
            return f"not {format_filter(part)}"
        case And(parts):
            return f"({' and '.join(map(format_filter, parts))})"
        case Or(parts):
            return f"({' or '.join(map(format_filter, parts))})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
