"""Generations of a collection: the model that its codes come from, and how to notice another one.

``corrhash improve`` replaces the model and all codes of a collection while others search it. The
description of the index counts these changes. A search reads the number before and after; if it has
changed, the search is repeated with the new model. A write compares the number in its transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from corrhash.collection.creating import MODEL_FOLDER
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.methods.base import Hasher
from corrhash.model import Model

Value = TypeVar("Value")


class Encoder(NamedTuple):
    """The number of a generation, and its model."""

    generation: int
    model: Model


class SwitchedError(Exception):
    """Raised inside a write if the codes come from the model of an earlier generation."""


def generation_of(about: dict[str, Any]) -> int:
    """Return how often the model of a collection was replaced."""
    return int(about.get("generation", 0))


def model_folder(uri: str | Path, about: dict[str, Any]) -> Path:
    """Return the folder of the current model of a collection in a folder."""
    return Path(uri) / str(about.get("model", MODEL_FOLDER))


def check_generation(index: CodeIndex, generation: int) -> None:
    """Raise SwitchedError inside a write unless the index still is of this generation."""
    if generation_of(index.about) != generation:
        raise SwitchedError


class Encoders:
    """The current model of a collection, loaded again after another process has replaced it."""

    def __init__(
        self,
        uri: str,
        index: CodeIndex,
        encoder: Encoder,
        method: type[Hasher] = Hasher,
        *,
        allow_download: bool = False,
    ) -> None:
        self.uri, self.index = uri, index
        self._encoder = encoder
        self._method, self._allow_download = method, allow_download
        self._lock = Lock()

    @property
    def last(self) -> Encoder:
        """The model that was loaded last."""
        return self._encoder

    @property
    def is_current(self) -> bool:
        """Whether the model need not be loaded, as far as this process knows."""
        return self._encoder.generation == generation_of(self.index.about)

    def current(self) -> Encoder:
        """Return the model of the codes that this process has read last."""
        if self.is_current:
            return self._encoder
        with self._lock:
            while not self.is_current:
                about = self.index.about
                self._encoder = Encoder(generation_of(about), self._load(about))
        return self._encoder

    def _load(self, about: dict[str, Any]) -> Model:
        folder = model_folder(self.uri, about)
        model = self.load(folder)
        if model.fingerprint != about["fingerprint"]:
            raise InputError(
                f"The model in {folder} is not the one that encoded the collection: its "
                f"fingerprint is {model.fingerprint[:12]}, expected {about['fingerprint'][:12]}."
            )
        return model

    def load(self, folder: Path) -> Model:
        """Load any model of the collection, of the same method."""
        return Model.load(folder, self._method, allow_download=self._allow_download)

    def consistent(self, search: Callable[[Model], Value]) -> Value:
        """Return the result of a search whose model and codes are of one generation."""
        while True:
            generation, model = self.current()
            found = search(model)
            if self.index.about.get("store_continuous"):
                self.index.view()  # continuous codes are read after the others
            if generation_of(self.index.about) == generation:
                return found

    def written(self, write: Callable[[Encoder], Value]) -> Value:
        """Return the result of a write, repeated if the model is replaced meanwhile."""
        while True:
            try:
                return write(self.current())
            except SwitchedError:
                continue
