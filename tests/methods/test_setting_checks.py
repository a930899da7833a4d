"""Settings are taken or refused with a sentence that names them."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.methods.setting_checks import check_choice, check_count, check_number


@pytest.mark.parametrize("value", [0.5, 3, np.float32(2), np.int64(1)])
def test_numbers_above_zero_are_taken(value):
    check_number("ridge", value, zero=False)


@pytest.mark.parametrize("value", [-1, np.inf, np.nan, "0.1", None, True])
def test_other_values_are_no_numbers(value):
    with pytest.raises(InputError, match="weight must be 0 or a number above. Got"):
        check_number("weight", value, zero=True)


def test_zero_is_a_number_only_where_it_makes_sense():
    check_number("weight", 0, zero=True)
    with pytest.raises(InputError, match="ridge must be a number above 0. Got 0"):
        check_number("ridge", 0, zero=False)


@pytest.mark.parametrize("value", [0, 2.0, "3", True, None])
def test_counts_are_whole_numbers_from_the_least_on(value):
    check_count("n_rounds", 1)
    check_count("seed", np.int64(0), least=0)
    with pytest.raises(InputError, match="n_rounds must be a whole number from 1 on. Got"):
        check_count("n_rounds", value)


def test_a_word_that_is_not_among_the_choices_is_refused_with_the_choices():
    check_choice("new_items", "vote", ("ridge", "vote"))
    with pytest.raises(InputError, match="There is no new_items 'poll'. Choose ridge or vote."):
        check_choice("new_items", "poll", ("ridge", "vote"))
