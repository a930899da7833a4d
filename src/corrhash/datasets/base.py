"""PairedDataset and RetrievalSplit: images, texts and labels, and their split for retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from corrhash.datasets.images import ImageFiles
from corrhash.errors import InputError
from corrhash.similarity import Labels, Similarity, as_labels

if TYPE_CHECKING:
    from corrhash.datasets.fingerprint import Fingerprint
    from corrhash.datasets.reader import Reader


def label_table(
    named: Sequence[Sequence[str]], names: list[str] | None = None
) -> tuple[list[str], sp.csr_array]:
    """Return label names, sorted by default, and an (n, n_names) matrix of 0 and 1.

    >>> names, table = label_table([["sea", "boat"], [], ["sea"]])
    >>> names
    ['boat', 'sea']
    >>> table.toarray().tolist()
    [[1, 1], [0, 0], [0, 1]]
    """
    if names is None:
        names = sorted({name for of_item in named for name in of_item})
    column_of = {name: column for column, name in enumerate(names)}
    columns = [sorted({column_of[name] for name in of_item}) for of_item in named]
    ends = np.cumsum([0, *map(len, columns)])
    indices = np.array([column for row in columns for column in row], dtype=np.int64)
    ones = np.ones(len(indices), dtype=np.uint8)
    return names, sp.csr_array((ones, indices, ends), shape=(len(named), len(names)))


@dataclass(frozen=True, eq=False)
class PairedDataset:
    """Images and texts; row i of each is one sample, unless ``similarity`` is given.

    Parameters
    ----------
    images : (n, d) features; or images, as ImageFiles or an (n, height, width, 3) uint8 array.
    texts : (n, d) term vectors, dense or sparse; or a list of strings.
    labels : (n, n_classes) matrix of 0 and 1, dense or sparse; None without labels.
    similarity : similarity between samples, in place of labels. With relevance judgments about
        images (rows) and texts (columns), these need be neither aligned nor equal in number.
        ``Similarity.paired(n)`` uses the pairing alone.
    keys : identifier of each image row; defaults to row numbers.
    items : further fields of each row to display (caption, path); methods do not read them.
    label_names : names of the label columns; methods do not read them.
    pseudo_labels : whether the labels are terms of the texts. They then carry no new information
        about two texts, and about two images only what their texts mention.

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
    pseudo_labels: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "images", _check_images(self.images))
        object.__setattr__(self, "texts", _check_texts(self.texts))
        if self.labels is not None:
            object.__setattr__(self, "labels", as_labels(self.labels))
        n_images, n_texts = n_rows(self.images), n_rows(self.texts)
        if self.similarity is None and n_images != n_texts:
            raise InputError(
                f"images and texts must have the same number of rows, got {n_images} and "
                f"{n_texts}. If they are not paired, pass relevance judgments as similarity."
            )
        if self.similarity is not None and self.similarity.shape != (n_images, n_texts):
            raise InputError(
                f"similarity must have one row per image and one column per text, {n_images} x "
                f"{n_texts}, got {self.similarity.shape[0]} x {self.similarity.shape[1]}."
            )
        for name in ("labels", "keys", "items"):
            values = getattr(self, name)
            if values is not None and n_rows(values) != n_images:
                raise InputError(
                    f"{name} must have one entry for each of the {n_images} rows, got "
                    f"{n_rows(values)}."
                )

    @property
    def n_images(self) -> int:
        """Number of images."""
        return n_rows(self.images)

    @property
    def n_texts(self) -> int:
        """Number of texts."""
        return n_rows(self.texts)

    @property
    def aligned(self) -> bool:
        """Whether row i of images and texts is one sample."""
        return self.similarity is None or self.similarity.aligned

    def __len__(self) -> int:
        return self.n_images

    def take(self, rows: Any) -> PairedDataset:
        """Return the pairs at ``rows`` (numbers, a mask or a slice), in that order."""
        if not self.aligned:
            raise InputError(
                "Cannot select rows: the images and texts of this dataset are not aligned."
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
        """Return the same pairs without labels."""
        return replace(self, labels=None)

    def row_keys(self) -> list[str]:
        """Return the key of each image row."""
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
    """All pairs of a dataset, split for a retrieval experiment.

    Parameters
    ----------
    pairs : every item once.
    train_rows, validation_rows, query_rows : three disjoint sets of rows.
    database_rows : every row that is not a query, including training and validation rows.
    reader : what turned raw images and strings into the arrays of ``pairs``.
    name : of the dataset.
    counts : what its files hold, to compare with the published numbers.
    fingerprint : of data and split; set by ``load_dataset``.
    strings : the texts of ``pairs`` before ``reader`` turned them into vectors, if they were
        strings.
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
    strings: Sequence[str] | None = None

    @cached_property
    def train(self) -> PairedDataset:
        """Pairs to train on."""
        return self.pairs.take(self.train_rows)

    @cached_property
    def validation(self) -> PairedDataset:
        """Pairs to select epochs and parameters on."""
        return self.pairs.take(self.validation_rows)

    @cached_property
    def query(self) -> PairedDataset:
        """Pairs to evaluate with."""
        return self.pairs.take(self.query_rows)

    @cached_property
    def database(self) -> PairedDataset:
        """Pairs to retrieve from."""
        return self.pairs.take(self.database_rows)

    @property
    def train_in_database(self) -> np.ndarray:
        """(n_database,) which database items are training items."""
        return np.isin(self.database_rows, self.train_rows)

    def without_trained(self) -> RetrievalSplit:
        """Return the split without training items in the database: memorizing does not help."""
        return replace(self, database_rows=self.database_rows[~self.train_in_database])

    def only(self, kept: NDArray[np.bool_]) -> RetrievalSplit:
        """Return the split of some items only; they keep their parts."""
        new_row = np.cumsum(kept) - 1
        parts = {
            f"{part}_rows": new_row[rows[kept[rows]]]
            for part in PARTS
            for rows in [getattr(self, f"{part}_rows")]
        }
        strings = None if self.strings is None else take_rows(self.strings, np.flatnonzero(kept))
        return replace(self, pairs=self.pairs.take(kept), strings=strings, **parts)

    def __repr__(self) -> str:
        parts = ", ".join(f"{part} {len(getattr(self, f'{part}_rows')):,}" for part in PARTS)
        return f"RetrievalSplit({self.name or 'unnamed'}: {parts})"


PARTS = ("train", "validation", "query", "database")


def n_rows(values: Any) -> int:
    """Return the number of rows of an array, a sparse matrix or a sequence."""
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def is_vectors(images: Any) -> bool:
    """Return whether images are (n, d) feature vectors."""
    return getattr(images, "ndim", 0) == 2


def take_rows(values: Any, rows: np.ndarray) -> Any:
    """Return rows of an array, a sparse matrix or a sequence, as the same type."""
    if isinstance(values, (list, tuple)):
        return [values[i] for i in rows]
    return values[rows]


def is_empty_text(texts: Any) -> NDArray[np.bool_]:
    """Return (n,) True for texts without any term of the vocabulary."""
    if isinstance(texts, list):
        return np.array([not text.strip() for text in texts], dtype=bool)
    if not sp.issparse(texts):
        return ~np.any(np.asarray(texts), axis=1)
    texts = texts.tocsr()
    if texts.data.all():
        return np.asarray(texts.indptr[1:] == texts.indptr[:-1])
    rows = np.repeat(np.arange(texts.shape[0]), np.diff(texts.indptr))
    return np.bincount(rows[texts.data != 0], minlength=texts.shape[0]) == 0


def _check_images(images: Any) -> Any:
    """Return features as a finite 2-D array, images unchanged."""
    if isinstance(images, ImageFiles):
        return images
    array = np.asarray(images)
    if array.dtype == np.uint8 and array.ndim == 4 and array.shape[3] == 3:
        return array
    if array.ndim == 2 and array.dtype.kind in "fiub":
        return _finite(array, "images")
    raise InputError(
        "images must be (n, d) features, ImageFiles, or an (n, height, width, 3) uint8 array, got "
        f"shape {array.shape} of {array.dtype}."
    )


def _check_texts(texts: Any) -> Any:
    """Return term vectors as a sparse matrix or a finite 2-D array, strings as a list."""
    if sp.issparse(texts):
        matrix = sp.csr_array(texts)
        if not np.isfinite(matrix.data).all():
            raise InputError("texts must be finite, got NaN or infinity. Remove such rows.")
        return matrix
    if isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts):
        return list(texts)
    array = np.asarray(texts)
    if array.ndim == 2 and array.dtype.kind in "fiub":
        return _finite(array, "texts")
    raise InputError(
        "texts must be an (n, d) array of term vectors, dense or sparse, or a list of strings, got "
        f"shape {array.shape} of {array.dtype}."
    )


def _finite(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise InputError(f"{name} must be finite, but row {row} is not. Remove such rows.")
    return array


def _kind(values: Any) -> str:
    if isinstance(values, list):
        return "strings"
    if isinstance(values, ImageFiles) or len(values.shape) == 4:
        return "raw"
    return f"{values.shape[1]:,} features"
