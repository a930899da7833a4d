"""Overview of a collection: example queries, frequent labels and sample items."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from corrhash.collection.collection import Collection
from corrhash.datasets.vocabulary import ENGLISH_STOP_WORDS, Vocabulary
from corrhash.errors import InputError
from corrhash.index.items import MODALITIES, SHOWN, Item

N_ITEMS = 1000
"""Number of leading items that the overview is made from."""

N_EXAMPLES, N_CANDIDATES, N_SAMPLES = 10, 40, 24

MIN_LETTERS = 3
"""Minimum length of an example query."""

MAX_SHARE = 0.3
"""A term of more than this share of the items does not narrow a search."""

MIN_PRECISION = 0.3
"""An example query should have its term in at least this share of its first results."""

MIN_NOUN_SHARE = 0.1
"""A term counts as a noun if it is used like one in this share of the texts with it."""

DETERMINERS = frozenset(
    "a an the this that his her its their my our your some two three".split()  # noqa: SIM905
)
NOT_AFTER_NOUNS = frozenset(["of", "and", "or"])
"""Stop words that also follow "front", "group" and "black"."""

POOR_QUERIES = frozenset(
    """
    abigfave award beautiful beauty best big black blue brown camera canon closeup color colour
    colors colours day digital explore explored exposure fave favorite favourite film flickr geo
    geotagged goldstaraward gray great green grey hdr image img interesting interestingness jpg lat
    lens little lomo lon macro new nice nikon old olympus orange pentax photo photograph
    photographer photographers photography photos pic picture pink purple raw red searchthebest
    small sony strobist two white yellow
    """.split()  # noqa: SIM905
)
"""Frequent words that are no nouns or, as tags, describe the camera or the web site."""

EVERYDAY = ("people", "dog", "car", "flowers", "beach", "food", "mountain", "sunset", "snow")
"""Example queries for photos without texts, if the model reads any word."""

WORDS_AND_MARKS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Overview:
    """Example queries, frequent labels, keys of items with images, modalities that have codes."""

    examples: Sequence[str] = ()
    labels: Sequence[str] = ()
    samples: Sequence[str] = ()
    modalities: Sequence[str] = ()


def make_overview(collection: Collection) -> Overview:
    """Make the overview of the first items of a collection."""
    entries = next(collection.index.batches(N_ITEMS, SHOWN), None)
    if entries is None:
        return Overview()
    labels = frequent_labels(entries.items)
    modalities = [name for name in MODALITIES if len(entries.rows.get(name, ()))]
    reader = collection.model.reader
    terms = candidate_terms(entries.items, labels, reader.vocabulary)
    if not terms and reader.text_features is not None:
        terms = list(EVERYDAY)
    precise = _precise_terms(collection, terms, modalities[0])
    examples = sorted(terms, key=lambda term: term not in precise)[:N_EXAMPLES]
    with_images = [entries.items[row] for row in entries.rows.get("image", ())]
    return Overview(examples, labels, _sample_keys(collection, with_images), modalities)


def candidate_terms(
    items: Sequence[Item], labels: Sequence[str], vocabulary: Vocabulary | None
) -> list[str]:
    """Return frequent terms that the model reads and that could be queries, labels first.

    Of English sentences these are nouns: terms that follow a determiner and precede a stop word or
    the end.
    """
    counts = Counter(term for item in items for term in set(_words(item.text)))
    if not counts and vocabulary is not None:  # the items have no texts
        counts.update(vocabulary.terms[:: max(1, len(vocabulary.terms) // N_CANDIDATES)])
    used_as_noun = _noun_counts(item.text for item in items)
    nouns = {term for term, n in used_as_noun.items() if n >= MIN_NOUN_SHARE * counts[term]}
    most = max(2, MAX_SHARE * len(items))
    chosen: dict[str, str] = {}
    for term, count in sorted(counts.items(), key=lambda each: (each[0] not in labels, -each[1])):
        is_noun = term in labels or (term not in POOR_QUERIES and (not nouns or term in nouns))
        if is_noun and count <= most and _is_query(term, vocabulary):
            chosen.setdefault(term.removesuffix("s"), term)  # not both "dog" and "dogs"
    return list(chosen.values())[:N_CANDIDATES]


def _is_query(term: str, vocabulary: Vocabulary | None) -> bool:
    if len(term) < MIN_LETTERS or not term.isalpha() or term in ENGLISH_STOP_WORDS:
        return False
    return vocabulary is None or vocabulary.transform([term]).nnz > 0


def _words(text: str) -> list[str]:
    return WORDS_AND_MARKS.findall(unicodedata.normalize("NFKC", text).lower())


def _noun_counts(texts: Iterable[str]) -> Counter[str]:
    """Count how often each term is used like an English noun."""
    counts = Counter[str]()
    for text in texts:
        words = [*_words(text), "."]
        for before, word, after in zip(words, words[1:], words[2:], strict=False):
            ends = after == "." or after in ENGLISH_STOP_WORDS - NOT_AFTER_NOUNS
            if before in DETERMINERS and ends:
                counts[word] += 1
    return counts


def _precise_terms(collection: Collection, terms: list[str], find: str) -> set[str]:
    """Return the terms that occur in enough of the first items that they find."""
    precise = set[str]()
    with suppress(InputError):  # the model may read no texts
        found = collection.search(terms, find=find) if terms else []
        for term, matches in zip(terms, found, strict=True):
            fitting = [m for m in matches if term in (*_words(m.item.text), *m.item.labels)]
            if len(fitting) >= MIN_PRECISION * len(matches) > 0:
                precise.add(term)
    return precise


def frequent_labels(items: Sequence[Item], n: int = 30) -> list[str]:
    """Return the ``n`` most frequent labels."""
    counts = Counter(label for item in items for label in item.labels)
    return [label for label, _ in counts.most_common(n)]


def _sample_keys(collection: Collection, items: Sequence[Item], n: int = N_SAMPLES) -> list[str]:
    """Return keys of at most ``n`` items with thumbnails, evenly spaced."""
    keys = [item.key for item in items][:: max(1, -(-len(items) // n))]
    ids = collection.ids_of(keys)
    stored = collection.items_of(list(ids.values()), ["thumbnail"])
    return [
        key
        for key, item in zip(ids, stored, strict=True)
        if item is not None and item.thumbnail is not None
    ]
