"""Hasher: what every method looks like from outside."""

from __future__ import annotations

import hashlib
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from safetensors.numpy import load, save

from corrhash.atomic_write import atomic_write, make_folder, stepped_aside
from corrhash.codes import Codes, check_n_bits
from corrhash.datasets.base import PairedDataset, n_rows, without_words
from corrhash.datasets.image_files import ImageFiles
from corrhash.errors import InputError

HASHER_FILE = "hasher.json"
FORMAT = "corrhash hasher 1"

RankedBy = Literal["hamming", "cosine"]


class Hasher(ABC):
    """Learns to map images and texts into one space of binary codes.

    A method stores its parameters in the constructor and does nothing else there, learns in
    ``_fit`` into attributes that end in an underscore, and gives real-valued scores in
    ``_score_image`` and ``_score_text``; the sign of a score is the bit. The base class owns what
    is the same for all: checks, binarisation, saving.

    Attributes
    ----------
    needs_labels : whether the method learns from labels. Where it does not, ``fit`` takes them
        away before the method sees the pairs.
    learns_from_partners : whether the pairing alone, as ``Similarity.partners``, can stand in for
        labels.
    needs_alignment : whether row i of images and texts must belong together.
    ranked_by : how answers are ranked when the method is measured: ``hamming`` for codes,
        ``cosine`` for the scores before they are rounded to codes.
    grid : values of parameters that are worth comparing; all their combinations, eight at most, are
        what tuning tries.
    image_features : what pictures become unless the user says otherwise; None for a method that
        reads pictures.
    """

    needs_labels: ClassVar[bool] = True
    learns_from_partners: ClassVar[bool] = False
    needs_alignment: ClassVar[bool] = True
    ranked_by: ClassVar[RankedBy] = "hamming"
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {}
    image_features: ClassVar[str | None] = "simple"

    n_bits: int

    @property
    def place(self) -> str:
        """Where the method is defined, as ``package.module:Class``; models name it."""
        return f"{type(self).__module__}:{type(self).__qualname__}"

    @abstractmethod
    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        """Learn from the pairs; set attributes that end in an underscore."""

    @abstractmethod
    def _score_image(self, images: Any) -> np.ndarray:
        """(n, n_bits) real-valued scores of images."""

    @abstractmethod
    def _score_text(self, texts: Any) -> np.ndarray:
        """(n, n_bits) real-valued scores of texts."""

    def fit(self, pairs: PairedDataset, validation: PairedDataset | None = None) -> Self:
        """Learn from pairs; ``validation`` serves to choose an epoch, where a method has epochs.

        Queries never come here, so that nothing can be chosen on them.
        """
        name = type(self).__name__
        check_n_bits(self.n_bits)
        if not isinstance(pairs, PairedDataset):
            raise InputError(
                f"{name}.fit learns from a PairedDataset. Got {type(pairs).__name__}. Use "
                "split.train of a dataset, or PairedDataset(images, texts, labels)."
            )
        if len(pairs) == 0:
            raise InputError(f"{name} cannot learn from 0 pairs. Check the split.")
        if self.needs_alignment and not pairs.aligned:
            raise InputError(
                f"{name} learns from pairs: row i of images and texts must belong together. "
                "Got judged pairs of images and texts that are not aligned. Use a method that "
                "learns from judged pairs."
            )
        if self.needs_labels and not self._is_taught_by(pairs):
            raise InputError(
                f"{name} learns from labels, and these pairs have none. Give labels, or let words "
                "act as labels (--supervision words; in Python, supervise(split, 'words'))."
            )
        if without_words(pairs.texts).all():
            raise InputError(
                f"All {pairs.n_texts:,} texts are empty: no word of the vocabulary occurs in "
                "them. Check the texts, or the words that count."
            )
        if not self.needs_labels:
            pairs = pairs.without_labels()
            validation = None if validation is None else validation.without_labels()
        self._fit(pairs, validation)
        return self

    def _is_taught_by(self, pairs: PairedDataset) -> bool:
        """Whether the pairs tell this method who is similar to whom."""
        if pairs.similarity is None or (pairs.aligned and not self.learns_from_partners):
            return pairs.labels is not None
        return True

    def score_image(self, images: Any) -> np.ndarray:
        """(n, n_bits) real-valued scores; their signs are the codes."""
        self._check_fitted()
        return self._score_image(images)

    def score_text(self, texts: Any) -> np.ndarray:
        """(n, n_bits) real-valued scores; their signs are the codes."""
        self._check_fitted()
        return self._score_text(texts)

    def encode_image(self, images: Any) -> Codes:
        """The codes of images."""
        return Codes.from_scores(self.score_image(images))

    def encode_text(self, texts: Any) -> Codes:
        """The codes of texts."""
        return Codes.from_scores(self.score_text(texts))

    def query_codes(self, scores: np.ndarray) -> Codes:
        """The codes of items that ask, from their scores; as a rule those by which they are found.

        Whoever searches or measures takes the codes of queries from here.
        """
        return Codes.from_scores(scores)

    def get_params(self) -> dict[str, Any]:
        """The constructor's arguments and their values."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def plain_params(self) -> dict[str, Any]:
        """The same as the JSON of a model holds them."""
        return dict(json.loads(json.dumps(self.get_params(), default=_plain)))

    def learned(self) -> dict[str, np.ndarray]:
        """The arrays that ``fit`` learned, by name; empty before."""
        learned = {name: value for name, value in vars(self).items() if name.endswith("_")}
        for name, value in learned.items():
            if not isinstance(value, np.ndarray):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a {type(value).__name__}, which cannot be "
                    "saved. What a method learns must be arrays: use np.array(value)."
                )
        return learned

    def save(self, folder: str | Path) -> None:
        """Write the model into ``folder``: ``hasher.json`` and the learned arrays beside it.

        The arrays are written first under a name of their own; replacing ``hasher.json`` makes the
        new model valid, so that an interruption leaves the old one whole.
        """
        self._check_fitted()
        folder = make_folder(folder)
        content = save({name: np.asarray(a, order="C") for name, a in self.learned().items()})
        arrays = _arrays_name(content)
        description = {
            "format": FORMAT,
            "method": self.place,
            "params": self.plain_params(),
            "arrays": arrays,
            "learned": self._description(),
        }
        text = json.dumps(description, indent=1, default=_plain)
        with atomic_write(folder / arrays) as file:
            file.write(content)
        with atomic_write(folder / HASHER_FILE) as file:
            file.write(text.encode())
        for old in folder.glob("arrays-*.safetensors"):
            if old.name != arrays:
                old.unlink()

    @classmethod
    def load(cls, folder: str | Path) -> Hasher:
        """Read what :meth:`save` wrote.

        ``Hasher.load`` knows the methods of the ``METHODS`` table; a method of your own is read by
        its own class, ``MyHasher.load``. Of a model that was exported to ONNX, ``Hasher.load``
        takes the exported networks, and does without PyTorch.
        """
        from corrhash.methods.exported import find_exported

        description = read_description(Path(folder))
        exported = find_exported(Path(folder), description) if cls is Hasher else None
        if exported is not None:
            return exported
        method = cls._method_of(folder, description["method"])
        try:
            hasher: Hasher = method._from_params(description["params"])
        except TypeError as error:
            raise InputError(
                f"The model in {folder} has parameters of another version ({error}). "
                "Train the model again."
            ) from error
        arrays = read_arrays(Path(folder) / description["arrays"])
        hasher._restore(arrays, description["learned"])
        return hasher

    @classmethod
    def _method_of(cls, folder: str | Path, saved: str) -> type[Hasher]:
        """The class of the model in a folder: this one, or for Hasher any of the table."""
        from corrhash.methods import METHODS

        known = {place: name for name, place in METHODS.places.items()}
        if saved in known and cls is Hasher:
            method: type[Hasher] = METHODS[known[saved]]
            return method
        if saved != f"{cls.__module__}:{cls.__qualname__}":
            raise InputError(
                f"{folder} holds a model of {saved}, which {cls.__name__}.load does not know. "
                "Load it with that class: its own .load(folder)."
            )
        return cls

    @classmethod
    def _from_params(cls, params: dict[str, Any]) -> Self:
        """A new hasher from parameters as JSON holds them."""
        return cls(**params)

    def _description(self) -> dict[str, Any]:
        """What was learned beside arrays, in a form that JSON can hold."""
        return {}

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        """Take back what was learned."""
        vars(self).update(arrays)

    def _is_fitted(self) -> bool:
        return bool(self.learned())

    def _check_fitted(self) -> None:
        if not self._is_fitted():
            raise InputError(f"This {type(self).__name__} has not learned yet. Call fit first.")

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({params})"


def _plain(value: Any) -> Any:
    """A NumPy number, or a value made of several, as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"A parameter of a method must be a plain value. Got {value!r}.")


def feature_rows(values: Any, what: str, width: int | None = None) -> Any:
    """``values`` as a 2-D float array (or a sparse matrix as it is), for methods that read those.

    ``width`` is the number of columns that was learned on.
    """
    # Sums of small integers would overflow, hence float64.
    values = values.astype(np.float64) if sp.issparse(values) else _dense_rows(values, what)
    if width is not None and values.shape[1] != width:
        raise InputError(
            f"The model was trained on {width} columns of {what}. Got {values.shape[1]}. "
            "Read the items with the reader of the model."
        )
    return values


def _dense_rows(values: Any, what: str) -> np.ndarray:
    """An (n, d) array of numbers, or an error that tells how to get one."""
    wanted = f"This method reads {what} as (n, d) arrays of numbers. "
    if isinstance(values, ImageFiles) or getattr(values, "ndim", 0) == 4:
        raise InputError(
            f"{wanted}Got {n_rows(values)} pictures. Load them with image_features='simple'."
        )
    array = np.asarray(values)
    if array.dtype.kind in "USO":
        raise InputError(
            f"{wanted}Got strings. Read them with the reader of the model: "
            "reader.read_texts([...]), or let load_dataset do it."
        )
    if array.ndim != 2:
        raise InputError(f"{wanted}Got shape {array.shape}. One item is still a row: x[None, :].")
    return array.astype(np.float64)


def read_description(folder: Path) -> dict[str, Any]:
    """The content of ``hasher.json``, checked."""
    path = folder / HASHER_FILE
    try:
        description = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        old = stepped_aside(folder.absolute())
        way = f"The one before is in {old}: rename that." if old.exists() else "Train one first."
        raise InputError(
            f"There is no model in {folder}: {HASHER_FILE} is missing. {way}"
        ) from error
    except NotADirectoryError as error:
        raise InputError(f"{folder} is a file. A model is a folder that train wrote.") from error
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is damaged ({error}). Train the model again.") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        found = description.get("format") if isinstance(description, dict) else description
        raise InputError(
            f"{path} says format {found!r}; this version reads {FORMAT!r}. Train the model again."
        )
    missing = {"method", "params", "arrays", "learned"} - set(description)
    if missing:
        raise InputError(f"{path} is damaged ({min(missing)} is missing). Train the model again.")
    return description


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The learned arrays, or an error that names the file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"The model lacks its file {path}. Copy the whole folder.") from error
    if path.name != _arrays_name(content):
        raise InputError(f"{path} is damaged: its checksum differs. Train the model again.")
    return load(content)


def _arrays_name(content: bytes) -> str:
    """The name of a file of arrays carries its checksum."""
    return f"arrays-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
