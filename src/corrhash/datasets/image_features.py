"""ImageFeatures: an image feature extractor, by name, that a model stores and applies again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from corrhash._files import file_sha256, staying_offline
from corrhash._progress import report
from corrhash._registry import load_attribute
from corrhash.datasets.base import n_rows
from corrhash.datasets.feature_cache import (
    SUFFIXES,
    cached_features,
    open_cache,
    read_feature_file,
)
from corrhash.datasets.images import ImageFiles
from corrhash.errors import InputError

SIMPLE_SIZE = 64
"""Images are resized to this many pixels a side for simple features."""

_COLOUR_CELLS = 8
_EDGE_CELLS = 8
_DIRECTIONS = 8
N_FEATURES = 3 * _COLOUR_CELLS**2 + _DIRECTIONS * _EDGE_CELLS**2
REPORT_EVERY = 50


def simple_features(images: Any) -> np.ndarray:
    """Return (n, 704): mean colours in an 8 x 8 grid, and the strength of 8 edge directions.

    ``images`` are ImageFiles or an (n, height, width, 3) uint8 array.

    >>> simple_features(np.zeros((2, 96, 96, 3), np.uint8)).shape
    (2, 704)
    """
    features = np.empty((len(images), N_FEATURES), dtype=np.float32)
    for row, image in enumerate(images):
        features[row] = _describe(image)
        if row % REPORT_EVERY == 0 or row + 1 == len(images):
            report("Computing image features", row + 1, len(images))
    return features


def _describe(image: Any) -> np.ndarray:
    """Return (704,) float32 of one image."""
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    pixels = (
        np.asarray(image.resize((SIMPLE_SIZE, SIMPLE_SIZE), Image.Resampling.BOX), dtype=np.float32)
        / 255
    )
    colours = _cell_means(pixels, _COLOUR_CELLS)  # (cells, cells, 3)
    return np.concatenate([colours.ravel(), _edges(pixels.mean(axis=2)).ravel()])


def _edges(grey: np.ndarray) -> np.ndarray:
    """Return (cells, cells, directions): the mean edge strength per cell and direction."""
    down, right = np.gradient(grey)
    strength = np.hypot(down, right)
    angle = np.arctan2(down, right) % np.pi  # an edge and its negative are alike
    direction = np.minimum(angle / np.pi * _DIRECTIONS, _DIRECTIONS - 1).astype(np.int64)
    split = strength[..., None] * (direction[..., None] == np.arange(_DIRECTIONS))
    return np.sqrt(_cell_means(split.astype(np.float32), _EDGE_CELLS))


def _cell_means(values: np.ndarray, cells: int) -> np.ndarray:
    """Average (size, size, c) over a grid: (cells, cells, c)."""
    size = len(values) // cells
    return values.reshape(cells, size, cells, size, -1).mean(axis=(1, 3))


SIMPLE = "simple"
ALEXNET = ("alexnet-pool5", "alexnet-fc6", "alexnet-fc7")
HUB, ONNX = "hf:", "onnx:"
DEFAULT_WEIGHTS = "alexnet-imagenet"

# Imported on first use, since networks are in a layer above datasets.
OPEN_BACKBONE = "corrhash.networks.extractors:open_backbone"
OPEN_ONNX = "corrhash.networks.onnx_encoder:open_image_encoder"


@dataclass(frozen=True)
class ImageFeatures:
    """An image feature extractor, for methods that learn from feature vectors.

    Features of a network are computed once per dataset and cached, so methods and runs share
    them.

    Parameters
    ----------
    name : ``simple`` (colours and edges, without a network); ``alexnet-pool5``, ``alexnet-fc6`` or
        ``alexnet-fc7`` (a layer of AlexNet); ``hf:`` and a folder or hub id (a Hugging Face
        encoder); ``onnx:`` and a file or folder (an ONNX encoder); or a ``.npy`` or ``.npz`` file
        with a row for each item of the dataset.
    weights : AlexNet weights: a file, or the name of published weights, which are downloaded.
    sha256 : checksum that the weights or the file must have; None accepts any.
    local_only : whether the network must be on this machine already. It is set for features that
        a saved model names; others are downloaded if needed.

    Examples
    --------
    >>> ImageFeatures("simple").of_images(np.zeros((2, 96, 96, 3), np.uint8)).shape
    (2, 704)
    >>> ImageFeatures("alexnet-fc7").weights
    'alexnet-imagenet'
    """

    name: str
    weights: str | None = None
    sha256: str | None = None
    local_only: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not (self.name == SIMPLE or self.of_file or self.of_network):
            raise InputError(
                f"Unknown image features {self.name!r}. Valid: {SIMPLE}, "
                f"{', '.join(ALEXNET)}, {HUB}<folder or hub id>, {ONNX}<file or folder>, or a "
                f"file ending in {' or '.join(SUFFIXES)}."
            )
        if self.name in ALEXNET:
            object.__setattr__(self, "weights", self.weights or DEFAULT_WEIGHTS)
        elif self.weights is not None:
            raise InputError(
                f"Image features {self.name!r} take no weights, got {self.weights!r}. Weights "
                f"apply to: {', '.join(ALEXNET)}."
            )

    @property
    def of_file(self) -> bool:
        """Whether the features are read from a file."""
        return self.name.endswith(SUFFIXES) and not self.of_network

    @property
    def of_network(self) -> bool:
        """Whether a network computes the features."""
        return self.name in ALEXNET or self.name.startswith((HUB, ONNX))

    def of_dataset(self, images: Any) -> np.ndarray:
        """Return (n, d) features of all items of a dataset, in its order."""
        if self.of_file:
            self._check_unchanged(self._checksum())
            return read_listed_features(Path(self.name), images)
        return cached_features(self._open(), images) if self.of_network else simple_features(images)

    def of_images(self, images: Any) -> np.ndarray:
        """Return (n, d) features of any images, such as query images."""
        if self.of_file:
            raise InputError(
                f"The model was trained on image features from {self.name}, which has no features "
                "of new images. Compute them in the same way and pass an (n, d) array (corrhash "
                "index: a table and --features FILE), or train with features that corrhash "
                f"computes: {ALEXNET[-1]}, {HUB}<folder or hub id>, or {ONNX}<file or folder>."
            )
        return self._opened.compute(images) if self.of_network else simple_features(images)

    def cached(self, checksums: Sequence[str]) -> dict[int, np.ndarray]:
        """Return those of the features that are in the cache, by position in ``checksums``.

        ``checksums`` identify the content of image files; empty ones are unknown.
        """
        if not self.of_network or not any(checksums):
            return {}
        found: dict[str, np.ndarray] = {}
        for some, features in open_cache(self._opened.key).read(sorted({*checksums} - {""})):
            found |= dict(zip(some, features, strict=True))
        return {at: found[checksum] for at, checksum in enumerate(checksums) if checksum in found}

    def store(self, checksums: Sequence[str], features: np.ndarray) -> None:
        """Add features of image files to the cache; images without a checksum are not stored."""
        rows = {checksum: row for row, checksum in enumerate(checksums) if checksum}
        if self.of_network and rows:
            open_cache(self._opened.key).write(list(rows), features[list(rows.values())])

    def pinned(self) -> ImageFeatures:
        """Return the same features with absolute paths and the checksum of weights or file."""
        if self.name == SIMPLE:
            return self
        weights = None if self.weights is None else absolute_name(self.weights)
        pinned = replace(self, name=absolute_name(self.name), weights=weights)
        if self.name.startswith(ONNX):
            opened = pinned._open()
            return replace(pinned, name=f"{ONNX}{opened.source}", sha256=opened.sha256)
        return replace(pinned, sha256=pinned._checksum())

    def description(self) -> dict[str, str | None]:
        """Return what a model's file stores of them."""
        return {"name": self.name, "weights": self.weights, "sha256": self.sha256}

    @cached_property
    def _opened(self) -> Any:
        return self._open()

    def _open(self) -> Any:
        """Open the network and check its weights."""
        self._check_exists()
        if self.name.startswith(ONNX):
            with staying_offline(self.local_only):
                backbone = load_attribute(OPEN_ONNX)(self.name)
        else:
            open_backbone = load_attribute(OPEN_BACKBONE)
            backbone = open_backbone(self.name, self.weights, local_only=self.local_only)
        self._check_unchanged(backbone.sha256)
        return backbone

    def _checksum(self) -> str:
        if self.of_network:
            return str(self._open().sha256)
        self._check_exists()
        return file_sha256(Path(self.name))

    def _check_exists(self) -> None:
        path = Path(self.weights or split_prefix(self.name)[1])
        # Names of published weights and of models on the hub are not absolute paths.
        if self.of_file or path.is_absolute():
            check_exists(path, "image", self.sha256)

    def _check_unchanged(self, found: str) -> None:
        check_unchanged(self.weights or self.name, self.sha256, found)


def check_exists(path: Path, modality: str, sha256: str | None) -> None:
    """Raise an error if the file or folder of features does not exist."""
    if path.exists():
        return
    if sha256 is None:
        raise InputError(f"{modality.title()} features not found: {path}. Check the path.")
    raise InputError(
        f"The model needs {path} for its {modality} features. Restore it, or train the model again."
    )


def check_unchanged(what: str, expected: str | None, found: str) -> None:
    """Raise an error if a checksum is not the one that a model was trained with."""
    if expected not in (None, found):
        raise InputError(
            f"{what} has changed since the model was trained: its SHA-256 starts with "
            f"{found[:12]}, expected {str(expected)[:12]}. Restore the file, or train the model "
            "again."
        )


def as_image_features(features: str | ImageFeatures | None) -> ImageFeatures | None:
    """Return the features of a name; ImageFeatures pass through."""
    return ImageFeatures(features) if isinstance(features, str) else features


def read_listed_features(path: Path, images: Any) -> np.ndarray:
    """Read (n, d) features of the items of a dataset, whose images can be some of a longer list."""
    if isinstance(images, ImageFiles) and images.n_listed != len(images):
        return read_feature_file(path, len(images), images.rows, images.n_listed)
    return read_feature_file(path, n_rows(images))


def split_prefix(name: str) -> tuple[str, str]:
    """Return the kind of an encoder and its source.

    >>> split_prefix("hf:facebook/dinov2-small"), split_prefix("simple")
    (('hf:', 'facebook/dinov2-small'), ('', 'simple'))
    """
    prefix = next((each for each in (HUB, ONNX) if name.startswith(each)), "")
    return prefix, name.removeprefix(prefix)


def absolute_name(name: str) -> str:
    """Return the name of features with an existing file or folder as an absolute path."""
    prefix, source = split_prefix(name)
    return prefix + (str(Path(source).absolute()) if Path(source).exists() else source)
