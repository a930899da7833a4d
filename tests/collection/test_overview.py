"""Overview: example terms, frequent labels and sample items."""

from corrhash.collection.overview import example_terms, frequent_labels, sample_keys
from corrhash.datasets import Vocabulary
from corrhash.index import Item

ITEMS = [
    Item("a", "the red boat at sea 2015", ["boat", "sea"], thumbnail=b"jpeg"),
    Item("b", "the red boat of ours", ["boat"]),
    Item("c", "a red house", ["house"], thumbnail=b"jpeg"),
]
KNOWN = Vocabulary(["the", "red", "boat", "at", "sea", "2015", "house", "unused"])


def test_examples_are_frequent_terms_labels_first():
    words = example_terms(KNOWN, ITEMS, ["sea", "house", "boat"])
    assert words[0] == "boat"
    assert set(words[1:3]) == {"sea", "house"}
    assert words[3:] == ["red"]  # no stop words, numbers or unused terms


def test_examples_without_texts_come_from_the_vocabulary():
    assert "boat" in example_terms(KNOWN, [Item("a")], [])
    assert example_terms(None, ITEMS, []) == []


def test_labels_are_sorted_by_frequency():
    assert frequent_labels(ITEMS)[0] == "boat"
    assert frequent_labels(ITEMS, n=1) == ["boat"]


def test_samples_have_images_and_are_evenly_spaced():
    assert sample_keys(ITEMS) == ["a", "c"]
    many = [Item(str(row), thumbnail=b"jpeg") for row in range(100)]
    assert sample_keys(many, n=4) == ["0", "25", "50", "75"]
    assert len(sample_keys(many, n=7)) <= 7
