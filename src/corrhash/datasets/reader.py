"""Reader and Vocabulary: pictures and strings to arrays, alike at training and at search time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from corrhash.atomic_write import atomic_write
from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.image_features import ImageFeatures, as_image_features
from corrhash.datasets.words import SPLITS, WordForm
from corrhash.errors import InputError

READER_FILE = "reader.json"
FORMAT = "corrhash reader 1"
MIN_COUNT = 5
"""Words of fewer texts than this are not counted, unless another number is asked for."""
TEXTS_A_COUNT = 200
"""In small collections it is one count for as many texts, so that some words are left."""
STRINGS = "strings"


@dataclass(frozen=True)
class TextOptions:
    """What strings become: occurrences of frequent words or tags, or what they are.

    Parameters
    ----------
    form : ``words`` of sentences, ``tags`` with spaces between, or ``strings``, which pass through
        to encoders that read text themselves.
    min_count : words of fewer texts are left out; by default 5, and less below 1,000 texts.
    top : how many words to keep, the most frequent first; all if None.
    stop_words : leave out English function words.
    stem : a language to bring words to their stems in.
    """

    form: str = "words"
    min_count: int | None = None
    top: int | None = None
    stop_words: bool = False
    stem: str | None = None

    def __post_init__(self) -> None:
        if self.form not in (*SPLITS, STRINGS):
            raise InputError(
                f"Texts are read as {', '.join(SPLITS)} or {STRINGS}. Got {self.form!r}."
            )
        for name in ("min_count", "top"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InputError(f"{name} must be a whole number, 1 or more. Got {value!r}.")

    def vocabulary(self, texts: Sequence[str]) -> Vocabulary | None:
        """The words of some texts that count; None where strings pass through."""
        if self.form == STRINGS:
            return None
        few = max(1, min(MIN_COUNT, len(texts) // TEXTS_A_COUNT))
        form = WordForm(self.form, self.stop_words, self.stem)
        return Vocabulary.fit(texts, self.min_count or few, self.top, form)


@dataclass(frozen=True)
class Vocabulary:
    """The words that count; a text becomes a row of 0 and 1 over them.

    >>> vocabulary = Vocabulary.fit(["a boat", "a blue boat", "tree"], min_count=2)
    >>> vocabulary.words
    ('a', 'boat')
    >>> vocabulary.occurrences(["Boat! Boat!", "sky"]).toarray()
    array([[0., 1.],
           [0., 0.]], dtype=float32)
    """

    words: tuple[str, ...]
    form: WordForm = field(default_factory=WordForm)

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        min_count: int = 1,
        top: int | None = None,
        form: WordForm | None = None,
    ) -> Vocabulary:
        """The words of at least ``min_count`` texts, or the ``top`` most frequent of them."""
        form = form or WordForm()
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(set(form.words_of(text)))
        by_frequency = sorted(counts, key=lambda word: (-counts[word], word))
        words = [word for word in by_frequency if counts[word] >= min_count][:top]
        if not words:
            raise InputError(
                f"No word occurs in at least {min_count} texts ({len(counts)} different words). "
                "Lower min_count or check the texts."
            )
        return cls(tuple(sorted(words)), form)

    def occurrences(self, texts: Sequence[str]) -> sp.csr_array:
        """(n, n_words) of 0 and 1: which words occur in each text."""
        column_of = {word: column for column, word in enumerate(self.words)}
        columns = [
            sorted({column_of[word] for word in self.form.words_of(text) if word in column_of})
            for text in texts
        ]
        ends = np.cumsum([0, *map(len, columns)])
        indices = np.array([c for row in columns for c in row], dtype=np.int64)
        ones = np.ones(len(indices), dtype=np.float32)
        return sp.csr_array((ones, indices, ends), shape=(len(texts), len(self.words)))


@dataclass(frozen=True)
class Reader:
    """Turns pictures and strings into what a model reads; it is saved with the model.

    Parameters
    ----------
    vocabulary : the words that count; None leaves texts as they are.
    image_features : what pictures become, or the name of it; None leaves images as they are.
    """

    vocabulary: Vocabulary | None = None
    image_features: ImageFeatures | None = None

    def read_images(self, images: Any) -> Any:
        """Feature vectors of any pictures; feature vectors pass through."""
        if self.image_features is None or _are_vectors(images):
            return images
        return self.image_features.of_pictures(images)

    def read_texts(self, texts: Any) -> Any:
        """Word occurrences of strings; arrays pass through."""
        if self.vocabulary is None or not isinstance(texts, (list, tuple)):
            return texts
        return self.vocabulary.occurrences(texts)

    def read(self, pairs: PairedDataset) -> PairedDataset:
        """All pairs of a dataset with both sides read; features of a network come to be cached."""
        images, features = pairs.images, self.image_features
        if features is not None and (features.of_file or not _are_vectors(images)):
            images = features.of_items(images)
        return replace(pairs, images=images, texts=self.read_texts(pairs.texts))

    def read_split(self, split: RetrievalSplit) -> RetrievalSplit:
        """The split with all its pairs read."""
        return replace(split, pairs=self.read(split.pairs), reader=self)

    def save(self, folder: str | Path) -> None:
        """Write the reader into a model's folder."""
        words = None if self.vocabulary is None else asdict(self.vocabulary)
        features = self.image_features and self.image_features.description()
        content = {"format": FORMAT, "vocabulary": words, "image_features": features}
        with atomic_write(Path(folder) / READER_FILE) as file:
            file.write(json.dumps(content, ensure_ascii=False, indent=1).encode())

    @classmethod
    def load(cls, folder: str | Path) -> Reader:
        """Read what :meth:`save` wrote."""
        path = Path(folder) / READER_FILE
        try:
            content = json.loads(path.read_bytes())
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r}, not {FORMAT!r}")
            features = content["image_features"]
            image_features = None if features is None else ImageFeatures(**features)
            vocabulary = _vocabulary_of(content)
        except FileNotFoundError as error:
            raise InputError(f"There is no {path}: {folder} is not a model.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged ({error}). Train the model again.") from error
        return cls(vocabulary, image_features)


def fit_reader(
    split: RetrievalSplit,
    image_features: str | ImageFeatures | None = None,
    texts: TextOptions | None = None,
) -> Reader:
    """The reader for a split: words are counted on all items that are not queries.

    Where a dataset is published with its words, the split brings them, unless ``texts`` asks for
    others.
    """
    features = as_image_features(image_features)
    if features is not None:
        _check_pictures(split, features)
        features = features.tied()
    if texts is None and split.reader is not None:
        return replace(split.reader, image_features=features)
    if not isinstance(split.pairs.texts, list):
        if texts is not None:
            raise InputError(
                f"The texts of {split.name or 'this dataset'} are vectors already, so that there "
                "are no words to count. Leave the options of texts out."
            )
        return Reader(None, features)
    counted = [split.pairs.texts[row] for row in split.database_rows]
    return Reader((texts or TextOptions()).vocabulary(counted), features)


def _vocabulary_of(content: dict[str, Any]) -> Vocabulary | None:
    """The words of a saved reader; the first ones had no form but that of plain words."""
    if "words" in content:
        return None if content["words"] is None else Vocabulary(tuple(content["words"]))
    saved = content["vocabulary"]
    return None if saved is None else Vocabulary(tuple(saved["words"]), WordForm(**saved["form"]))


def _check_pictures(split: RetrievalSplit, features: ImageFeatures) -> None:
    """A network needs pictures; ``simple``, the default of many methods, lets vectors pass."""
    if features.of_network and _are_vectors(split.pairs.images):
        raise InputError(
            f"Image features {features.name} are computed from pictures, and the images of "
            f"{split.name or 'this dataset'} are feature vectors already. Leave them out."
        )


def _are_vectors(images: Any) -> bool:
    return getattr(images, "ndim", 0) == 2
