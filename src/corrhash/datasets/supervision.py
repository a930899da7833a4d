"""What a method is taught: labels, words that act as labels, the pairing alone, or judged pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from corrhash.atomic_write import atomic_write
from corrhash.datasets.base import PairedDataset, RetrievalSplit, without_words
from corrhash.datasets.judged_split import JudgedSplit, deal_out
from corrhash.datasets.judgements import read_judgements
from corrhash.datasets.label_words import FEWEST, LARGEST_SHARE, LabelWords, label_words
from corrhash.datasets.text_files import read_text
from corrhash.errors import InputError, did_you_mean
from corrhash.relevance import Similarity

CHOICES = ("labels", "words", "pairs")
NOT_NEEDED = "none"

WORDS_FILE = "words.txt"
WORDS_SHOWN = 12

ENOUGH_TO_VALIDATE = 20
"""Similar pairs among validation items; with fewer, MAP would say little about an epoch."""


@dataclass(frozen=True, eq=False)
class Supervision:
    """Training and validation pairs as a method is taught with them.

    Queries and database keep their true labels, so that models are measured alike.

    Parameters
    ----------
    name : labels, words, pairs, the file of judged pairs, or none.
    train, validation : what to give to ``fit``; without validation it holds out a tenth.
    notes : sentences that tell what was made of the data.
    words : the words that act as labels, as a list to edit; empty for other supervision.
    """

    name: str
    train: PairedDataset
    validation: PairedDataset | None
    notes: tuple[str, ...]
    words: str = ""

    def save_words(self, folder: str | Path) -> Path | None:
        """Write the list of words beside a model, if words act as labels."""
        if not self.words:
            return None
        path = Path(folder) / WORDS_FILE
        with atomic_write(path) as file:
            file.write(self.words.encode())
        return path


def supervise(
    split: RetrievalSplit,
    choice: str | Path | None = None,
    words_file: str | Path | None = None,
    *,
    needed: bool = True,
) -> Supervision:
    """The training and validation pairs of a split with what tells similar from dissimilar.

    Parameters
    ----------
    split : a dataset, read.
    choice : ``labels``; ``words``, of which those that at least 20 and at most a fifth of the
        training items carry act as labels; ``pairs``, where an image is similar to its own text
        alone; or a file of judged pairs. By default labels where there are any, else words where
        one qualifies, else pairs.
    words_file : the words that act as labels, one a line, in place of those that qualify.
    needed : whether the method learns from any of these; ``Hasher.needs_labels`` tells.

    Examples
    --------
    >>> from corrhash.datasets import load_dataset
    >>> taught = supervise(load_dataset("synthetic"), "pairs")
    >>> taught.train.similarity.block([0, 1], [0, 1])
    array([[ 1, -1],
           [-1,  1]], dtype=int8)
    >>> print(taught.notes[0])
    Supervision: pairs; an image is similar to its own text alone. 0.0333 % of the training pairs
    are similar.
    """
    check_choice(choice, words_file)
    if not needed:
        taught = _by_nothing(split, choice or words_file)
    elif choice == "labels" or (choice is words_file is None and split.pairs.labels is not None):
        taught = _by_labels(split)
    elif choice in (None, "words"):
        taught = _by_words(split, words_file, or_pairs=choice is words_file is None)
    elif choice == "pairs":
        taught = _by_pairs(split)
    else:
        taught = _by_judgements(split, Path(choice))
    return replace(taught, notes=(*taught.notes, *_note_of_empty_texts(split.train)))


def check_choice(choice: str | Path | None, words_file: str | Path | None = None) -> None:
    """Whether :func:`supervise` knows such a supervision, asked before the work of reading data."""
    if words_file is not None and choice not in (None, "words"):
        raise InputError(
            f"A list of words goes with the supervision 'words'. Got {str(choice)!r}. "
            "Leave one of the two out."
        )
    if words_file is not None:
        read_text(words_file)
    if choice not in (None, *CHOICES) and not Path(choice).is_file():
        raise InputError(
            f"There is no supervision {str(choice)!r}, and no such file of judged pairs."
            f"{did_you_mean(str(choice), CHOICES)} Choose {', '.join(CHOICES)}, or a file."
        )


def _by_nothing(split: RetrievalSplit, unused: str | Path | None) -> Supervision:
    note = "Supervision: none; the method learns from the pairs alone"
    note += "." if unused is None else f", and {str(unused)!r} plays no part."
    return Supervision(NOT_NEEDED, split.train, _or_none(split.validation), (note,))


def _by_labels(split: RetrievalSplit) -> Supervision:
    if split.pairs.labels is None:
        raise InputError(
            f"{split.name or 'The dataset'} has no labels. Let words act as labels, or learn from "
            "the pairs: --supervision words or pairs."
        )
    train, validation = _labelled(split.train), _labelled(split.validation)
    what = f"Supervision: labels, {split.pairs.labels.shape[1]:,} classes."
    note = f"{what} {_note_of_labels(split, train)}"
    return Supervision("labels", train, _or_none(validation), (note,))


def _by_words(
    split: RetrievalSplit, words_file: str | Path | None, *, or_pairs: bool
) -> Supervision:
    """Words as labels; ``or_pairs`` says whether the pairing may do if no word qualifies."""
    words = label_words(split, words_file)
    if not words.names and or_pairs:
        return _by_pairs(split)
    if not words.names:
        raise InputError(
            f"No word is carried by at least {FEWEST} of the {len(split.train):,} training items "
            f"and by at most {100 * LARGEST_SHARE:.0f} % of them, so that none can act as a label. "
            "Choose words yourself (--words FILE), or learn from the pairs (--supervision pairs)."
        )
    train, validation = (
        _labelled(
            replace(part, labels=words.labels[rows], label_names=words.names, labels_are_words=True)
        )
        for part, rows in (
            (split.train, split.train_rows),
            (split.validation, split.validation_rows),
        )
    )
    if not len(train):
        raise InputError(
            f"No training item carries one of the words in {words_file}. Choose more frequent ones."
        )
    note = f"{_note_of_words(words)} {_note_of_labels(split, train)}"
    return Supervision("words", train, _or_none(validation), (note,), words.text)


def _by_pairs(split: RetrievalSplit) -> Supervision:
    train, validation = (
        replace(part.without_labels(), similarity=Similarity.partners(len(part)))
        for part in (split.train, split.validation)
    )
    assert train.similarity is not None
    what = "Supervision: pairs; an image is similar to its own text alone."
    note = f"{what} {_note_of_share(train.similarity)}"
    return Supervision("pairs", train, _or_none(validation), (note,))


def _by_judgements(split: RetrievalSplit, path: Path) -> Supervision:
    judgements = read_judgements(path, split.pairs.row_keys())
    judged = deal_out(judgements.triples, split)
    if not judged.train.n_known:
        raise InputError(
            f"None of the {len(judgements.triples):,} judged pairs in {path} is of two training "
            "items. Queries and validation items are kept apart: judge more pairs, or other ones."
        )
    train, validation = (
        replace(part.without_labels(), similarity=similarity)
        for part, similarity in ((split.train, judged.train), (split.validation, judged.validation))
    )
    enough = judged.validation.gains().nnz >= ENOUGH_TO_VALIDATE
    notes = (
        f"Supervision: {path.name}, {judged.train.n_known:,} judged pairs of training items. "
        f"{_note_of_share(judged.train)} {_note_of_unknown(judged.train)}",
        *_notes_of_the_rest(judged, judgements.repeated, enough=enough),
    )
    return Supervision(path.name, train, validation if enough else None, notes)


def _labelled(pairs: PairedDataset) -> PairedDataset:
    """The items with a label: one without is similar to nothing, not even to its own text."""
    assert pairs.labels is not None
    has_label = np.diff(pairs.labels.indptr) > 0
    return pairs if has_label.all() else pairs.take(has_label)


def _or_none(validation: PairedDataset) -> PairedDataset | None:
    return validation if len(validation) else None


def _note_of_words(words: LabelWords) -> str:
    shown = ", ".join(words.names[:WORDS_SHOWN])
    more = f" and {len(words.names) - WORDS_SHOWN:,} more" if len(words.names) > WORDS_SHOWN else ""
    return f"Supervision: {len(words.names):,} words act as labels: {shown}{more}."


def _note_of_labels(split: RetrievalSplit, train: PairedDataset) -> str:
    n, n_left_out = len(split.train), len(split.train) - len(train)
    left_out = f"{n_left_out:,} of {n:,} training items carry none and are left out."
    return f"{left_out} {_note_of_share(Similarity.from_labels(train.labels))}"


def _note_of_share(relation: Similarity) -> str:
    kind = "training" if relation.judged is None else "judged"
    return f"{100 * relation.share_similar:.3g} % of the {kind} pairs are similar."


def _note_of_unknown(judged: Similarity) -> str:
    assert judged.judged is not None
    known = judged.judged.tocoo()
    n_images = judged.shape[0] - len(np.unique(known.row))
    n_texts = judged.shape[1] - len(np.unique(known.col))
    return f"{n_images:,} training images and {n_texts:,} training texts are in no judged pair."


def _notes_of_the_rest(judged: JudgedSplit, repeated: list[int], *, enough: bool) -> Iterator[str]:
    """What became of the judged pairs that are not trained on."""
    yield (
        f"{judged.n_of_queries:,} judged pairs touch a query and are left out; {judged.n_across:,} "
        "more are not of two training or two validation items."
    )
    n_similar = judged.validation.gains().nnz
    if enough:
        yield f"Validation asks for {n_similar:,} similar pairs among validation items."
    else:
        yield (
            f"Only {n_similar:,} similar pairs are among validation items, so that a tenth of the "
            "judged pairs is held out for validation."
        )
    if repeated:
        yield (
            f"{len(repeated):,} lines say again what another line says (the first is line "
            f"{repeated[0]}) and count once."
        )


def _note_of_empty_texts(train: PairedDataset) -> tuple[str, ...]:
    n_empty = int(without_words(train.texts).sum())
    if not n_empty:
        return ()
    return (f"{n_empty:,} of {len(train):,} training texts have no word of the vocabulary.",)
