"""Filters: the grammar, what a filter lets through, and what it says of mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrhash import InputError
from corrhash.filters import And, Compare, HasLabel, Not, Or, as_filter, holds, parse_filter

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
def test_a_text_becomes_a_tree(text, tree):
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
def test_a_filter_lets_through_what_it_says(text, expected):
    assert holds(parse_filter(text), ITEM) is expected


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_no_comparison_holds_with_a_missing_field_or_another_kind_of_value(operator):
    for text in ("month {} 3", "place {} 3", "year {} '2015'", "public {} 1"):
        assert not holds(parse_filter(text.format(operator)), ITEM)
        assert holds(parse_filter("not " + text.format(operator)), ITEM)


@given(st.text())
def test_any_text_can_be_asked_for_in_either_quote(value):
    for quote in "'\"":
        quoted = quote + value.replace(quote, quote * 2) + quote
        assert parse_filter(f"text = {quoted}") == Compare("text", "=", value)
        assert parse_filter(f"{quoted} in labels") == HasLabel(value)


MISTAKES = {
    "": "a name, 'a label' in labels, 'not' or '(' is wanted. It ends there",
    "year": "one of = != < <= > >= is wanted. It ends there",
    "year = ": "a number, a text in quotes, true or false is wanted",
    "year = Paris": "a text in quotes, true or false is wanted. Got 'Paris'",
    "year == 3": "Got '= 3'",
    "year = 3 4": "'and' or 'or' is wanted. Got '4'",
    "(year = 3": "')' is wanted. It ends there",
    "year = 3)": "'and' or 'or' is wanted. Got ')'",
    "'dog' labels": "in labels, as in: 'dog' in labels is wanted",
    "labels = 'dog'": "'dog' in labels is wanted",
    "and = 3": "the name of a field is wanted",
    "place = 'Paris": 'from "\'Paris" on (a quote is not closed)',
    "year = 3; drop": "from '; drop' on",
    "year = 2015x": "Cannot read",
    "public < true": "Truths are compared with = and != only. Got <",
    "year = 9007199254740993": "at most 2^53",
    "(" * 101 + "a = 1" + ")" * 101: "at most 100 parentheses deep",
    "not " * 5000 + "a = 1": "at most 100 parentheses deep",
}


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told_with_its_place(text):
    with pytest.raises(InputError) as caught:
        parse_filter(text)
    assert MISTAKES[text] in str(caught.value)


def test_filters_pass_through_and_nothing_is_no_filter():
    assert as_filter(DOG) is DOG
    assert as_filter(None) is None
    assert as_filter("'dog' in labels") == DOG
