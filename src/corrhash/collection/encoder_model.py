"""A model of an aligned encoder such as CLIP: search by text without captions or training."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from corrhash._progress import report
from corrhash.collection.encoding import LazyImages
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.reader import Reader
from corrhash.datasets.records import Record, UnreadableRecord
from corrhash.datasets.text_features import TextFeatures
from corrhash.errors import InputError, ParameterError
from corrhash.methods import METHODS
from corrhash.model import Model

N_SAMPLES = 2000
"""Images that means and directions are learned from."""

MIN_IMAGES = 2
BATCH = 256

SUBJECTS = """
    airplane; apple; baby; bag; bed; beach; bear; bench; bicycle; bird; birthday cake; boat; book;
    boy; bridge; building; bus; butterfly; cake; camera; car; castle; cat; chair; child; church;
    city at night; clock; clouds; coffee; computer; cow; crowd; dancer; deer; desk; dinner; dog;
    door; elephant; face; family; farm; field; fire; fireworks; fish; flag; flower; food; football;
    forest; friends; fruit; garden; girl; glass; group of people; guitar; hat; hill; horse; house;
    ice cream; insect; island; kitchen; lake; lamp; leaves; library; man; map; market; meadow;
    monkey; moon; motorcycle; mountain; mouse; museum; musician; ocean; office; old woman; painting;
    park; party; phone; pizza; plant; poster; rain; restaurant; river; road; rock; room; school;
    screenshot; sea; sheep; ship; shoes; sign; sky; snow; soldier; stadium; stairs; statue; street;
    sun; sunset; table; temple; tent; text; toy; tower; traffic; train; tree; truck; umbrella;
    valley; vegetables; village; wall; water; waterfall; wedding; window; winter; woman; writing
"""
"""Everyday subjects of photos: their texts show where texts lie in the space of an encoder."""


def subject_texts() -> list[str]:
    """Return the texts that represent queries."""
    subjects = [" ".join(each.split()) for each in SUBJECTS.split(";")]
    return [text for each in subjects for text in (each, f"a photo of a {each}")]


def encoder_model(
    encoder: str, records: Iterable[Record | UnreadableRecord], n_bits: int, method: str = "itq"
) -> Model:
    """Return a model that encodes images and texts with an aligned encoder.

    Parameters
    ----------
    encoder : ``onnx:`` or ``hf:`` and a source that encodes images and texts.
    records : of the images to index; up to 2,000 of them are read.
    n_bits : code length.
    method : ``itq`` or ``lsh``.
    """
    if method not in ("itq", "lsh"):
        raise ParameterError("method", f"must be itq or lsh with an encoder, got {method!r}.")
    reader = Reader(
        image_features=ImageFeatures(encoder).pinned(), text_features=TextFeatures(encoder).pinned()
    )
    texts = _text_embeddings(reader, encoder)
    images = _image_embeddings(reader, _sample(records))
    if images.shape[1] != texts.shape[1]:
        raise InputError(
            f"{encoder} is not an aligned encoder: its image vectors have {images.shape[1]} "
            f"dimensions and its text vectors {texts.shape[1]}. Train a model on captions instead: "
            "corrhash train."
        )
    hasher = METHODS[method](n_bits)
    hasher.space = "shared"
    return Model(hasher.fit_unpaired(images, texts), reader)


def _text_embeddings(reader: Reader, encoder: str) -> np.ndarray:
    texts: np.ndarray = reader.read_texts(subject_texts(), use_cache=True)
    if not np.isfinite(texts).all():
        raise InputError(
            f"{encoder} returned text embeddings that are not finite. Use another encoder, or "
            "another ONNX export of this one."
        )
    return texts


def _sample(records: Iterable[Record | UnreadableRecord]) -> list[Record]:
    """Return up to 2,000 records with images, evenly spaced among all."""
    usable = [one for one in records if isinstance(one, Record) and one.image is not None]
    usable = [one for one in usable if not one.is_vector]
    return usable[:: max(1, -(-len(usable) // N_SAMPLES))]


def _image_embeddings(reader: Reader, records: list[Record]) -> np.ndarray:
    features = reader.image_features
    assert features is not None
    parts: list[np.ndarray] = []
    for start in range(0, len(records), BATCH):
        parts += _embeddings_of(records[start : start + BATCH], features)
        report("Reading samples", min(len(records), start + BATCH), len(records))
    if len(parts) < MIN_IMAGES:
        raise InputError(
            f"At least {MIN_IMAGES} readable images are needed, found {len(parts)} among "
            f"{len(records)} items. Check the source."
        )
    return np.stack(parts)


def _embeddings_of(records: list[Record], features: ImageFeatures) -> list[np.ndarray]:
    """Return the features of those records that can be read; new ones are cached."""
    contents = [one.content() for one in records]
    found = features.cached(contents)
    missing = [row for row in range(len(records)) if row not in found]
    images = LazyImages([records[row] for row in missing], lambda image: b"")
    if missing:
        read = features.of_images(images)
        known = [at for at in range(len(missing)) if at not in images.unreadable]
        features.store([contents[missing[at]] for at in known], read[known])
        found |= {missing[at]: read[at] for at in known}
    return list(found.values())
