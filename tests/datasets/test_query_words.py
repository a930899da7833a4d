"""Words of queries: unknown ones are named, typos get a suggestion, function words are reported."""

import pytest

from corrhash.datasets import Reader, TextFeatures, Vocabulary
from corrhash.datasets.query_words import QueryWords, WordChecker, joined_message
from corrhash.datasets.vocabulary import Tokenizer

KNOWN = Vocabulary(("a", "boat", "car", "guitar", "house", "red", "saxophone", "the"))


@pytest.fixture(scope="module")
def checker():
    return WordChecker(KNOWN)


def test_unknown_words_are_named(checker):
    found = checker.check("Red xylophone, a car")
    assert found.unknown == ("xylophone",)
    assert found.message == "'xylophone' is not in this collection's vocabulary."
    many = checker.check("zither zither and lute")
    assert many.message == "'zither' and 'lute' are not in this collection's vocabulary."
    assert checker.check("the red boat").message == ""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("giutar", "guitar"),
        ("gitar", "guitar"),
        ("guitarr", "guitar"),
        ("hause", "house"),
        ("saxofone", ""),
        ("boats", "boat"),
        ("ca", "car"),
    ],
)
def test_typos_get_a_suggestion(checker, typed, meant):
    found = checker.check(f"red {typed}")
    assert found.suggestions == ({typed: meant} if meant else {})
    assert found.message.endswith(f"Did you mean {meant!r}?" if meant else "vocabulary.")


def test_suggestions_agree_with_a_slow_search(checker):
    """Every term within one edit is found."""
    for term in ("guitar", "saxophone", "house"):
        for at in range(len(term)):
            for wrong in (term[:at] + term[at + 1 :], term[:at] + "q" + term[at + 1 :]):
                assert checker.check(wrong).suggestions == {wrong: term}


def test_function_words_are_reported(checker):
    found = checker.check("the of with")
    assert found.function_words == "the of with"
    assert found.message.startswith("'the of with' consists of function words only. Add a word")
    assert checker.check("").message == ""


def test_stems_and_tags_are_looked_up_as_the_vocabulary_does():
    stemmed = WordChecker(Vocabulary(("boat",), Tokenizer(stem="english")))
    assert stemmed.check("boats").unknown == ()
    tags = WordChecker(Vocabulary(("c++",), Tokenizer("tags")))
    assert tags.check("C++ d80").unknown == ("d80",)


def test_sentence_encoders_know_every_word():
    reader = Reader(KNOWN, text_features=TextFeatures("onnx:any"))
    assert reader.check_words("xylophone").message == ""
    assert "function words" in reader.check_words("of the").message
    assert Reader(KNOWN).check_words("xylophone").unknown == ("xylophone",)


def test_long_lists_and_several_queries_are_shortened():
    words = QueryWords(tuple("bcdfghj"))
    assert "'g' and 2 more words are not" in words.message
    assert joined_message([words, words, QueryWords()]) == words.message
