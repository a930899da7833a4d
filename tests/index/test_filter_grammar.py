"""The grammar of filters: parsing, limits and error messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrhash import InputError
from corrhash.index.filter_grammar import as_filter, parse_filter
from corrhash.index.filters import And, Compare, HasLabel, Not, Or

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
        ("not not 'dog' in labels", DOG),
        ("not " * 99 + "'dog' in labels", Not(DOG)),
        (
            "not (not ((year >= 2015) and ('dog' in labels and place = 'Paris')))",
            And((YEAR, DOG, PARIS)),
        ),
        ("text != 'it''s'", Compare("text", "!=", "it's")),
        ('text = "say ""hi"""', Compare("text", "=", 'say "hi"')),
        ("x < -1.5e3", Compare("x", "<", -1500.0)),
        ("public = true", Compare("public", "=", True)),
        ("key <= ''", Compare("key", "<=", "")),
    ],
)
def test_expression_is_parsed(text, tree):
    assert parse_filter(text) == tree


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
    "year = " + "9" * 5000: "at most 50 characters, got 5,000",
    "year = 0." + "1" * 5000: "at most 50 characters, got 5,002",
    "year = " + "9" * 5000 + "x": "Cannot parse",
    "(" * 21 + "a = 1" + ")" * 21: "at most 20 levels of parentheses",
    "not (" * 5000 + "a = 1": "at most 20 levels of parentheses",
    "a = 1 or " * 2000 + "a = 1": "at most 2,000 comparisons and labels, got 2,001",
    "a" * 100_001: "at most 100,000 characters, got 100,001",
}


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
def test_syntax_error_names_the_position(text):
    with pytest.raises(InputError) as caught:
        parse_filter(text)
    assert MISTAKES[text] in str(caught.value)
    assert len(str(caught.value)) < 700


def test_as_filter_accepts_strings_filters_and_none():
    assert as_filter(DOG) is DOG
    assert as_filter(None) is None
    assert as_filter("'dog' in labels") == DOG
    assert as_filter(Not(Not(DOG))) == DOG
