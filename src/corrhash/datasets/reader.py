"""Reader: turn raw images and strings into the arrays that a model reads."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from corrhash._files import atomic_write
from corrhash.datasets.base import PairedDataset, RetrievalSplit, is_vectors
from corrhash.datasets.image_features import ImageFeatures, as_image_features
from corrhash.datasets.query_words import QueryWords, WordChecker
from corrhash.datasets.text_features import TextFeatures, as_text_features
from corrhash.datasets.vocabulary import TextOptions, Tokenizer, Vocabulary
from corrhash.errors import InputError, ParameterError

READER_FILE = "reader.json"
FORMAT = "corrhash reader 3"
OLDER_FORMATS = ("corrhash reader 2",)  # without text features


@dataclass(frozen=True)
class Reader:
    """Turns images and strings into what a model reads, and is saved with the model.

    Parameters
    ----------
    vocabulary : the terms that texts are reduced to; None leaves texts unchanged. With
        ``text_features``, the terms of the training texts, for pseudo-labels and examples.
    image_features : what images are turned into; None leaves images unchanged.
    text_features : the sentence encoder of texts; None reduces them to the vocabulary.
    """

    vocabulary: Vocabulary | None = None
    image_features: ImageFeatures | None = None
    text_features: TextFeatures | None = None

    def read_images(self, images: Any) -> Any:
        """Return the feature vectors of images; feature vectors pass through."""
        if self.image_features is None or is_vectors(images):
            return images
        return self.image_features.of_images(images)

    def read_texts(self, texts: Any, *, use_cache: bool = False) -> Any:
        """Return the term vectors or features of strings; arrays pass through."""
        if not isinstance(texts, (list, tuple)):
            return texts
        if self.text_features is not None:
            read = self.text_features.of_dataset if use_cache else self.text_features.of_texts
            return read(texts)
        return texts if self.vocabulary is None else self.vocabulary.transform(texts)

    def check_words(self, text: str) -> QueryWords:
        """Return which words of a query are unknown, with suggestions.

        A sentence encoder reads any word, so that only queries of function words are reported.
        """
        return self._word_checker.check(text)

    @cached_property
    def _word_checker(self) -> WordChecker:
        return WordChecker(None if self.text_features is not None else self.vocabulary)

    def read(self, pairs: PairedDataset) -> PairedDataset:
        """Read both modalities of a dataset; features of networks are cached."""
        images, features = pairs.images, self.image_features
        if features is not None and (features.of_file or not is_vectors(images)):
            images = features.of_dataset(images)
        return replace(pairs, images=images, texts=self.read_texts(pairs.texts, use_cache=True))

    def read_split(self, split: RetrievalSplit) -> RetrievalSplit:
        """Read all pairs of a split."""
        texts = split.pairs.texts
        strings = texts if isinstance(texts, list) else None
        return replace(split, pairs=self.read(split.pairs), reader=self, strings=strings)

    def save(self, folder: str | Path) -> None:
        """Write the reader into the folder of a model."""
        vocabulary = None if self.vocabulary is None else asdict(self.vocabulary)
        content = {
            "format": FORMAT,
            "vocabulary": vocabulary,
            "image_features": self.image_features and self.image_features.description(),
            "text_features": self.text_features and self.text_features.description(),
        }
        with atomic_write(Path(folder) / READER_FILE) as file:
            file.write(json.dumps(content, ensure_ascii=False, indent=1).encode())

    @classmethod
    def load(cls, folder: str | Path) -> Reader:
        """Read what :meth:`save` wrote."""
        path = Path(folder) / READER_FILE
        try:
            content = json.loads(path.read_bytes())
            if content["format"] not in (FORMAT, *OLDER_FORMATS):
                raise ValueError(f"format {content['format']!r}, not {FORMAT!r}")
            saved, of_images = content["vocabulary"], content["image_features"]
            of_texts = content.get("text_features")
            vocabulary = None
            if saved is not None:
                vocabulary = Vocabulary(tuple(saved["terms"]), Tokenizer(**saved["tokenizer"]))
            image_features = None if of_images is None else ImageFeatures(**of_images)
            text_features = None if of_texts is None else TextFeatures(**of_texts)
        except FileNotFoundError as error:
            raise InputError(f"{folder} is not a model: {path} not found.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"Cannot read {path} ({error}). Train the model again.") from error
        return cls(vocabulary, image_features, text_features)


def fit_reader(
    split: RetrievalSplit,
    image_features: str | ImageFeatures | None = None,
    texts: TextOptions | None = None,
    text_features: str | TextFeatures | None = None,
) -> Reader:
    """Return the reader for a split; terms are counted on all items but the queries.

    A dataset that is published with its vocabulary keeps it unless ``texts`` is given.
    """
    features, encoder = as_image_features(image_features), as_text_features(text_features)
    name = split.name or "this dataset"
    if features is not None:
        if features.of_network and is_vectors(split.pairs.images):
            raise ParameterError(
                "image_features",
                f"{features.name} needs images, but {name} has feature vectors already. Remove it.",
            )
        features = features.pinned()
    if encoder is not None:
        if not isinstance(split.pairs.texts, list):
            raise ParameterError(
                "text_features",
                f"{encoder.name} needs strings, but the texts of {name} are vectors. Remove it.",
            )
        encoder = encoder.pinned()
    if texts is None and split.reader is not None:
        return replace(split.reader, image_features=features, text_features=encoder)
    if not isinstance(split.pairs.texts, list):
        if texts is not None:
            raise ParameterError(
                "texts", f"applies to strings, but the texts of {name} are vectors. Remove it."
            )
        return Reader(None, features)
    counted = [split.pairs.texts[row] for row in split.database_rows]
    return Reader(_vocabulary(counted, texts or TextOptions(), encoder), features, encoder)


def _vocabulary(
    texts: list[str], options: TextOptions, encoder: TextFeatures | None
) -> Vocabulary | None:
    """Return the terms of texts; an encoder does not need any."""
    try:
        return options.vocabulary(texts)
    except InputError:
        if encoder is None:
            raise
        return None
