"""Fuzzing: random mutations of files, and filters made by Hypothesis, give answers or errors."""

import random
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.fuzz import Fuzzer, mutate

from corrhash import InputError
from corrhash.index.filter_grammar import format_filter, parse_filter
from corrhash.index.filters import And, Compare, HasLabel, Not, Or, holds
from tests.fuzz_corpus import TARGETS, Target

SECONDS = 2.0


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_do_not_crash(name, tmp_path):
    fuzzer = Fuzzer(name, TARGETS[name](tmp_path))
    with warnings.catch_warnings(action="ignore"):
        fuzzer.run(SECONDS, most=3000)
    assert fuzzer.crashes == {}
    assert fuzzer.n_accepted > 0


def test_fuzzer_finds_a_crash():
    def fragile(content):
        if content.startswith(b"ab") and len(content) > 2 and content[2] > 0x70:
            raise IndexError("found")
        if not content.startswith(b"ab"):
            raise InputError("no")

    fuzzer = Fuzzer("fragile", Target(lambda: [b"abc"], fragile))
    fuzzer.run(10, most=3000)
    (problem,) = fuzzer.crashes
    assert problem.startswith("IndexError at test_fuzz.py")


def test_mutations_are_repeatable_and_bounded():
    content = bytes(range(256)) * 8000
    first, second = (mutate(content, random.Random(3), [b"x"]) for _ in range(2))
    assert first == second
    assert len(first) <= 1 << 20


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("and", "or", "not", "in", "true", "false", "labels")
)
VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.integers(-(2**53), 2**53),
    st.floats(-1e15, 1e15, allow_nan=False),
)
LEAVES = st.one_of(
    st.builds(Compare, NAMES, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), VALUES),
    st.builds(Compare, NAMES, st.sampled_from(["=", "!="]), st.booleans()),
    st.builds(HasLabel, st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
)
FILTERS = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds(Not, part),
        st.builds(And, st.lists(part, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(part, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(FILTERS, st.dictionaries(NAMES, VALUES, max_size=4))
def test_written_filters_mean_the_same(where, fields):
    again = parse_filter(format_filter(where))
    assert holds(again, fields) == holds(where, fields)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_an_error(text):
    try:
        where = parse_filter(text)
    except InputError:
        return
    assert parse_filter(format_filter(where)) == where
