"""Reader: turn raw images and strings into the arrays that a model reads."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from corrhash._files import atomic_write
from corrhash.datasets.base import PairedDataset, RetrievalSplit, is_vectors
from corrhash.datasets.image_features import ImageFeatures, as_image_features
from corrhash.datasets.vocabulary import TextOptions, Tokenizer, Vocabulary
from corrhash.errors import InputError, ParameterError

READER_FILE = "reader.json"
FORMAT = "corrhash reader 2"


@dataclass(frozen=True)
class Reader:
    """Turns images and strings into what a model reads, and is saved with the model.

    Parameters
    ----------
    vocabulary : the terms that texts are reduced to; None leaves texts unchanged.
    image_features : what images are turned into; None leaves images unchanged.
    """

    vocabulary: Vocabulary | None = None
    image_features: ImageFeatures | None = None

    def read_images(self, images: Any) -> Any:
        """Return the feature vectors of images; feature vectors pass through."""
        if self.image_features is None or is_vectors(images):
            return images
        return self.image_features.of_images(images)

    def read_texts(self, texts: Any) -> Any:
        """Return the term vectors of strings; arrays pass through."""
        if self.vocabulary is None or not isinstance(texts, (list, tuple)):
            return texts
        return self.vocabulary.transform(texts)

    def read(self, pairs: PairedDataset) -> PairedDataset:
        """Read both modalities of a dataset; image features of a network are cached."""
        images, features = pairs.images, self.image_features
        if features is not None and (features.of_file or not is_vectors(images)):
            images = features.of_dataset(images)
        return replace(pairs, images=images, texts=self.read_texts(pairs.texts))

    def read_split(self, split: RetrievalSplit) -> RetrievalSplit:
        """Read all pairs of a split."""
        return replace(split, pairs=self.read(split.pairs), reader=self)

    def save(self, folder: str | Path) -> None:
        """Write the reader into the folder of a model."""
        vocabulary = None if self.vocabulary is None else asdict(self.vocabulary)
        features = self.image_features and self.image_features.description()
        content = {"format": FORMAT, "vocabulary": vocabulary, "image_features": features}
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
            saved, features = content["vocabulary"], content["image_features"]
            vocabulary = None
            if saved is not None:
                vocabulary = Vocabulary(tuple(saved["terms"]), Tokenizer(**saved["tokenizer"]))
            image_features = None if features is None else ImageFeatures(**features)
        except FileNotFoundError as error:
            raise InputError(f"{folder} is not a model: {path} not found.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"Cannot read {path} ({error}). Train the model again.") from error
        return cls(vocabulary, image_features)


def fit_reader(
    split: RetrievalSplit,
    image_features: str | ImageFeatures | None = None,
    texts: TextOptions | None = None,
) -> Reader:
    """Return the reader for a split; terms are counted on all items but the queries.

    A dataset that is published with its vocabulary keeps it unless ``texts`` is given.
    """
    features = as_image_features(image_features)
    if features is not None:
        if features.of_network and is_vectors(split.pairs.images):
            raise ParameterError(
                "image_features",
                f"{features.name} needs images, but {split.name or 'this dataset'} has feature "
                "vectors already. Remove it.",
            )
        features = features.pinned()
    if texts is None and split.reader is not None:
        return replace(split.reader, image_features=features)
    if not isinstance(split.pairs.texts, list):
        if texts is not None:
            raise ParameterError(
                "texts",
                f"applies to strings, but the texts of {split.name or 'this dataset'} are vectors. "
                "Remove it.",
            )
        return Reader(None, features)
    counted = [split.pairs.texts[row] for row in split.database_rows]
    return Reader((texts or TextOptions()).vocabulary(counted), features)
