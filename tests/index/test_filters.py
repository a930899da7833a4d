"""Filters: evaluation, limits and simplification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrhash import InputError
from corrhash.index.filter_grammar import parse_filter
from corrhash.index.filters import (
    MAX_DEPTH,
    MAX_TERMS,
    And,
    Compare,
    HasLabel,
    Not,
    Or,
    balanced,
    holds,
    simplify,
)

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


def test_balanced_filter_is_equal_and_not_deep():
    where = parse_filter(" or ".join(f"not (year = {y} and height > 1)" for y in range(2000, 2100)))
    assert holds(balanced(where), ITEM) == holds(where, ITEM)
    assert len(balanced(where).parts) == 2
    depth, part = 0, balanced(where)
    while isinstance(part, Or):
        depth, part = depth + 1, part.parts[-1]
    assert depth == 7
    assert balanced(parse_filter("year = 2015")) == Compare("year", "=", 2015)


LEAVES = st.sampled_from([HasLabel("dog"), HasLabel("cat"), Compare("year", ">", 2000)])
TREES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        parts.map(Not),
        st.lists(parts, max_size=3).map(lambda some: And(tuple(some))),
        st.lists(parts, max_size=3).map(lambda some: Or(tuple(some))),
    ),
)


def is_simple(where):
    match where:
        case Not(part):
            return not isinstance(part, Not) and is_simple(part)
        case And(parts) | Or(parts):
            apart = all(type(part) is not type(where) and is_simple(part) for part in parts)
            return apart and len(parts) != 1
    return True


@given(TREES, st.sets(st.sampled_from(["dog", "cat"])), st.sampled_from([1999, 2015, "2015"]))
def test_simplified_filter_is_equal(where, labels, year):
    fields = {"labels": labels, "year": year}
    assert holds(simplify(where), fields) == holds(where, fields)
    assert is_simple(simplify(where))


def test_double_negation_needs_no_depth():
    where = HasLabel("dog")
    for _ in range(10_001):
        where = Not(where)
    assert simplify(where) == Not(HasLabel("dog"))


def nested(depth):
    """Alternate ``and`` and ``or``, which cannot be flattened."""
    where = HasLabel("dog")
    for level in range(depth):
        where = (And, Or)[level % 2]((where, HasLabel("cat")))
    return where


def test_depth_and_number_of_terms_are_limited():
    assert simplify(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(InputError, match="at most 20 levels"):
        simplify(nested(MAX_DEPTH + 1))
    with pytest.raises(InputError, match="at most 20 levels"):
        simplify(nested(5000))
    assert simplify(Or((HasLabel("dog"),) * MAX_TERMS))
    with pytest.raises(InputError, match="at most 2,000 comparisons and labels, got 2,001"):
        simplify(Not(Or((HasLabel("dog"),) * (MAX_TERMS + 1))))
