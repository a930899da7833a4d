"""Overview of a collection: example queries, frequent labels and sample items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from corrhash.collection.collection import Collection
from corrhash.datasets.vocabulary import Tokenizer, Vocabulary
from corrhash.index.items import Item

N_ITEMS = 1000
"""Number of leading items that the overview is made from."""

MIN_LETTERS = 3
"""Minimum length of an example query."""


@dataclass(frozen=True)
class Overview:
    """Terms that the model knows, frequent labels, and keys of items that have images."""

    examples: Sequence[str]
    labels: Sequence[str]
    samples: Sequence[str]


def make_overview(collection: Collection) -> Overview:
    """Make the overview of the first items of a collection."""
    items = collection.first_items(N_ITEMS)
    labels = frequent_labels(items)
    examples = example_terms(collection.model.reader.vocabulary, items, labels)
    return Overview(examples, labels, sample_keys(items))


def example_terms(
    vocabulary: Vocabulary | None, items: Sequence[Item], labels: Sequence[str], n: int = 10
) -> list[str]:
    """Return up to ``n`` frequent terms without stop words, terms that are labels first."""
    if vocabulary is None:
        return []
    tokenizer = Tokenizer(vocabulary.tokenizer.split, stop_words=True)
    known, counts = set(vocabulary.terms), Counter[str]()
    for item in items:
        counts.update({term for term in tokenizer.tokenize(item.text) if term in known})
    if not counts:  # the items have no texts
        some = vocabulary.terms[:: max(1, len(vocabulary.terms) // n)]
        counts.update(tokenizer.tokenize(" ".join(some)))
    frequent = [term for term, _ in counts.most_common()]
    usable = [term for term in frequent if len(term) >= MIN_LETTERS and not term.isdigit()]
    return sorted(usable, key=lambda term: term not in labels)[:n]


def frequent_labels(items: Sequence[Item], n: int = 30) -> list[str]:
    """Return the ``n`` most frequent labels."""
    counts = Counter(label for item in items for label in item.labels)
    return [label for label, _ in counts.most_common(n)]


def sample_keys(items: Sequence[Item], n: int = 24) -> list[str]:
    """Return keys of at most ``n`` items with thumbnails, evenly spaced."""
    keys = [item.key for item in items if item.thumbnail is not None]
    return keys[:: max(1, -(-len(keys) // n))]
