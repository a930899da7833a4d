"""Reader: turn raw images and strings into the arrays that a model reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from corrhash._model_files import Keys, check_keys, loading, read_json, write_json
from corrhash.datasets.base import PairedDataset, RetrievalSplit, is_vectors
from corrhash.datasets.image_features import SIMPLE, ImageFeatures, as_image_features
from corrhash.datasets.query_words import QueryWords, WordChecker
from corrhash.datasets.text_features import TextFeatures, as_text_features
from corrhash.datasets.vocabulary import TextOptions, Tokenizer, Vocabulary
from corrhash.errors import InputError, ParameterError

READER_FILE = "reader.json"
FORMAT = "corrhash reader 3"
OPTIONAL_OBJECT, OPTIONAL_TEXT = (dict, type(None)), (str, type(None))
KEYS: Keys = {
    "vocabulary": OPTIONAL_OBJECT,
    "image_features": OPTIONAL_OBJECT,
    "text_features": OPTIONAL_OBJECT,
}
VOCABULARY_KEYS: Keys = {"terms": list, "tokenizer": dict}
TOKENIZER_KEYS: Keys = {"split": str, "stop_words": bool, "stem": OPTIONAL_TEXT}
IMAGE_FEATURES_KEYS: Keys = {"name": str, "weights": OPTIONAL_TEXT, "sha256": OPTIONAL_TEXT}
TEXT_FEATURES_KEYS: Keys = {"name": str, "sha256": OPTIONAL_TEXT}


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
            "vocabulary": vocabulary,
            "image_features": self.image_features and self.image_features.description(),
            "text_features": self.text_features and self.text_features.description(),
        }
        write_json(Path(folder), READER_FILE, FORMAT, content)

    @classmethod
    def load(cls, folder: str | Path, *, allow_download: bool = False) -> Reader:
        """Read what :meth:`save` wrote.

        The network that computes image features must be on this machine, unless
        ``allow_download`` is set.
        """
        path = Path(folder) / READER_FILE
        try:
            content = read_json(Path(folder), READER_FILE, FORMAT, KEYS)
        except FileNotFoundError as error:
            raise InputError(f"{folder} is not a model: {path} not found.") from error
        with loading(folder):
            reader = cls(
                _loaded_vocabulary(content["vocabulary"], path),
                _image_features(content["image_features"], path),
                _text_features(content["text_features"], path),
            )
            return reader if allow_download else reader.local_only()

    def local_only(self) -> Reader:
        """Return the same reader, whose encoders are not downloaded."""
        images, texts = self.image_features, self.text_features
        return replace(
            self,
            image_features=images and replace(images, local_only=True),
            text_features=texts and replace(texts, local_only=True),
        )


def _loaded_vocabulary(saved: dict[str, Any] | None, path: Path) -> Vocabulary | None:
    if saved is None:
        return None
    where = f"The vocabulary in {path}"
    check_keys(saved, VOCABULARY_KEYS, where)
    if not all(isinstance(term, str) for term in saved["terms"]):
        raise InputError(f"{where} has terms that are not strings. Train the model again.")
    tokenizer = check_keys(saved["tokenizer"], TOKENIZER_KEYS, where)
    return Vocabulary(tuple(saved["terms"]), Tokenizer(**tokenizer))


def _image_features(saved: dict[str, Any] | None, path: Path) -> ImageFeatures | None:
    if saved is None:
        return None
    where = f"The image features in {path}"
    features = ImageFeatures(**check_keys(saved, IMAGE_FEATURES_KEYS, where))
    if features.name != SIMPLE:
        _check_pinned(features, where)
    return features


def _text_features(saved: dict[str, Any] | None, path: Path) -> TextFeatures | None:
    if saved is None:
        return None
    where = f"The text features in {path}"
    features = TextFeatures(**check_keys(saved, TEXT_FEATURES_KEYS, where))
    _check_pinned(features, where)
    return features


def _check_pinned(features: ImageFeatures | TextFeatures, where: str) -> None:
    """Raise an error unless a model states the checksum of its encoder."""
    if len(features.sha256 or "") != 64:
        raise InputError(
            f"{where} must state the SHA-256 of {features.name[:100]}, got {features.sha256!r}. "
            "Train the model again."
        )


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
