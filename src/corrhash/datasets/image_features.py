"""ImageFeatures: what pictures become, as a value that a model keeps and applies again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.checksum import file_sha256
from corrhash.datasets.base import n_rows
from corrhash.datasets.feature_cache import cached_features
from corrhash.datasets.feature_file import SUFFIXES, read_feature_file
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.simple_features import simple_features
from corrhash.errors import InputError
from corrhash.lazy_table import load_attribute

SIMPLE = "simple"
ALEXNET = ("alexnet-pool5", "alexnet-fc6", "alexnet-fc7")
HUB = "hf:"
DEFAULT_WEIGHTS = "alexnet-imagenet"

# Loaded by name when it is needed, since networks stand above datasets.
OPEN_BACKBONE = "corrhash.networks.features:open_backbone"


@dataclass(frozen=True)
class ImageFeatures:
    """What pictures become, for methods that learn from feature vectors.

    Features of a network are computed once for the items of a dataset and kept in the cache, so
    that every method and every run shares them.

    Parameters
    ----------
    name : ``simple`` (colours and edges, without a network); ``alexnet-pool5``, ``alexnet-fc6`` or
        ``alexnet-fc7`` (a layer of AlexNet); ``hf:`` and a folder or hub id (an encoder of Hugging
        Face); or a ``.npy`` or ``.npz`` file with a row for each item of the dataset.
    weights : of AlexNet: a file, or the name of published weights, which are downloaded.
    sha256 : of the weights or of the file, where they must be certain ones.
    device : what computes them: ``cpu``, ``cuda`` or ``mps``.

    Examples
    --------
    >>> ImageFeatures("simple").of_pictures(np.zeros((2, 96, 96, 3), np.uint8)).shape
    (2, 704)
    >>> ImageFeatures("alexnet-fc7").weights
    'alexnet-imagenet'
    """

    name: str
    weights: str | None = None
    sha256: str | None = None
    device: str = field(default="cpu", compare=False)

    def __post_init__(self) -> None:
        if not (self.name == SIMPLE or self.of_file or self.of_network):
            raise InputError(
                f"There are no image features {self.name!r}. Choose one of: {SIMPLE}, "
                f"{', '.join(ALEXNET)}, {HUB}<folder or hub id>, or a file that ends in "
                f"{' or '.join(SUFFIXES)}."
            )
        if self.name in ALEXNET:
            object.__setattr__(self, "weights", self.weights or DEFAULT_WEIGHTS)
        elif self.weights is not None:
            raise InputError(
                f"Image features {self.name!r} take no weights. Got {self.weights!r}. Leave them "
                f"out, or choose one of: {', '.join(ALEXNET)}."
            )

    @property
    def of_file(self) -> bool:
        """Whether they stand ready in a file."""
        return self.name.endswith(SUFFIXES) and not self.of_network

    @property
    def of_network(self) -> bool:
        """Whether a network computes them."""
        return self.name in ALEXNET or self.name.startswith(HUB)

    def of_items(self, images: Any) -> np.ndarray:
        """(n, d) features of all items of a dataset, in its order."""
        if self.of_file:
            self._check_unchanged(self._checksum())
            listed = {"rows": images.rows, "n_listed": images.n_listed} if _listed(images) else {}
            return read_feature_file(Path(self.name), n_rows(images), **listed)
        return cached_features(self._open(), images) if self.of_network else simple_features(images)

    def of_pictures(self, pictures: Any) -> np.ndarray:
        """(n, d) features of any pictures, such as those to search with."""
        if self.of_file:
            raise InputError(
                f"This model reads its features from {self.name}, where new pictures have none. "
                "Compute theirs as those were computed and give them as an (n, d) array (corrhash "
                "index takes a .jsonl file and --features FILE), or train "
                f"with features that corrhash computes: {ALEXNET[-1]}, or {HUB}<folder or hub id>."
            )
        return self._opened.compute(pictures) if self.of_network else simple_features(pictures)

    def tied(self) -> ImageFeatures:
        """The same, tied to the weights or the file as they are now: what a model keeps."""
        if self.name == SIMPLE:
            return self
        prefix = HUB if self.name.startswith(HUB) else ""
        name = prefix + _absolute(self.name.removeprefix(prefix))
        weights = None if self.weights is None else _absolute(self.weights)
        placed = replace(self, name=name, weights=weights)
        return replace(placed, sha256=placed._checksum())

    def description(self) -> dict[str, str | None]:
        """What a model's file says of them; the device is a matter of each run."""
        return {"name": self.name, "weights": self.weights, "sha256": self.sha256}

    @cached_property
    def _opened(self) -> Any:
        return self._open()

    def _open(self) -> Any:
        """The network that computes the features, once it is sure to be the right one."""
        self._check_there()
        backbone = load_attribute(OPEN_BACKBONE)(self.name, self.weights, self.device)
        self._check_unchanged(backbone.sha256)
        return backbone

    def _checksum(self) -> str:
        if self.of_network:
            return str(self._open().sha256)
        self._check_there()
        return file_sha256(Path(self.name))

    def _check_there(self) -> None:
        place = Path(self.weights or self.name.removeprefix(HUB))
        # Names of published weights and of models on the hub are no absolute paths.
        if place.exists() or not (self.of_file or place.is_absolute()):
            return
        if self.sha256 is None:
            raise InputError(f"There is no {place}, which image features need. Check the path.")
        raise InputError(
            f"The model reads pictures with {place}, which is not there. Put it back, or train the "
            "model again."
        )

    def _check_unchanged(self, found: str) -> None:
        if self.sha256 not in (None, found):
            raise InputError(
                f"{self.weights or self.name} is not what the model was trained with: its SHA-256 "
                f"begins with {found[:12]}, not with {str(self.sha256)[:12]}. Put back what was "
                "there, or train the model again."
            )


def as_image_features(features: str | ImageFeatures | None) -> ImageFeatures | None:
    """The features called by a name; values pass through."""
    return ImageFeatures(features) if isinstance(features, str) else features


def _listed(images: Any) -> bool:
    """Whether these are pictures out of a longer list."""
    return isinstance(images, ImageFiles) and images.n_listed != len(images)


def _absolute(place: str) -> str:
    """A file or folder of this machine by its full path; other names as they are."""
    return str(Path(place).absolute()) if Path(place).exists() else place
