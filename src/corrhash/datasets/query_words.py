"""The words of a query that a vocabulary lacks: name them, and suggest similar terms."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from corrhash.datasets.vocabulary import ENGLISH_STOP_WORDS, PATTERNS, Vocabulary

MIN_SIMILARITY = 0.7
"""Of a suggestion: twice the matching letters, divided by all letters of both words."""

SHOWN = 5


@dataclass(frozen=True)
class QueryWords:
    """What is wrong with the words of a query.

    Parameters
    ----------
    unknown : words that are not in the vocabulary, in the order of the query.
    suggestions : a similar term of the vocabulary for some of them.
    function_words : the query, if all of its words are function words (the, of, with).
    """

    unknown: tuple[str, ...] = ()
    suggestions: Mapping[str, str] = field(default_factory=dict)
    function_words: str = ""

    @property
    def message(self) -> str:
        """The message for the user; empty if every word is known."""
        if self.function_words:
            return (
                f"{self.function_words!r} consists of function words only. Add a word that names "
                "something, such as a noun."
            )
        if not self.unknown:
            return ""
        words = [repr(word) for word in self.unknown[:SHOWN]]
        if len(self.unknown) > SHOWN:
            words = [*words, f"{len(self.unknown) - SHOWN:,} more words"]
        *first, last = words
        named = f"{', '.join(first)} and {last} are" if first else f"{last} is"
        similar = " or ".join(map(repr, dict.fromkeys(self.suggestions.values())))
        hint = f" Did you mean {similar}?" if similar else ""
        return f"{named} not in this collection's vocabulary.{hint}"


class WordChecker:
    """Finds unknown words of queries, and terms that differ from them by one or two letters.

    Two words are compared if they are equal after deleting at most one letter of each, so that a
    lookup does not depend on the size of the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self._vocabulary = vocabulary
        self._terms = set(() if vocabulary is None else vocabulary.terms)
        self._by_part: dict[str, list[str]] = {}
        for term in sorted(self._terms - ENGLISH_STOP_WORDS):
            for part in _parts(term):
                self._by_part.setdefault(part, []).append(term)

    def check(self, text: str) -> QueryWords:
        """Return what is wrong with the words of a query."""
        split = "words" if self._vocabulary is None else self._vocabulary.tokenizer.split
        words = PATTERNS[split].findall(unicodedata.normalize("NFKC", text).lower())
        if words and all(word in ENGLISH_STOP_WORDS for word in words):
            return QueryWords(function_words=text.strip())
        unknown = tuple(dict.fromkeys(word for word in words if not self._is_known(word)))
        similar = {word: self._suggest(word) for word in unknown}
        return QueryWords(unknown, {word: term for word, term in similar.items() if term})

    def _is_known(self, word: str) -> bool:
        if self._vocabulary is None or word in ENGLISH_STOP_WORDS:
            return True
        if self._vocabulary.tokenizer.stem is None and word in self._terms:
            return True  # as most words of most queries, and quicker
        return any(term in self._terms for term in self._vocabulary.tokenizer.tokenize(word))

    def _suggest(self, word: str) -> str:
        """Return the most similar term, or an empty string."""
        near = {term for part in _parts(word) for term in self._by_part.get(part, ())}
        similarity = {term: SequenceMatcher(None, word, term).ratio() for term in near}
        best = max(sorted(near), key=lambda term: similarity[term], default="")
        return best if similarity.get(best, 0) >= MIN_SIMILARITY else ""


def _parts(word: str) -> Iterator[str]:
    """Yield a word, and the word without each of its letters."""
    yield word
    yield from {word[:at] + word[at + 1 :] for at in range(len(word))} if len(word) > 2 else ()


def joined_message(found: Iterable[QueryWords]) -> str:
    """Return the messages of several queries as one text, each once."""
    return " ".join(dict.fromkeys(one.message for one in found if one.message))
