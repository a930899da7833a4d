"""Introduction: what a collection is about, by words to try, labels and items to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from corrhash.collection import Collection
from corrhash.datasets.reader import Vocabulary
from corrhash.datasets.words import WordForm
from corrhash.index.item import Item

LOOKED_AT = 1000
"""Items that are looked at; the first ones tell enough."""

SHORTEST = 3
"""Letters of a word to try."""


@dataclass(frozen=True)
class Introduction:
    """Words that the model knows, frequent labels, and the keys of some items with pictures."""

    examples: Sequence[str]
    labels: Sequence[str]
    samples: Sequence[str]


def introduce(collection: Collection) -> Introduction:
    """Look at the first items of a collection."""
    items = collection.first_items(LOOKED_AT)
    labels = frequent_labels(items)
    words = example_words(collection.reader.vocabulary, items, labels)
    return Introduction(words, labels, sample_keys(items))


def example_words(
    known: Vocabulary | None, items: Sequence[Item], labels: Sequence[str], most: int = 10
) -> list[str]:
    """Frequent words that the model knows, names of labels first, without function words."""
    if known is None:
        return []
    tell = WordForm(known.form.split, stop_words=True)
    words, counts = set(known.words), Counter[str]()
    for item in items:
        counts.update({word for word in tell.words_of(item.text) if word in words})
    if not counts:  # there are no texts
        counts.update(tell.words_of(" ".join(known.words[:: max(1, len(known.words) // most)])))
    frequent = [word for word, _ in counts.most_common()]
    long = [word for word in frequent if len(word) >= SHORTEST and not word.isdigit()]
    return sorted(long, key=lambda word: word not in labels)[:most]  # else as frequent as before


def frequent_labels(items: Sequence[Item], most: int = 30) -> list[str]:
    """Labels that many items carry, the most frequent first."""
    counts = Counter(label for item in items for label in item.labels)
    return [label for label, _ in counts.most_common(most)]


def sample_keys(items: Sequence[Item], most: int = 24) -> list[str]:
    """Keys of items with pictures, from the first to the last in equal steps."""
    pictured = [item.key for item in items if item.thumbnail is not None]
    return pictured[:: max(1, -(-len(pictured) // most))]
