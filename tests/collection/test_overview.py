"""Overview: example queries, frequent labels and sample items."""

import re

import pytest

from corrhash.collection import Collection
from corrhash.collection.overview import candidate_terms, frequent_labels, make_overview
from corrhash.datasets import Vocabulary
from corrhash.index import Item
from tests.service.conftest import fill

ITEMS = [
    Item("a", "boat red harbour sea 2015", ["boat", "sea"]),
    Item("b", "the boat of ours", ["boat"]),
    Item("c", "red harbour house", ["house"]),
    *(Item(str(row), "unknown") for row in range(5)),
]
KNOWN = Vocabulary(["the", "red", "harbour", "boat", "at", "sea", "2015", "house", "unused"])

CAPTIONS = [
    "A dog is running in front of the house.",
    "Two dogs, a cat and a big red house on the black and white beach",
    "a group of people standing on the beach",
    "The cat is standing in front of a house with a red door",
    "A woman standing at the beach with her dog",
    *["unrelated"] * 5,
]


@pytest.fixture(scope="module")
def collection():
    return fill("memory:")[0]


@pytest.fixture(scope="module")
def overview(collection):
    return make_overview(collection)


def test_candidates_are_frequent_terms_labels_first():
    terms = candidate_terms(ITEMS, ["sea", "house", "boat"], KNOWN)
    assert terms[0] == "boat"
    assert set(terms[1:3]) == {"sea", "house"}
    assert terms[3:] == ["harbour"]  # no stop words, numbers, colours, unknown or unused terms


def test_candidates_of_sentences_are_nouns():
    terms = candidate_terms([Item(str(i), text) for i, text in enumerate(CAPTIONS)], [], None)
    assert set(terms) == {"dog", "cat", "house", "beach"}


def test_candidates_are_not_in_most_items():
    items = [Item(str(row), "photo dog" if row % 5 == 0 else "photo") for row in range(20)]
    assert candidate_terms(items, [], None) == ["dog"]


def test_candidates_without_texts_come_from_the_vocabulary():
    assert "boat" in candidate_terms([Item("a")], [], KNOWN)
    assert candidate_terms([Item("a")], [], None) == []


def test_examples_find_items_with_their_term_first(overview, collection):
    def precision(term):
        matches = collection.search(term)
        return (
            sum(term in (*re.findall(r"\w+", m.item.text.lower()), *m.item.labels) for m in matches)
            / 10
        )

    found = [precision(term) >= 0.3 for term in overview.examples]
    assert found == sorted(found, reverse=True)
    assert found[0]


def test_labels_are_sorted_by_frequency():
    assert frequent_labels(ITEMS)[0] == "boat"
    assert frequent_labels(ITEMS, n=1) == ["boat"]


def test_samples_have_images_and_are_evenly_spaced(overview):
    assert overview.samples == [f"scene {row}" for row in range(0, 60, 3)]


def test_modalities_are_those_of_the_items(overview, collection):
    assert overview.modalities == ["image", "text"]
    texts = Collection.create("memory:", collection.model)
    assert make_overview(texts).modalities == ()
    texts.add([{"key": "a", "text": "sea boat"}])
    assert make_overview(texts).modalities == ["text"]
    assert make_overview(texts).samples == []
