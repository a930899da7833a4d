"""WordForm: from texts to words."""

import sys

import pytest

from corrhash import InputError
from corrhash.datasets import words
from corrhash.datasets.words import WordForm


def test_case_punctuation_and_unicode_forms_make_no_difference():
    assert WordForm().words_of("BOAT, Cafe\u0301! ﬁsh") == ["boat", "café", "fish"]


def test_tags_are_split_at_spaces_alone():
    assert WordForm("tags").words_of(" C++  d-80\tété ") == ["c++", "d-80", "été"]


def test_function_words_are_left_out_and_the_others_stemmed():
    form = WordForm(stop_words=True, stem="english")
    assert form.words_of("the boats are sailing") == ["boat", "sail"]
    assert WordForm(stem="german").words_of("Häuser") == ["haus"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "letters"}, "words or tags. Got 'letters'"),
        ({"stem": "englisch"}, "no stemmer for 'englisch'. Did you mean 'english'"),
    ],
)
def test_what_is_not_known_is_told(options, message):
    with pytest.raises(InputError, match=message):
        WordForm(**options)


def test_a_missing_package_is_named(monkeypatch):
    words._stemmer.cache_clear()
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(InputError, match=r"pip install 'corrhash\[stemming\]'"):
        WordForm(stem="english")
