"""Hasher: the estimator interface that all hashing methods share."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from safetensors.numpy import load, save

from corrhash._files import atomic_write, backup_path, make_folder
from corrhash._model_files import AGAIN, Keys, loading, read_file, read_json, write_json
from corrhash.codes import Codes, check_continuous, check_n_bits
from corrhash.datasets.base import PairedDataset, RetrievalSplit, is_empty_text
from corrhash.errors import InputError

HASHER_FILE = "hasher.json"
FORMAT = "corrhash hasher 2"
KEYS: Keys = {"method": str, "params": dict, "arrays": str, "learned": dict}
ARRAYS = re.compile(r"arrays-([0-9a-f]{16})\.safetensors")
LEARNED = re.compile(r"[a-z][a-z0-9_]*_")  # a stranger's arrays must not replace anything else

RankedBy = Literal["hamming", "cosine"]


class Hasher(ABC):
    """Maps images and texts to binary codes in one Hamming space.

    A hasher is an estimator in the sense of scikit-learn: the constructor stores its parameters,
    :meth:`fit` learns and sets attributes whose names end in an underscore, and
    ``sklearn.base.clone`` copies the parameters into a new, unfitted hasher. A method implements
    ``_fit``, ``_embed_image`` and ``_embed_text``; the base class validates input, binarizes, saves
    and loads.

    Attributes
    ----------
    needs_labels : whether the method needs labels. If not, ``fit`` removes them from the data, so
        that an unsupervised method cannot see them.
    learns_from_pairs : whether the pairing alone (``Similarity.paired``) can replace labels.
    needs_alignment : whether row i of the images and row i of the texts must form a pair.
    ranked_by : how results are ranked in evaluations: ``"hamming"`` distance of codes, or
        ``"cosine"`` of continuous codes.
    grid : parameter values that tuning compares, at most eight combinations. Nested parameters
        are written with a dot, as in ``"training.learning_rate"``.
    image_features : default image features; None for a method that trains on raw images.
    """

    needs_labels: ClassVar[bool] = True
    learns_from_pairs: ClassVar[bool] = False
    needs_alignment: ClassVar[bool] = True
    ranked_by: ClassVar[RankedBy] = "hamming"
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {}
    image_features: ClassVar[str | None] = "simple"

    n_bits: int

    _folder: Path | None = None  # of a loaded model
    _local_only = False  # whether networks may be built from files on this machine only

    @abstractmethod
    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        """Learn from the pairs; set attributes whose names end in an underscore."""

    @abstractmethod
    def _embed_image(self, images: Any) -> np.ndarray:
        """Return (n, n_bits) continuous codes of images."""

    @abstractmethod
    def _embed_text(self, texts: Any) -> np.ndarray:
        """Return (n, n_bits) continuous codes of texts."""

    def fit(
        self,
        images: Any,
        texts: Any = None,
        labels: Any = None,
        *,
        validation: PairedDataset | Sequence[Any] | None = None,
    ) -> Self:
        """Learn hash functions from paired images and texts.

        Parameters
        ----------
        images : a PairedDataset that holds everything; or (n, d) image features; or, for methods
            that train networks, raw images as ImageFiles or an (n, height, width, 3) uint8 array.
        texts : (n, d) term counts, dense or sparse, or n strings for a sentence encoder. Leave it
            out if ``images`` is a PairedDataset.
        labels : (n, n_classes) array of 0 and 1, dense or sparse; optional for methods that do not
            need labels.
        validation : PairedDataset, or tuple ``(images, texts, labels)``, on which methods that
            train in epochs choose the best one. They hold out a tenth of the training pairs if it
            is None. Other methods ignore it. Never pass the queries of an evaluation.

        Returns
        -------
        self
        """
        pairs = self._as_pairs(images, texts, labels)
        if validation is not None and not isinstance(validation, PairedDataset):
            validation = self._as_pairs(*validation)
        self._check_pairs(pairs)
        if not self.needs_labels:
            pairs = pairs.without_labels()
            validation = None if validation is None else validation.without_labels()
        self._folder, self._local_only = None, False
        self._fit(pairs, validation)
        return self

    def _as_pairs(self, images: Any, texts: Any = None, labels: Any = None) -> PairedDataset:
        """Return the arguments of ``fit`` as a dataset."""
        name = type(self).__name__
        if isinstance(images, PairedDataset):
            if texts is not None or labels is not None:
                raise InputError(
                    f"{name}.fit takes a PairedDataset alone or arrays, got a PairedDataset and "
                    "more. Pass validation data by name: fit(train, validation=...)."
                )
            return images
        if isinstance(images, RetrievalSplit):
            raise InputError(f"{name}.fit got a RetrievalSplit. Pass split.train.")
        if texts is None:
            raise InputError(
                f"{name}.fit needs images and texts, got {type(images).__name__} and no texts. "
                "Pass arrays, fit(images, texts, labels), or a PairedDataset such as split.train."
            )
        return PairedDataset(images, texts, labels)

    def _check_pairs(self, pairs: PairedDataset) -> None:
        """Raise an error if the method cannot learn from these pairs."""
        name = type(self).__name__
        check_n_bits(self.n_bits)
        if len(pairs) == 0:
            raise InputError(f"{name} cannot learn from 0 pairs. Check the split.")
        if self.needs_alignment and not pairs.aligned:
            raise InputError(
                f"{name} needs aligned data: row i of images and texts must form a pair. Got "
                "relevance judgments of unaligned images and texts. Use a method that learns from "
                "relevance judgments, such as CHN-plus."
            )
        if self.needs_labels and not self._has_supervision(pairs):
            if pairs.similarity is not None:
                raise InputError(
                    f"{name} cannot learn from pairs. Use --supervision labels or pseudo-labels, "
                    "or a method that learns from pairs (chn-plus, cmssh, cvh, imh, mmnn, ucch)."
                )
            raise InputError(
                f"{name} needs labels, and these pairs have none. Pass labels, or derive "
                "pseudo-labels from the texts (--supervision pseudo-labels; in Python, "
                "supervise(split, 'pseudo-labels'))."
            )
        if is_empty_text(pairs.texts).all():
            raise InputError(
                f"All {pairs.n_texts:,} texts are empty: they contain no term of the vocabulary. "
                "Check the texts and the vocabulary."
            )

    def _has_supervision(self, pairs: PairedDataset) -> bool:
        """Return whether the pairs define a similarity that this method can learn from."""
        if pairs.similarity is None or (pairs.aligned and not self.learns_from_pairs):
            return pairs.labels is not None
        return True

    def embed_image(self, images: Any) -> np.ndarray:
        """Return (n, n_bits) continuous codes of images; their signs are the codes."""
        self._check_fitted()
        with self._using():
            return check_continuous(self._embed_image(images), self.n_bits, type(self).__name__)

    def embed_text(self, texts: Any) -> np.ndarray:
        """Return (n, n_bits) continuous codes of texts; their signs are the codes."""
        self._check_fitted()
        with self._using():
            return check_continuous(self._embed_text(texts), self.n_bits, type(self).__name__)

    def _using(self) -> AbstractContextManager[None]:
        """Report errors of a loaded model as such; those of a fitted one are bugs of its class."""
        return nullcontext() if self._folder is None else loading(self._folder)

    def encode_image(self, images: Any) -> Codes:
        """Return the binary codes of images."""
        return Codes.from_continuous(self.embed_image(images))

    def encode_text(self, texts: Any) -> Codes:
        """Return the binary codes of texts."""
        return Codes.from_continuous(self.embed_text(texts))

    @property
    def reads_images(self) -> bool:
        """Whether the fitted hasher can encode raw images here, rather than feature vectors."""
        return self.image_features is None

    def query_codes(self, continuous: np.ndarray) -> Codes:
        """Return the codes of queries, given their (n, n_bits) continuous codes.

        Search and evaluation encode queries here, and database items by their signs. A method can
        refine the codes of queries; most do not.
        """
        return Codes.from_continuous(continuous)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments and their values.

        With ``deep``, fields of nested settings are included: ``training__epochs``.
        """
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        params = {name: getattr(self, name) for name in names}
        return params | nested_params(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, nested ones as ``training__epochs=5``, and return the hasher."""
        known = self.get_params()
        nested: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            if name not in known:
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}. "
                    f"Valid parameters: {', '.join(known)}."
                )
            outer, _, field = name.partition("__")
            if field:
                nested.setdefault(outer, {})[field] = value
            else:
                setattr(self, name, value)
        for outer, fields in nested.items():
            setattr(self, outer, replace(getattr(self, outer), **fields))
        return self

    def plain_params(self) -> dict[str, Any]:
        """Return the parameters as plain JSON values, nested settings as dictionaries."""
        return dict(json.loads(json.dumps(self.get_params(deep=False), default=_plain)))

    def learned(self) -> dict[str, np.ndarray]:
        """Return the arrays that ``fit`` learned, by name; empty before."""
        learned = {name: value for name, value in vars(self).items() if name.endswith("_")}
        for name, value in learned.items():
            if not isinstance(value, np.ndarray):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a {type(value).__name__}, which cannot be "
                    "saved. Learned attributes must be arrays: use np.array(value)."
                )
        return learned

    @property
    def import_path(self) -> str:
        """Where the class is defined, as ``package.module:Class``; saved models refer to it."""
        return f"{type(self).__module__}:{type(self).__qualname__}"

    def save(self, folder: str | Path) -> None:
        """Write the model to ``folder``: ``hasher.json`` and a file with the learned arrays.

        The arrays are written first, under a name that contains their checksum. Replacing
        ``hasher.json`` then switches to the new model, so that an interrupted save leaves the old
        one intact.
        """
        self._check_fitted()
        folder = make_folder(folder)
        content = save({name: np.asarray(a, order="C") for name, a in self.learned().items()})
        arrays = _arrays_name(content)
        description = {
            "method": self.import_path,
            "params": self.plain_params(),
            "arrays": arrays,
            "learned": self._description(),
        }
        plain = json.loads(json.dumps(description, default=_plain))
        with atomic_write(folder / arrays) as file:
            file.write(content)
        write_json(folder, HASHER_FILE, FORMAT, plain)
        for old in {*folder.glob("arrays-*.safetensors")} - {folder / arrays}:
            old.unlink()

    @classmethod
    def load(cls, folder: str | Path, *, allow_download: bool = False) -> Hasher:
        """Load a model that :meth:`save` wrote.

        ``Hasher.load`` loads all methods in ``METHODS``; load your own method with its class,
        ``MyHasher.load``. If the model was exported to ONNX, ``Hasher.load`` encodes images with
        the exported network, which does not need PyTorch.

        The files of an encoder that the model names must be on this machine, unless
        ``allow_download`` is set.
        """
        folder = Path(folder)
        description = read_description(folder)
        method = cls._method_of(folder, description["method"])
        with loading(folder):
            try:
                hasher: Hasher = method._from_params(description["params"])
            except TypeError as error:
                raise InputError(
                    f"The model in {folder} has parameters of another version ({error}). "
                    "Train the model again."
                ) from error
            check_n_bits(hasher.n_bits)
            hasher._restore(read_arrays(folder, description["arrays"]), description["learned"])
            if cls is Hasher:
                hasher._use_exported(folder, description)
        hasher._folder, hasher._local_only = folder, not allow_download
        return hasher

    def verify(self, folder: Path) -> None:  # noqa: B027
        """Verify files of a model folder that :meth:`load` does not read; most have none."""

    @classmethod
    def _method_of(cls, folder: str | Path, saved: str) -> type[Hasher]:
        """Return the class of a saved model: this class, or for Hasher any in ``METHODS``."""
        from corrhash.methods import SAVED

        names = {path: name for name, path in SAVED.import_paths.items()}
        if saved in names and cls is Hasher:
            method: type[Hasher] = SAVED[names[saved]]
            return method
        if saved != f"{cls.__module__}:{cls.__qualname__}":
            raise InputError(
                f"{folder} holds a model of class {saved}, which {cls.__name__}.load cannot load. "
                f"Call load on that class, or pass --method {saved} to a command."
            )
        return cls

    @classmethod
    def _from_params(cls, params: dict[str, Any]) -> Self:
        """Return a new hasher with parameters read from JSON."""
        return cls(**params)

    def _description(self) -> dict[str, Any]:
        """Return what was learned besides arrays, as JSON values."""
        return {}

    def _restore(self, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> None:
        """Set what was learned from a saved model."""
        for name in arrays:
            if LEARNED.fullmatch(name) is None:
                raise InputError(f"The model has an array {name[:60]!r} that no method learns.")
        vars(self).update(arrays)

    def _use_exported(self, folder: Path, description: dict[str, Any]) -> None:  # noqa: B027
        """Encode with networks that were exported to ONNX; most methods have none."""

    def _is_fitted(self) -> bool:
        return bool(self.learned())

    def _check_fitted(self) -> None:
        if not self._is_fitted():
            raise InputError(f"This {type(self).__name__} is not fitted yet. Call fit first.")

    def __repr__(self) -> str:
        params = self.get_params(deep=False).items()
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in params)})"


def nested_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of parameters that have some, named ``training__epochs``."""
    nested = {}
    for name, value in params.items():
        fields = vars(value) if is_dataclass(value) else value if isinstance(value, dict) else {}
        nested.update({f"{name}__{field}": inner for field, inner in fields.items()})
    return nested


def _plain(value: Any) -> Any:
    """Return a NumPy number or nested settings as JSON values."""
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"Parameters of a method must be plain values, got {value!r}.")


def read_description(folder: Path) -> dict[str, Any]:
    """Read and validate ``hasher.json``."""
    if folder.is_file():
        raise InputError(f"{folder} is a file, not a model folder.")
    try:
        return read_json(folder, HASHER_FILE, FORMAT, KEYS)
    except FileNotFoundError as error:
        old = backup_path(folder.absolute())
        way = f"The previous model is in {old}: rename it." if old.exists() else "Train one first."
        raise InputError(f"No model in {folder}: {HASHER_FILE} not found. {way}") from error


def read_arrays(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Read the learned arrays and verify their checksum, which is part of the name."""
    found = ARRAYS.fullmatch(name)
    if found is None:
        problem = f"names the arrays {name[:60]!r}, expected arrays-CHECKSUM.safetensors"
        raise InputError(f"{folder / HASHER_FILE} {problem}. {AGAIN}")
    return load(read_file(folder, name, found.group(1)))


def _arrays_name(content: bytes) -> str:
    """Return the name of a file of arrays, which contains its checksum."""
    return f"arrays-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
