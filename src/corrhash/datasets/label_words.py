"""Words that act as labels: those that neither few nor most items carry, in a list to edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from corrhash.datasets.base import RetrievalSplit, take_rows
from corrhash.datasets.reader import Vocabulary
from corrhash.datasets.text_files import read_text
from corrhash.errors import InputError, did_you_mean

FEWEST = 20
"""A word of fewer training items says too little to learn from."""

LARGEST_SHARE = 0.2
"""A word of a larger share of the training items (the, photo) says too little about each."""

HEADING = """\
# Words that act as labels, with the number of training items that carry each. Delete lines, or
# add words of the vocabulary, and train again with --words and the name of this file.
"""


@dataclass(frozen=True, eq=False)
class LabelWords:
    """Words in the place of labels.

    Parameters
    ----------
    names : of the words.
    labels : (n, n_words) of 0 and 1: which item of the split carries which word.
    text : the list of words, as a file to edit.
    """

    names: list[str]
    labels: sp.csr_array
    text: str


def label_words(split: RetrievalSplit, words_file: str | Path | None = None) -> LabelWords:
    """The words of a list, or all that at least 20 and at most a fifth of training items carry.

    Function words (and, is, with) are left out unless a list names them.
    """
    table = WordTable.of(split)
    if words_file is None:
        columns = table.frequent_enough()
        text = table.as_file(columns)
    else:
        text = read_text(words_file)
        columns = table.listed_in(words_file, text)
    names = [table.names[column] for column in columns]
    return LabelWords(names, table.carried[:, columns], text)


@dataclass(frozen=True, eq=False)
class WordTable:
    """Which item carries which word.

    Parameters
    ----------
    names : of the words, one a column.
    carried : (n, n_words) of 0 and 1, sparse: all items of a split.
    train_rows : the items on which words are counted.
    """

    names: Sequence[str]
    carried: sp.csr_array
    train_rows: np.ndarray

    @classmethod
    def of(cls, split: RetrievalSplit) -> WordTable:
        """The words of the vocabulary; columns of a table without one are named by number."""
        texts = split.pairs.texts
        vocabulary = None if split.reader is None else split.reader.vocabulary
        if isinstance(texts, list):
            vocabulary = Vocabulary.fit(take_rows(texts, split.train_rows))
            texts = vocabulary.occurrences(texts)
        numbers = [f"column {column}" for column in range(texts.shape[1])]
        names = numbers if vocabulary is None else vocabulary.words
        return cls(names, sp.csr_array(texts != 0).astype(np.uint8), split.train_rows)

    @cached_property
    def counts(self) -> np.ndarray:
        """(n_words,) how many training items carry each word."""
        return np.asarray(self.carried[self.train_rows].sum(axis=0, dtype=np.int64)).ravel()

    def frequent_enough(self) -> list[int]:
        """The columns of the words that qualify as labels, most frequent first."""
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # and, is, with, ...

        most = LARGEST_SHARE * len(self.train_rows)
        columns = np.flatnonzero((self.counts >= FEWEST) & (self.counts <= most)).tolist()
        columns = [column for column in columns if self.names[column] not in ENGLISH_STOP_WORDS]
        return sorted(columns, key=lambda c: (-self.counts[c], self.names[c]))

    def as_file(self, columns: list[int]) -> str:
        """The words of some columns as a list to edit."""
        lines = (f"{self.names[column]}  # {self.counts[column]}\n" for column in columns)
        return HEADING + "".join(lines)

    def listed_in(self, path: str | Path, text: str) -> list[int]:
        """The columns of the words that a list at ``path`` names: one a line, after # a remark."""
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        column_of = {name: column for column, name in enumerate(self.names)}
        unknown = [(at, word) for at, word in enumerate(lines, 1) if word and word not in column_of]
        if unknown:
            at, word = unknown[0]
            others = "" if len(unknown) == 1 else f" (and {len(unknown) - 1:,} more like it)"
            raise InputError(
                f"Line {at} of {path} has the word {word!r}{others}, which is not in the "
                f"vocabulary.{did_you_mean(word, self.names)} Correct or delete the line."
            )
        columns = list(dict.fromkeys(column_of[word] for word in lines if word))
        if not columns:
            raise InputError(f"{path} lists no word. Write one a line.")
        return columns
