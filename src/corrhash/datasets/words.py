"""WordForm: how a text becomes words, the same for a caption to learn from and one to search."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from corrhash.errors import InputError, did_you_mean

SPLITS = {"words": re.compile(r"\w+"), "tags": re.compile(r"\S+")}


@dataclass(frozen=True)
class WordForm:
    """Lower case, one form of each Unicode character, then split, sifted and stemmed.

    Parameters
    ----------
    split : ``words`` at everything that is no letter or digit, for sentences; ``tags`` at spaces
        alone, for lists of tags, which may hold any other sign.
    stop_words : leave out English function words (and, is, with).
    stem : the language to bring words to their stems in (boats, boat -> boat), such as
        ``english``; needs ``corrhash[stemming]``.

    Examples
    --------
    >>> WordForm().words_of("Two BOATS, at the café")
    ['two', 'boats', 'at', 'the', 'café']
    >>> WordForm(stop_words=True, stem="english").words_of("Two BOATS, at the café")
    ['boat', 'café']
    >>> WordForm("tags").words_of("c++ D80")
    ['c++', 'd80']
    """

    split: str = "words"
    stop_words: bool = False
    stem: str | None = None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(
                f"Texts are split into {' or '.join(SPLITS)}. Got {self.split!r}. Choose one."
            )
        if self.stem is not None:
            _stemmer(self.stem)

    def words_of(self, text: str) -> list[str]:
        """The words of a text, in its order."""
        words = SPLITS[self.split].findall(unicodedata.normalize("NFKC", text).lower())
        if self.stop_words:
            stop = _stop_words()
            words = [word for word in words if word not in stop]
        if self.stem is not None:
            words = [*map(_stemmer(self.stem), words)]
        return words


@cache
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return ENGLISH_STOP_WORDS


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    """A function from a word to its stem; it remembers the words that it has seen."""
    try:
        import snowballstemmer
    except ImportError as error:
        raise InputError(
            "Stemming needs a package: pip install 'corrhash[stemming]'. Or leave stem out."
        ) from error
    known = snowballstemmer.algorithms()
    if language not in known:
        raise InputError(
            f"There is no stemmer for {language!r}.{did_you_mean(str(language), known)} "
            f"Choose one of: {', '.join(sorted(known))}."
        )
    return cache(snowballstemmer.stemmer(language).stemWord)
