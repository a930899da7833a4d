"""Tokenizer and Vocabulary: from texts to terms."""

import sys

import numpy as np
import pytest
from sklearn.feature_extraction import text

from corrhash import InputError
from corrhash.datasets import vocabulary
from corrhash.datasets.vocabulary import ENGLISH_STOP_WORDS, Tokenizer, Vocabulary


def test_case_punctuation_and_unicode_are_normalized():
    assert Tokenizer().tokenize("BOAT, Cafe\u0301! ﬁsh") == ["boat", "café", "fish"]


def test_tags_are_split_at_whitespace_only():
    assert Tokenizer("tags").tokenize(" C++  d-80\tété ") == ["c++", "d-80", "été"]


def test_stop_words_are_dropped_and_others_stemmed():
    form = Tokenizer(stop_words=True, stem="english")
    assert form.tokenize("the boats are sailing") == ["boat", "sail"]
    assert Tokenizer(stem="german").tokenize("Häuser") == ["haus"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "letters"}, "split must be words or tags, got 'letters'"),
        ({"stem": "englisch"}, "Unknown stemmer 'englisch'. Did you mean 'english'"),
    ],
)
def test_unknown_options_are_rejected(options, message):
    with pytest.raises(InputError, match=message):
        Tokenizer(**options)


def test_a_missing_package_is_named(monkeypatch):
    vocabulary._stemmer.cache_clear()
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(InputError, match=r"pip install 'corrhash\[stemming\]'"):
        Tokenizer(stem="english")


def test_a_vocabulary_counts_texts_not_repetitions():
    vocabulary = Vocabulary.fit(["sea sea sea", "boat sea", "boat"], min_count=2)
    assert vocabulary.terms == ("boat", "sea")
    assert Vocabulary.fit(["sea sea sea", "boat sea", "boat"], min_count=1, top=1).terms == (
        "boat",
    )


def test_a_vocabulary_normalizes_texts():
    vocabulary = Vocabulary(("boat", "café"))
    texts = ["BOAT, Café!", "cafe\u0301", "boat_house"]
    np.testing.assert_array_equal(vocabulary.transform(texts).toarray(), [[1, 1], [0, 1], [0, 0]])


def test_an_empty_vocabulary_is_rejected():
    with pytest.raises(InputError, match=r"No term occurs in at least 3 texts \(2 different"):
        Vocabulary.fit(["a b", "a b"], min_count=3)


def test_stop_words_are_those_of_scikit_learn():
    assert text.ENGLISH_STOP_WORDS == ENGLISH_STOP_WORDS
