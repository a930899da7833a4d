"""What a collection is about: words to try, and labels to filter by."""

from __future__ import annotations

from collections import Counter

from corrhash.collection import Collection
from corrhash.datasets.words import WordForm

LOOKED_AT = 1000
"""Items that are looked at; the first ones tell enough."""

SHORTEST = 3
"""Letters of a word to try."""


def example_words(collection: Collection, most: int = 12) -> list[str]:
    """Frequent words that the model knows, without function words."""
    known = collection.reader.vocabulary
    if known is None:
        return []
    tell = WordForm(known.form.split, stop_words=True)
    words, counts = set(known.words), Counter[str]()
    for item in collection.first_items(LOOKED_AT):
        counts.update({word for word in tell.words_of(item.text) if word in words})
    if not counts:  # there are no texts
        counts.update(tell.words_of(" ".join(known.words[:: max(1, len(known.words) // most)])))
    long = [word for word, _ in counts.most_common() if len(word) >= SHORTEST]
    return [word for word in long if not word.isdigit()][:most]


def frequent_labels(collection: Collection, most: int = 30) -> list[str]:
    """Labels that many items carry, the most frequent first."""
    items = collection.first_items(LOOKED_AT)
    counts = Counter(label for item in items for label in item.labels)
    return [label for label, _ in counts.most_common(most)]
