"""Pseudo-labels: terms of the texts that neither few nor most items contain, used as labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from corrhash._files import read_text
from corrhash.datasets.base import RetrievalSplit, take_rows
from corrhash.datasets.vocabulary import ENGLISH_STOP_WORDS, Vocabulary
from corrhash.errors import InputError, did_you_mean

MIN_ITEMS = 20
"""Terms of fewer training items are too rare to learn from."""

MAX_SHARE = 0.2
"""Terms of a larger share of the training items (photo, nikon) are too common to be useful."""

HEADING = """\
# Pseudo-labels, with the number of training items that contain each. Delete lines or add terms of
# the vocabulary, then train again with --pseudo-labels and the name of this file.
"""


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """Terms used as labels.

    Parameters
    ----------
    names : the terms.
    labels : (n, n_terms) of 0 and 1: which item of the split contains which term.
    text : the list of terms, as a file to edit.
    """

    names: list[str]
    labels: sp.csr_array
    text: str


def choose_pseudo_labels(split: RetrievalSplit, path: str | Path | None = None) -> PseudoLabels:
    """Return the terms listed in a file, or those that 20 to a fifth of training items contain.

    English stop words are excluded unless the file lists them.
    """
    table = TermTable.from_split(split)
    if path is None:
        columns = table.select()
        text = table.to_file(columns)
    else:
        text = read_text(path)
        columns = table.listed_in(path, text)
    names = [table.names[column] for column in columns]
    return PseudoLabels(names, table.occurrences[:, columns], text)


@dataclass(frozen=True, eq=False)
class TermTable:
    """Which item contains which term.

    Parameters
    ----------
    names : the terms, one per column.
    occurrences : (n, n_terms) sparse matrix of 0 and 1, of all items of a split.
    train_rows : the items on which terms are counted.
    """

    names: Sequence[str]
    occurrences: sp.csr_array
    train_rows: np.ndarray

    @classmethod
    def from_split(cls, split: RetrievalSplit) -> TermTable:
        """Return the terms of the vocabulary; columns without one are named by number."""
        texts, reader = split.pairs.texts, split.reader
        vocabulary = None if reader is None else reader.vocabulary
        if reader is not None and reader.text_features is not None:
            texts = split.strings  # the vectors are no terms
        if isinstance(texts, list):
            vocabulary = vocabulary or Vocabulary.fit(take_rows(texts, split.train_rows))
            texts = vocabulary.transform(texts)
        numbers = [f"column {column}" for column in range(texts.shape[1])]
        names = numbers if vocabulary is None else vocabulary.terms
        return cls(names, sp.csr_array(texts != 0).astype(np.uint8), split.train_rows)

    @cached_property
    def counts(self) -> np.ndarray:
        """(n_terms,) number of training items that contain each term."""
        return np.asarray(self.occurrences[self.train_rows].sum(axis=0, dtype=np.int64)).ravel()

    def select(self) -> list[int]:
        """Return the columns of the terms that qualify, most frequent first."""
        largest = MAX_SHARE * len(self.train_rows)
        columns = np.flatnonzero((self.counts >= MIN_ITEMS) & (self.counts <= largest)).tolist()
        columns = [column for column in columns if self.names[column] not in ENGLISH_STOP_WORDS]
        return sorted(columns, key=lambda c: (-self.counts[c], self.names[c]))

    def to_file(self, columns: list[int]) -> str:
        """Return the terms of some columns as a list to edit."""
        lines = (f"{self.names[column]}  # {self.counts[column]}\n" for column in columns)
        return HEADING + "".join(lines)

    def listed_in(self, path: str | Path, text: str) -> list[int]:
        """Return the columns of the terms in a list: one per line, comments after ``#``."""
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        column_of = {name: column for column, name in enumerate(self.names)}
        unknown = [(at, term) for at, term in enumerate(lines, 1) if term and term not in column_of]
        if unknown:
            at, term = unknown[0]
            others = "" if len(unknown) == 1 else f" (and {len(unknown) - 1:,} more)"
            raise InputError(
                f"Line {at} of {path}: the term {term!r}{others} is not in the vocabulary."
                f"{did_you_mean(term, self.names)} Correct or delete the line."
            )
        columns = list(dict.fromkeys(column_of[term] for term in lines if term))
        if not columns:
            raise InputError(f"{path} lists no terms. Write one per line.")
        return columns
