"""PairedDataset and RetrievalSplit: images, texts and labels, and who of them plays which part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from corrhash.datasets.image_files import ImageFiles
from corrhash.errors import InputError
from corrhash.relevance import Labels, Similarity, as_labels

if TYPE_CHECKING:
    from corrhash.datasets.fingerprint import Fingerprint
    from corrhash.datasets.reader import Reader


@dataclass(frozen=True, eq=False)
class PairedDataset:
    """Images and texts; row i of each belongs together, unless a ``similarity`` says otherwise.

    Parameters
    ----------
    images : (n, d) features; or pictures, as ImageFiles or an (n, height, width, 3) uint8 array.
    texts : (n, d) tag occurrences, dense or sparse; or a list of strings.
    labels : (n, n_classes) matrix of 0 and 1, dense or sparse, if there are labels.
    similarity : who is similar to whom, in place of labels. With judged pairs of images (rows)
        and texts (columns), these need be neither aligned nor equal in number;
        ``Similarity.partners(n)`` says that the pairing is all that is known.
    keys : a name for each image row; row numbers if not given.
    items : what to show of each row (its caption, its path), for people only.
    label_names : names of the label columns, for people only.
    labels_are_words : whether the labels were read off the texts. They then say nothing new of
        two texts, and of two images only what their texts happen to mention.

    Examples
    --------
    >>> pairs = PairedDataset(np.ones((3, 4)), ["a boat", "a tree", "two boats"])
    >>> pairs
    PairedDataset(3 pairs: images 4 features, texts strings, no labels)
    >>> pairs.take([0, 2]).texts
    ['a boat', 'two boats']
    """

    images: Any
    texts: Any
    labels: Labels | None = None
    similarity: Similarity | None = None
    keys: Sequence[str] | None = None
    items: Sequence[dict[str, Any]] | None = None
    label_names: Sequence[str] = ()
    labels_are_words: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "images", _check_images(self.images))
        object.__setattr__(self, "texts", _check_texts(self.texts))
        if self.labels is not None:
            object.__setattr__(self, "labels", as_labels(self.labels))
        n_images, n_texts = n_rows(self.images), n_rows(self.texts)
        if self.similarity is None and n_images != n_texts:
            raise InputError(
                f"Row i of images and texts belongs together. Got {n_images} images and "
                f"{n_texts} texts. Give as many of each, or a similarity of judged pairs."
            )
        if self.similarity is not None and self.similarity.shape != (n_images, n_texts):
            raise InputError(
                f"The similarity is over {self.similarity.shape[0]} images and "
                f"{self.similarity.shape[1]} texts. Got {n_images} and {n_texts}."
            )
        for name in ("labels", "keys", "items"):
            values = getattr(self, name)
            if values is not None and n_rows(values) != n_images:
                raise InputError(
                    f"There are {n_images} rows but {n_rows(values)} {name}. Give one a row."
                )

    @property
    def n_images(self) -> int:
        """How many images there are."""
        return n_rows(self.images)

    @property
    def n_texts(self) -> int:
        """How many texts there are."""
        return n_rows(self.texts)

    @property
    def aligned(self) -> bool:
        """Whether row i of images and texts belongs together."""
        return self.similarity is None or self.similarity.aligned

    def __len__(self) -> int:
        return self.n_images

    def take(self, rows: Any) -> PairedDataset:
        """The pairs at ``rows`` (numbers, a mask or a slice), in that order."""
        if not self.aligned:
            raise InputError(
                "Images and texts of this dataset are not aligned, so rows cannot be taken of both."
            )
        rows = np.arange(len(self))[rows]
        return replace(
            self,
            images=take_rows(self.images, rows),
            texts=take_rows(self.texts, rows),
            labels=None if self.labels is None else self.labels[rows],
            similarity=None if self.similarity is None else self.similarity.among(rows),
            keys=None if self.keys is None else take_rows(self.keys, rows),
            items=None if self.items is None else take_rows(self.items, rows),
        )

    def without_labels(self) -> PairedDataset:
        """The same pairs without their labels."""
        return replace(self, labels=None)

    def row_keys(self) -> list[str]:
        """A name for each image row."""
        return [str(i) for i in range(len(self))] if self.keys is None else list(self.keys)

    def __repr__(self) -> str:
        n_labels = "no labels" if self.labels is None else f"{self.labels.shape[1]} labels"
        size = f"{len(self):,} pairs"
        if not self.aligned:
            size = f"{self.n_images:,} images and {self.n_texts:,} texts"
        kinds = f"images {_kind(self.images)}, texts {_kind(self.texts)}"
        return f"PairedDataset({size}: {kinds}, {n_labels})"


@dataclass(frozen=True, eq=False)
class RetrievalSplit:
    """All pairs of a dataset, and who of them plays which part in a retrieval experiment.

    Parameters
    ----------
    pairs : every item once.
    train_rows, validation_rows, query_rows : three disjoint sets of its rows.
    database_rows : everything that is not a query, training and validation items included.
    reader : what turned raw pictures and strings into the arrays of ``pairs``.
    name : of the dataset.
    counts : what was counted in its files, to compare with what is published of it.
    fingerprint : of the data and of who plays which part; ``load_dataset`` takes it.
    """

    pairs: PairedDataset
    train_rows: np.ndarray
    validation_rows: np.ndarray
    query_rows: np.ndarray
    database_rows: np.ndarray
    reader: Reader | None = None
    name: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None

    @cached_property
    def train(self) -> PairedDataset:
        """What a method learns from."""
        return self.pairs.take(self.train_rows)

    @cached_property
    def validation(self) -> PairedDataset:
        """What choices are made on."""
        return self.pairs.take(self.validation_rows)

    @cached_property
    def query(self) -> PairedDataset:
        """What is asked, once, at the end."""
        return self.pairs.take(self.query_rows)

    @cached_property
    def database(self) -> PairedDataset:
        """What is searched."""
        return self.pairs.take(self.database_rows)

    @property
    def train_in_database(self) -> np.ndarray:
        """(n_database,) which items of the database were trained on."""
        return np.isin(self.database_rows, self.train_rows)

    def without_trained(self) -> RetrievalSplit:
        """The same split with training items taken out of the database: who memorises loses."""
        return replace(self, database_rows=self.database_rows[~self.train_in_database])

    def only(self, kept: NDArray[np.bool_]) -> RetrievalSplit:
        """The split without some items; the others keep their parts, whatever is left out."""
        new_row = np.cumsum(kept) - 1
        parts = {
            f"{part}_rows": new_row[rows[kept[rows]]]
            for part in PARTS
            for rows in [getattr(self, f"{part}_rows")]
        }
        return replace(self, pairs=self.pairs.take(kept), **parts)

    def __repr__(self) -> str:
        parts = ", ".join(f"{part} {len(getattr(self, f'{part}_rows')):,}" for part in PARTS)
        return f"RetrievalSplit({self.name or 'unnamed'}: {parts})"


PARTS = ("train", "validation", "query", "database")


def n_rows(values: Any) -> int:
    """The number of rows of an array, a sparse matrix or a sequence."""
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def take_rows(values: Any, rows: np.ndarray) -> Any:
    """The rows of an array, a sparse matrix or a sequence, as the same kind of thing."""
    if isinstance(values, (list, tuple)):
        return [values[i] for i in rows]
    return values[rows]


def without_words(texts: Any) -> NDArray[np.bool_]:
    """(n,) True for texts in which no word of the vocabulary occurs."""
    if isinstance(texts, list):
        return np.array([not text.strip() for text in texts], dtype=bool)
    return np.asarray(abs(texts).sum(axis=1)).ravel() == 0


def _check_images(images: Any) -> Any:
    """Features as a finite 2-D float array; pictures as they are."""
    if isinstance(images, ImageFiles):
        return images
    array = np.asarray(images)
    if array.dtype == np.uint8 and array.ndim == 4 and array.shape[3] == 3:
        return array
    if array.ndim == 2 and array.dtype.kind in "fiub":
        return _finite(array, "images")
    raise InputError(
        "images must be an (n, d) array of features, ImageFiles, or an (n, height, width, 3) array "
        f"of uint8. Got shape {array.shape} of {array.dtype}."
    )


def _check_texts(texts: Any) -> Any:
    """Tag occurrences as a sparse matrix or a finite 2-D array; strings as a list."""
    if sp.issparse(texts):
        matrix = sp.csr_array(texts)
        if not np.isfinite(matrix.data).all():
            raise InputError("texts must be finite. Leave out what is not a number.")
        return matrix
    if isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts):
        return list(texts)
    array = np.asarray(texts)
    if array.ndim == 2 and array.dtype.kind in "fiub":
        return _finite(array, "texts")
    raise InputError(
        "texts must be an (n, d) array of tag occurrences, dense or sparse, or a list of strings. "
        f"Got shape {array.shape} of {array.dtype}."
    )


def _finite(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise InputError(f"{name} must be finite. Row {row} is not. Leave such rows out.")
    return array


def _kind(values: Any) -> str:
    if isinstance(values, list):
        return "strings"
    if isinstance(values, ImageFiles) or len(values.shape) == 4:
        return "pictures"
    return f"{values.shape[1]:,} features"
