"""Introduction: words, labels and items that tell what a collection is about."""

from collections import Counter

from corrhash.datasets import Vocabulary
from corrhash.index import Item
from corrhash.service.introduction import (
    example_words,
    frequent_labels,
    introduce,
    sample_keys,
)

ITEMS = [
    Item("a", "the red boat at sea 2015", ["boat", "sea"], thumbnail=b"jpeg"),
    Item("b", "the red boat of ours", ["boat"]),
    Item("c", "a red house", ["house"], thumbnail=b"jpeg"),
]
KNOWN = Vocabulary(["the", "red", "boat", "at", "sea", "2015", "house", "unused"])


def test_frequent_words_are_offered_with_those_of_labels_first():
    words = example_words(KNOWN, ITEMS, ["sea", "house", "boat"])
    assert words[0] == "boat"
    assert set(words[1:3]) == {"sea", "house"}
    assert words[3:] == ["red"]  # neither function words, nor numbers, nor what is not there


def test_without_texts_words_of_the_model_are_offered():
    assert "boat" in example_words(KNOWN, [Item("a")], [])
    assert example_words(None, ITEMS, []) == []


def test_labels_come_by_frequency():
    assert frequent_labels(ITEMS)[0] == "boat"
    assert frequent_labels(ITEMS, most=1) == ["boat"]


def test_samples_have_pictures_and_come_from_everywhere():
    assert sample_keys(ITEMS) == ["a", "c"]
    many = [Item(str(row), thumbnail=b"jpeg") for row in range(100)]
    assert sample_keys(many, most=4) == ["0", "25", "50", "75"]
    assert len(sample_keys(many, most=7)) <= 7


def test_a_collection_is_introduced_by_its_own_items(collection):
    shown = introduce(collection)
    counts = Counter(label for item in collection.first_items(99) for label in item.labels)
    assert counts[shown.labels[0]] == max(counts.values())
    assert set(collection.ids_of(shown.samples)) == set(shown.samples)
    for word in shown.examples:
        assert collection.search_text(word)
