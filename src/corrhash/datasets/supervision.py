"""Supervision: train on labels, pseudo-labels, the pairing alone, or relevance judgments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from corrhash._files import atomic_write, read_text
from corrhash.datasets.base import PairedDataset, RetrievalSplit, is_empty_text
from corrhash.datasets.judgments import SplitJudgments, read_judgments, split_judgments
from corrhash.datasets.pseudo_labels import (
    MAX_SHARE,
    MIN_ITEMS,
    PseudoLabels,
    choose_pseudo_labels,
)
from corrhash.errors import InputError, ParameterError, did_you_mean
from corrhash.similarity import Labels, Similarity

CHOICES = ("labels", "pseudo-labels", "pairs")
WAYS_OUT = (
    "Add more items, choose the terms yourself (--pseudo-labels FILE), or train on pairs "
    "(--method chn-plus --supervision pairs)."
)
NONE = "none"

PSEUDO_LABELS_FILE = "pseudo_labels.txt"
TERMS_SHOWN = 12

MIN_VALIDATION_PAIRS = 20
"""With fewer similar pairs among validation items, their mAP is too noisy to select an epoch."""


@dataclass(frozen=True, eq=False)
class Supervision:
    """Training and validation pairs with the similarity that a method learns from.

    Queries and database keep their true labels, so all models are evaluated alike.

    Parameters
    ----------
    name : labels, pseudo-labels, pairs, the name of the file of judgments, or none.
    train, validation : arguments of ``fit``; without validation it holds out a tenth.
    notes : sentences that describe the supervision.
    pseudo_labels : the terms used as labels, as a list to edit; empty for other supervision.
    labels : labels of all items of the dataset, or their pseudo-labels; None if there are none.
    """

    name: str
    train: PairedDataset
    validation: PairedDataset | None
    notes: tuple[str, ...]
    pseudo_labels: str = ""
    labels: Labels | None = None

    def save_pseudo_labels(self, folder: str | Path) -> Path | None:
        """Write the list of pseudo-labels into the folder of a model, if they are used."""
        if not self.pseudo_labels:
            return None
        path = Path(folder) / PSEUDO_LABELS_FILE
        with atomic_write(path) as file:
            file.write(self.pseudo_labels.encode())
        return path


def supervise(
    split: RetrievalSplit,
    choice: str | Path | None = None,
    pseudo_labels_file: str | Path | None = None,
    *,
    needed: bool = True,
    pairs_suffice: bool = True,
) -> Supervision:
    """Return the training and validation pairs of a split with the chosen supervision.

    Parameters
    ----------
    split : a dataset, read.
    choice : ``labels``; ``pseudo-labels``, the terms that at least 20 and at most a fifth of the
        training items contain; ``pairs``, where an image is similar only to its own text and to
        equal texts; or a file of relevance judgments. Defaults to labels if there are any, else to
        pairs, or to pseudo-labels for methods that do not learn from pairs.
    pseudo_labels_file : terms to use as labels, one per line, instead of those that qualify.
    needed : whether the method uses supervision (``Hasher.needs_labels``).
    pairs_suffice : whether the method can learn from pairs (``Hasher.learns_from_pairs``).

    Examples
    --------
    >>> from corrhash.datasets import load_dataset
    >>> supervision = supervise(load_dataset("synthetic"), "pairs")
    >>> supervision.train.similarity.block([0, 1], [0, 1])
    array([[ 1, -1],
           [-1,  1]], dtype=int8)
    >>> print(supervision.notes[0])
    Supervision: pairs; an image is similar to its own text and to equal texts only. 0.0333% of
    image-text combinations in the training set are similar.
    """
    check_supervision(choice, pseudo_labels_file)
    by_default = choice is pseudo_labels_file is None
    if not needed:
        result = _without_supervision(split, choice or pseudo_labels_file)
    elif choice == "labels" or (by_default and split.pairs.labels is not None):
        result = _from_labels(split)
    elif choice == "pairs" or (by_default and pairs_suffice):
        result = _from_pairs(split)
    elif choice in (None, "pseudo-labels"):
        result = _from_pseudo_labels(split, pseudo_labels_file)
    else:
        result = _from_judgments(split, Path(choice))
    labels = split.pairs.labels if result.labels is None else result.labels
    return replace(result, notes=(*result.notes, *_note_on_empty_texts(split)), labels=labels)


def check_supervision(
    choice: str | Path | None, pseudo_labels_file: str | Path | None = None
) -> None:
    """Raise an error if :func:`supervise` does not accept its arguments, before data is read."""
    if pseudo_labels_file is not None and choice not in (None, "pseudo-labels"):
        raise ParameterError(
            "pseudo_labels_file",
            f"requires the supervision 'pseudo-labels', got {str(choice)!r}. Remove one of "
            "the two options.",
        )
    if pseudo_labels_file is not None:
        read_text(pseudo_labels_file)
    if choice not in (None, *CHOICES) and not Path(choice).is_file():
        raise InputError(
            f"Unknown supervision {str(choice)!r}, and no file exists at that path."
            f"{did_you_mean(str(choice), CHOICES)} Use one of: {', '.join(CHOICES)}, or the path "
            "of a file of relevance judgments."
        )


def _without_supervision(split: RetrievalSplit, unused: str | Path | None) -> Supervision:
    note = "Supervision: none; the method learns from the pairs alone"
    note += "." if unused is None else f", and ignores {str(unused)!r}."
    return Supervision(NONE, split.train, _or_none(split.validation), (note,))


def _from_labels(split: RetrievalSplit) -> Supervision:
    if split.pairs.labels is None:
        raise InputError(
            f"{split.name or 'The dataset'} has no labels. Use --supervision pseudo-labels or "
            "pairs."
        )
    train, validation = _labelled(split.train), _labelled(split.validation)
    classes = f"Supervision: labels, {split.pairs.labels.shape[1]:,} classes."
    note = f"{classes} {_note_on_labels(split, train, 'label')}"
    return Supervision("labels", train, _or_none(validation), (note,))


def _from_pseudo_labels(split: RetrievalSplit, path: str | Path | None) -> Supervision:
    found = choose_pseudo_labels(split, path)
    if not found.names:
        raise InputError(
            f"No term occurs in at least {MIN_ITEMS} of the {len(split.train):,} training items "
            f"and in at most {100 * MAX_SHARE:.0f}% of them. {WAYS_OUT}"
        )
    train, validation = (
        _labelled(
            replace(part, labels=found.labels[rows], label_names=found.names, pseudo_labels=True)
        )
        for part, rows in (
            (split.train, split.train_rows),
            (split.validation, split.validation_rows),
        )
    )
    if not len(train):
        raise InputError(
            f"No training item contains a term from {path}. Choose more frequent terms."
        )
    if _all_alike(train):
        raise InputError(
            f"All {len(train):,} training items that have pseudo-labels have the same ones "
            f"({', '.join(found.names[:TERMS_SHOWN])}), so there is nothing to learn. {WAYS_OUT}"
        )
    note = f"{_note_on_pseudo_labels(found)} {_note_on_labels(split, train, 'pseudo-label')}"
    terms = found.text, found.labels
    return Supervision("pseudo-labels", train, _or_none(validation), (note,), *terms)


def _from_pairs(split: RetrievalSplit) -> Supervision:
    # Equal empty texts would be similar to one image and dissimilar to the others.
    parts = [part.take(~is_empty_text(part.texts)) for part in (split.train, split.validation)]
    train, validation = (
        replace(part.without_labels(), similarity=_equal_texts(part.texts)) for part in parts
    )
    if not len(train):
        raise InputError("All training texts are empty. Check the texts and the vocabulary.")
    assert train.similarity is not None
    if train.similarity.share_similar == 1:
        raise InputError(
            f"All {len(train):,} training texts are equal, so there is nothing to learn. Add texts "
            "that describe the images."
        )
    rule = "Supervision: pairs; an image is similar to its own text and to equal texts only."
    n_skipped = len(split.train) - len(train)
    skipped = f"Skipped {n_skipped:,} of {len(split.train):,} training items without text. "
    note = f"{rule} {skipped if n_skipped else ''}{_note_on_share(train.similarity)}"
    return Supervision("pairs", train, _or_none(validation), (note,))


def _equal_texts(texts: Any) -> Similarity:
    """Return the similarity in which an image is similar to its own text and to equal texts."""
    if sp.issparse(texts):
        rows = sp.csr_array(texts)
        rows.sort_indices()
        starts = list(zip(rows.indptr, rows.indptr[1:], strict=False))
        keys = [rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in starts]
    else:
        keys = [text if isinstance(text, str) else np.asarray(text).tobytes() for text in texts]
    numbers: dict[Any, int] = {}
    columns = [numbers.setdefault(key, len(numbers)) for key in keys]
    ones = np.ones(len(keys), np.uint8)
    shape = (len(keys), len(numbers))
    return Similarity.from_labels(sp.csr_array((ones, (np.arange(len(keys)), columns)), shape))


def _from_judgments(split: RetrievalSplit, path: Path) -> Supervision:
    judgments = read_judgments(path, split.pairs.row_keys())
    by_part = split_judgments(judgments.triples, split)
    if not by_part.train.n_judged:
        raise InputError(
            f"None of the {len(judgments.triples):,} judgments in {path} relates a training image "
            "to a training text. Add judgments about training items; those about queries or "
            "validation items are not used for training."
        )
    train, validation = (
        replace(part.without_labels(), similarity=similarity)
        for part, similarity in (
            (split.train, by_part.train),
            (split.validation, by_part.validation),
        )
    )
    enough = by_part.validation.gains().nnz >= MIN_VALIDATION_PAIRS
    notes = (
        f"Supervision: {path.name}, {by_part.train.n_judged:,} judgments about training items. "
        f"{_note_on_share(by_part.train)} {_note_on_unjudged(by_part.train)}",
        *_notes_on_other_judgments(by_part, judgments.repeated, enough=enough),
    )
    return Supervision(path.name, train, validation if enough else None, notes)


def _labelled(pairs: PairedDataset) -> PairedDataset:
    """Return the items with a label: others would be similar to nothing, not to their own text."""
    assert pairs.labels is not None
    has_label = np.diff(pairs.labels.indptr) > 0
    return pairs if has_label.all() else pairs.take(has_label)


def _all_alike(pairs: PairedDataset) -> bool:
    """Return whether all items have the same labels."""
    assert pairs.labels is not None
    counts = np.asarray(pairs.labels.sum(axis=0, dtype=np.int64))
    return bool(np.isin(counts, (0, len(pairs))).all())


def _or_none(validation: PairedDataset) -> PairedDataset | None:
    return validation if len(validation) else None


def _note_on_pseudo_labels(found: PseudoLabels) -> str:
    shown, n_more = ", ".join(found.names[:TERMS_SHOWN]), len(found.names) - TERMS_SHOWN
    more = f" and {n_more:,} more" if n_more > 0 else ""
    n = f"{len(found.names):,} pseudo-label{'s' * (len(found.names) != 1)}"
    return f"Supervision: {n}: {shown}{more}."


def _note_on_labels(split: RetrievalSplit, train: PairedDataset, kind: str) -> str:
    n, n_skipped = len(split.train), len(split.train) - len(train)
    skipped = f"Skipped {n_skipped:,} of {n:,} training items, which have no {kind}. "
    share = _note_on_share(Similarity.from_labels(train.labels))
    return f"{skipped if n_skipped else ''}{share}"


def _note_on_share(similarity: Similarity) -> str:
    judged = similarity.judgments is not None
    what = "the judged pairs" if judged else "image-text combinations in the training set"
    return f"{100 * similarity.share_similar:.3g}% of {what} are similar."


def _note_on_unjudged(similarity: Similarity) -> str:
    assert similarity.judgments is not None
    known = similarity.judgments.tocoo()
    n_images = similarity.shape[0] - len(np.unique(known.row))
    n_texts = similarity.shape[1] - len(np.unique(known.col))
    return f"{n_images:,} training images and {n_texts:,} training texts have no judgment."


def _notes_on_other_judgments(
    by_part: SplitJudgments, repeated: list[int], *, enough: bool
) -> Iterator[str]:
    """Yield what becomes of the judgments that are not trained on."""
    yield (
        f"Skipped {by_part.n_of_queries:,} judgments that involve queries, and "
        f"{by_part.n_across:,} whose image and text are in different parts of the split."
    )
    n_similar = by_part.validation.gains().nnz
    if enough:
        yield f"Validation uses the {n_similar:,} validation pairs that are judged similar."
    else:
        yield (
            f"Only {n_similar:,} validation pairs are judged similar, so a tenth of the training "
            "judgments is held out for validation."
        )
    if repeated:
        yield f"Ignored repeated lines: {len(repeated):,} (the first is line {repeated[0]})."


def _note_on_empty_texts(split: RetrievalSplit) -> tuple[str, ...]:
    train = split.train
    n_empty = int(is_empty_text(train.texts).sum())
    if not n_empty:
        return ()
    of_all = f"{n_empty:,} of {len(train):,} training"
    if split.reader is not None and split.reader.text_features is not None:
        return (f"{of_all} items have no text.",)
    return (f"{of_all} texts contain no term from the vocabulary.",)
