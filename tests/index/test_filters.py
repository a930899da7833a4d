"""Filters: grammar, evaluation and error messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrhash import InputError
from corrhash.index.filters import (
    And,
    Compare,
    HasLabel,
    Not,
    Or,
    as_filter,
    balanced,
    holds,
    parse_filter,
)

YEAR, DOG, PARIS = Compare("year", ">=", 2015), HasLabel("dog"), Compare("place", "=", "Paris")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("year >= 2015", YEAR),
        ("'dog' in labels", DOG),
        ('"dog" IN labels', DOG),
        ("year >= 2015 and 'dog' in labels or place = 'Paris'", Or((And((YEAR, DOG)), PARIS))),
        ("year >= 2015 and ('dog' in labels or place='Paris')", And((YEAR, Or((DOG, PARIS))))),
        ("not year >= 2015 and 'dog' in labels", And((Not(YEAR), DOG))),
        ("NOT (year>=2015 AND 'dog' in labels)", Not(And((YEAR, DOG)))),
        ("not not 'dog' in labels", Not(Not(DOG))),
        ("text != 'it''s'", Compare("text", "!=", "it's")),
        ('text = "say ""hi"""', Compare("text", "=", 'say "hi"')),
        ("x < -1.5e3", Compare("x", "<", -1500.0)),
        ("public = true", Compare("public", "=", True)),
        ("key <= ''", Compare("key", "<=", "")),
    ],
)
def test_expression_is_parsed(text, tree):
    assert parse_filter(text) == tree


ITEM = {
    **{"key": "a1", "text": "two dogs", "path": "", "labels": ("dog", "it's")},
    **{"year": 2015, "height": 1.5, "place": "Paris", "public": True},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("year = 2015", True),
        ("year = 2015.0", True),
        ("year != 2015", False),
        ("year < 2015", False),
        ("year <= 2015", True),
        ("year > 2014.5", True),
        ("year >= 2016", False),
        ("height > 1 and height < 2", True),
        ("key >= 'a' and key < 'b'", True),
        ("place = 'paris'", False),
        ("public = true", True),
        ("public != true", False),
        ("'dog' in labels and \"it's\" in labels", True),
        ("'do' in labels", False),
        ("not 'cat' in labels", True),
    ],
)
def test_filter_is_evaluated(text, expected):
    assert holds(parse_filter(text), ITEM) is expected


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_comparison_is_false_for_a_missing_field_or_other_kind(operator):
    for text in ("month {} 3", "place {} 3", "year {} '2015'", "public {} 1"):
        assert not holds(parse_filter(text.format(operator)), ITEM)
        assert holds(parse_filter("not " + text.format(operator)), ITEM)


@given(st.text())
def test_any_string_can_be_quoted(value):
    for quote in "'\"":
        quoted = quote + value.replace(quote, quote * 2) + quote
        assert parse_filter(f"text = {quoted}") == Compare("text", "=", value)
        assert parse_filter(f"{quoted} in labels") == HasLabel(value)


MISTAKES = {
    "": "expected a field name, a label, 'not' or '(', but the filter ended",
    "year": "expected one of = != < <= > >=, but the filter ended",
    "year = ": "expected a number, a quoted string, true or false, but the filter ended",
    "year = Paris": "a quoted string, true or false, got 'Paris'",
    "year == 3": "got '= 3'",
    "year = 3 4": "expected 'and' or 'or', got '4'",
    "(year = 3": "expected ')', but the filter ended",
    "year = 3)": "expected 'and' or 'or', got ')'",
    "'dog' labels": "expected 'in labels', got 'labels'",
    "labels = 'dog'": "labels can only be used as 'VALUE' in labels, for example: 'dog' in labels.",
    "boat in labels": "Quote the label: 'boat' in labels.",
    "and = 3": "expected a field name, got 'and = 3'",
    "place = 'Paris": 'at "\'Paris" (unclosed quote)',
    "year = 3; drop": "at '; drop'",
    "year = 2015x": "Cannot parse",
    "public < true": "Booleans can be compared with = and != only, got <",
    "year = 9007199254740993": "must not exceed 2^53",
    "(" * 101 + "a = 1" + ")" * 101: "at most 100 parentheses and nots",
    "not " * 5000 + "a = 1": "at most 100 parentheses and nots",
}


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
def test_syntax_error_names_the_position(text):
    with pytest.raises(InputError) as caught:
        parse_filter(text)
    assert MISTAKES[text] in str(caught.value)


def test_as_filter_accepts_strings_filters_and_none():
    assert as_filter(DOG) is DOG
    assert as_filter(None) is None
    assert as_filter("'dog' in labels") == DOG


def test_balanced_filter_is_equal_and_not_deep():
    where = parse_filter(" or ".join(f"not (year = {y} and height > 1)" for y in range(2000, 2100)))
    assert holds(balanced(where), ITEM) == holds(where, ITEM)
    assert len(balanced(where).parts) == 2
    depth, part = 0, balanced(where)
    while isinstance(part, Or):
        depth, part = depth + 1, part.parts[-1]
    assert depth == 7
    assert balanced(parse_filter("year = 2015")) == Compare("year", "=", 2015)
