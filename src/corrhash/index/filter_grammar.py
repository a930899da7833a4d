"""The grammar of filter expressions: strings are parsed to filters, and filters written as strings.

::

    year >= 2015 and not ('dog' in labels or place = 'Paris')

A name is ``key``, ``text``, ``path`` or a metadata field. A value is a number, a quoted string
(double a quote inside it), ``true`` or ``false``. ``not`` binds tighter than ``and``, and ``and``
tighter than ``or``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, cast

from corrhash.errors import InputError
from corrhash.index.filters import (
    LARGEST,
    MAX_DEPTH,
    RESERVED,
    TEXT_FIELDS,
    TOO_DEEP,
    And,
    Compare,
    Filter,
    HasLabel,
    Not,
    Operator,
    Or,
    Value,
    simplify,
)

MAX_LENGTH = 100_000
"""Most characters of a filter."""

MAX_DIGITS = 50
"""Most characters of a number; Python writes one with at most 24."""

SHOWN_CHARACTERS = 200
"""Most characters of a filter that an error message repeats."""


def as_filter(where: str | Filter | None) -> Filter | None:
    """Return a filter, given as a string or as an object, in its simplest form; None as it is."""
    if where is None:
        return None
    return parse_filter(where) if isinstance(where, str) else simplify(where)


@lru_cache
def parse_filter(text: str) -> Filter:
    """Parse a filter expression.

    >>> parse_filter("year >= 2015 and 'dog' in labels")
    And(parts=(Compare(field='year', operator='>=', value=2015), HasLabel(label='dog')))
    """
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"A filter can have at most {MAX_LENGTH:,} characters, got {len(text):,}. Shorten it."
        )
    return simplify(_Parser(text).parse())


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


_TOKENS = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?!\w))
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
        negative = False
        while self._take("not"):
            negative = not negative
        if self._take("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise InputError(TOO_DEEP)
            where = self._any()
            if not self._take(")"):
                raise self._error("')'")
            self.depth -= 1
        elif self._peek().kind == "text":
            where = self._label()
        else:
            where = self._comparison()
        return Not(where) if negative else where

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
                    f"Cannot parse the filter {_shown(self.text)}. labels can only be used as "
                    "'VALUE' in labels, for example: 'dog' in labels."
                )
            raise self._error("a field name")
        self._next()
        if self._take("in") and self._take("labels"):
            raise InputError(
                f"Cannot parse the filter {_shown(self.text)}. Quote the label: '{name.text}' in "
                "labels."
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
                f"Booleans can be compared with = and != only, got {sign} in {_shown(self.text)}."
            )
        self._next()
        return truth

    def _number(self, text: str) -> Value:
        if len(text) > MAX_DIGITS:
            raise InputError(
                f"A number in a filter can have at most {MAX_DIGITS} characters, got {len(text):,}."
                " Round it."
            )
        number = int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text)
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
                    f"Cannot parse the filter {_shown(self.text)} at "
                    f"{_shown(self.text[start:])}{quote}. {_EXAMPLE}"
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
        found = f"got {_shown(rest)}" if rest else "but the filter ended"
        return InputError(
            f"Cannot parse the filter {_shown(self.text)}: expected {expected}, {found}. {_EXAMPLE}"
        )


def _shown(text: str) -> str:
    """Return text as it is repeated in a message."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}...")


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
