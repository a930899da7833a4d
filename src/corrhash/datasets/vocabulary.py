"""Tokenizer and Vocabulary: turn strings into term vectors, alike in training and search."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
import scipy.sparse as sp

from corrhash.errors import InputError, did_you_mean, optional_packages

PATTERNS = {"words": re.compile(r"\w+"), "tags": re.compile(r"\S+")}
STRINGS = "strings"

MIN_COUNT = 5
"""Default of ``min_count`` for 1,000 texts and more."""

FEW = 64
"""Texts, such as queries, whose rows are copied from a matrix without entries: SciPy takes longer
to check a new matrix than to multiply it."""

TEXTS_PER_COUNT = 200
"""Below that, ``min_count`` is the number of texts divided by this, and at least 1."""


ENGLISH_STOP_WORDS = frozenset(
    """
    a about above across after afterwards again against all almost alone along already also
    although always am among amongst amoungst amount an and another any anyhow anyone anything
    anyway anywhere are around as at back be became because become becomes becoming been before
    beforehand behind being below beside besides between beyond bill both bottom but by call can
    cannot cant co con could couldnt cry de describe detail do done down due during each eg
    eight either eleven else elsewhere empty enough etc even ever every everyone everything
    everywhere except few fifteen fifty fill find fire first five for former formerly forty
    found four from front full further get give go had has hasnt have he hence her here
    hereafter hereby herein hereupon hers herself him himself his how however hundred i ie if in
    inc indeed interest into is it its itself keep last latter latterly least less ltd made many
    may me meanwhile might mill mine more moreover most mostly move much must my myself name
    namely neither never nevertheless next nine no nobody none noone nor not nothing now nowhere
    of off often on once one only onto or other others otherwise our ours ourselves out over own
    part per perhaps please put rather re same see seem seemed seeming seems serious several she
    should show side since sincere six sixty so some somehow someone something sometime
    sometimes somewhere still such system take ten than that the their them themselves then
    thence there thereafter thereby therefore therein thereupon these they thick thin third this
    those though three through throughout thru thus to together too top toward towards twelve
    twenty two un under until up upon us very via was we well were what whatever when whence
    whenever where whereafter whereas whereby wherein whereupon wherever whether which while
    whither who whoever whole whom whose why will with within without would yet you your yours
    yourself yourselves
    """.split()  # noqa: SIM905
)
"""The Glasgow list of stop words, as scikit-learn ships it."""


@dataclass(frozen=True)
class Tokenizer:
    """Lowercases and Unicode-normalizes a text (NFKC), then splits, filters and stems it.

    Parameters
    ----------
    split : ``words`` (runs of letters and digits, for sentences) or ``tags`` (separated by
        whitespace only, so that tags can contain any other character).
    stop_words : whether English stop words (and, is, with) are dropped.
    stem : language of the stemmer (boats -> boat), such as ``english``. Requires
        ``corrhash[stemming]``. None disables stemming.

    Examples
    --------
    >>> Tokenizer().tokenize("Two BOATS, at the café")
    ['two', 'boats', 'at', 'the', 'café']
    >>> Tokenizer(stop_words=True, stem="english").tokenize("Two BOATS, at the café")
    ['boat', 'café']
    >>> Tokenizer("tags").tokenize("c++ D80")
    ['c++', 'd80']
    """

    split: str = "words"
    stop_words: bool = False
    stem: str | None = None

    def __post_init__(self) -> None:
        if self.split not in PATTERNS:
            raise InputError(f"split must be {' or '.join(PATTERNS)}, got {self.split!r}.")
        if self.stem is not None:
            _stemmer(self.stem)

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text in their order."""
        tokens = PATTERNS[self.split].findall(unicodedata.normalize("NFKC", text).lower())
        if self.stop_words:
            tokens = [token for token in tokens if token not in ENGLISH_STOP_WORDS]
        if self.stem is not None:
            tokens = [*map(_stemmer(self.stem), tokens)]
        return tokens


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    """Return a function from a word to its stem that caches its results."""
    with optional_packages("Stemming"):
        import snowballstemmer
    known = snowballstemmer.algorithms()
    if language not in known:
        raise InputError(
            f"Unknown stemmer {language!r}.{did_you_mean(str(language), known)} "
            f"Valid languages: {', '.join(sorted(known))}."
        )
    return cache(snowballstemmer.stemmer(language).stemWord)


@dataclass(frozen=True)
class Vocabulary:
    """The terms that count; a text becomes a vector of 0 and 1 over them.

    >>> vocabulary = Vocabulary.fit(["a boat", "a blue boat", "tree"], min_count=2)
    >>> vocabulary.terms
    ('a', 'boat')
    >>> vocabulary.transform(["Boat! Boat!", "sky"]).toarray()
    array([[0., 1.],
           [0., 0.]], dtype=float32)
    """

    terms: tuple[str, ...]
    tokenizer: Tokenizer = field(default_factory=Tokenizer)

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        min_count: int = 1,
        top: int | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> Vocabulary:
        """Collect the terms of at least ``min_count`` texts, or the ``top`` most frequent ones."""
        tokenizer = tokenizer or Tokenizer()
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(set(tokenizer.tokenize(text)))
        by_frequency = sorted(counts, key=lambda term: (-counts[term], term))
        terms = [term for term in by_frequency if counts[term] >= min_count][:top]
        if not terms:
            raise InputError(
                f"No term occurs in at least {min_count} texts ({len(counts)} different terms). "
                "Lower min_count or check the texts."
            )
        return cls(tuple(sorted(terms)), tokenizer)

    @cached_property
    def _column_of(self) -> dict[str, int]:
        return {term: column for column, term in enumerate(self.terms)}

    def transform(self, texts: Sequence[str]) -> sp.csr_array:
        """Return (n, n_terms) of 0 and 1: which terms occur in each text."""
        column_of = self._column_of
        columns = [
            sorted({column_of[t] for t in self.tokenizer.tokenize(text) if t in column_of})
            for text in texts
        ]
        n_entries = sum(map(len, columns))
        index_type = np.int32 if n_entries < 2**31 else np.int64  # other types are converted
        ends = np.cumsum([0, *map(len, columns)], dtype=index_type)
        indices = np.array([c for row in columns for c in row], dtype=index_type)
        ones = np.ones(len(indices), dtype=np.float32)
        if len(texts) > FEW:
            return sp.csr_array((ones, indices, ends), shape=(len(texts), len(self.terms)))
        rows = copy(_empty_rows(len(texts), len(self.terms)))
        rows.data, rows.indices, rows.indptr = ones, indices, ends
        return rows


@cache
def _empty_rows(n: int, n_terms: int) -> sp.csr_array:
    return sp.csr_array((n, n_terms), dtype=np.float32)


@dataclass(frozen=True)
class TextOptions:
    """What strings become: vectors over frequent terms, or the strings themselves.

    Parameters
    ----------
    form : ``words`` of sentences, ``tags`` separated by whitespace, or ``strings``, which are
        passed to text encoders unchanged.
    min_count : terms of fewer texts are dropped. Defaults to 5, and less below 1,000 texts.
    top : number of terms to keep, the most frequent first; all if None.
    stop_words : whether English stop words are dropped.
    stem : language of the stemmer; None disables stemming.
    """

    form: str = "words"
    min_count: int | None = None
    top: int | None = None
    stop_words: bool = False
    stem: str | None = None

    def __post_init__(self) -> None:
        if self.form not in (*PATTERNS, STRINGS):
            raise InputError(
                f"form must be one of {', '.join((*PATTERNS, STRINGS))}, got {self.form!r}."
            )
        for name in ("min_count", "top"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InputError(f"{name} must be a positive integer, got {value!r}.")

    def vocabulary(self, texts: Sequence[str]) -> Vocabulary | None:
        """Fit the vocabulary of some texts; None if strings are passed on."""
        if self.form == STRINGS:
            return None
        default = max(1, min(MIN_COUNT, len(texts) // TEXTS_PER_COUNT))
        tokenizer = Tokenizer(self.form, self.stop_words, self.stem)
        return Vocabulary.fit(texts, self.min_count or default, self.top, tokenizer)
