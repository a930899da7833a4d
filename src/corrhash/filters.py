"""Filters: which items a search may answer with, as one small grammar that every engine speaks.

::

    year >= 2015 and not ('dog' in labels or place = 'Paris')

A name is ``key``, ``text``, ``path`` or one of an item's metadata; a value is a number, a text in
quotes (a quote inside is doubled) or ``true`` and ``false``. ``and`` binds closer than ``or``, and
``not`` closer than both. A comparison holds only where the item has the field and its value is of
the same kind: ``year != 2015`` leaves out items without a year.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
"""Fields that every item has, as texts; all other names are metadata."""

RESERVED = (*TEXT_FIELDS, "labels", "and", "or", "not", "in", "true", "false")
"""Names that metadata cannot have."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LARGEST = 2**53
"""Whole numbers up to here are exact in every engine."""

DEEPEST = 100
"""How many parentheses and nots may stand inside one another."""


@dataclass(frozen=True)
class Compare:
    """A field against a value."""

    field: str
    operator: Operator
    value: Value


@dataclass(frozen=True)
class HasLabel:
    """Whether a label is among those of the item."""

    label: str


@dataclass(frozen=True)
class Not:
    """What does not hold."""

    part: Filter


@dataclass(frozen=True)
class And:
    """All of several."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    """Any of several."""

    parts: tuple[Filter, ...]


Filter = Compare | HasLabel | Not | And | Or


def as_filter(where: str | Filter | None) -> Filter | None:
    """A filter from its text; filters pass through, and nothing means no filter."""
    return parse_filter(where) if isinstance(where, str) else where


def parse_filter(text: str) -> Filter:
    """The filter that a text describes.

    >>> parse_filter("year >= 2015 and 'dog' in labels")
    And(parts=(Compare(field='year', operator='>=', value=2015), HasLabel(label='dog')))
    """
    return _Parser(text).parse()


Test = Callable[[Mapping[str, Any]], bool]
"""Whether an item's fields, its labels under ``labels``, pass a filter."""


def holds(where: Filter, fields: Mapping[str, Any]) -> bool:
    """Whether an item's fields (its labels under ``labels``) pass a filter.

    >>> holds(parse_filter("year > 2000"), {"year": 1999})
    False
    """
    return as_test(where)(fields)


def as_test(where: Filter) -> Test:
    """A filter as a function, which is made once for many items."""
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


def _comparison(field: str, sign: Operator, value: Value) -> Test:
    kind, compare = kind_of(value), _COMPARISONS[sign]

    def test(fields: Mapping[str, Any]) -> bool:
        found = fields.get(field)
        return kind_of(found) == kind and compare(found, value)

    return test


def kind_of(value: Any) -> str | None:
    """``truth``, ``number`` or ``text``; None for what cannot be compared."""
    if isinstance(value, bool):  # before numbers, of which Python thinks it a special case
        return "truth"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else None


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
    """Reads a text from left to right; each method reads one rule of the grammar."""

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
        if self.depth > DEEPEST:
            raise InputError(f"A filter is at most {DEEPEST} parentheses deep. Make it simpler.")
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
            raise self._error("in labels, as in: 'dog' in labels")
        return HasLabel(label)

    def _comparison(self) -> Filter:
        name = self._peek()
        if name.kind != "name":
            raise self._error("a name, 'a label' in labels, 'not' or '('")
        if name.text.lower() in RESERVED and name.text not in TEXT_FIELDS:
            wanted = "'dog' in labels" if name.text == "labels" else "the name of a field"
            raise self._error(wanted)
        self._next()
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
            raise self._error("a number, a text in quotes, true or false")
        if sign not in ("=", "!="):
            raise InputError(
                f"Truths are compared with = and != only. Got {sign} in {self.text!r}."
            )
        self._next()
        return truth

    def _number(self, text: str) -> Value:
        number = int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
        if abs(number) > LARGEST:
            raise InputError(
                f"Numbers of a filter are at most 2^53. Got {text}. Compare it as a text."
            )
        return number

    def _split(self) -> Iterator[_Token]:
        start = 0
        while start < len(self.text):
            found = _TOKENS.match(self.text, start)
            if found is None:
                quote = " (a quote is not closed)" if self.text[start] in "'\"" else ""
                raise InputError(
                    f"Cannot read the filter {self.text!r} from {self.text[start:]!r} on{quote}. "
                    "Write it as: year >= 2015 and 'dog' in labels."
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
        """Step over a word, if it is the next one."""
        token = self._peek()
        found = token.kind in ("name", "parenthesis") and token.text.lower() == word
        self.at += found
        return found

    def _error(self, wanted: str) -> InputError:
        rest = self.text[self._peek().start :]
        seen = f"Got {rest!r}" if rest else "It ends there"
        return InputError(
            f"Cannot read the filter {self.text!r}: {wanted} is wanted. {seen}. "
            "Write it as: year >= 2015 and 'dog' in labels."
        )


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)
