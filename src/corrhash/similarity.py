"""Similarity between samples: from shared labels, or from relevance judgments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from corrhash.errors import InputError

Labels = Any
"""An (n, n_classes) 0/1 matrix: a NumPy array, nested lists, or a SciPy sparse matrix."""

ROWS_AT_ONCE = 1 << 14
"""Rows per block when labels are converted, to limit memory."""

LABEL_SETS_AT_ONCE = 1 << 10
"""Distinct label sets per block in :attr:`Similarity.share_similar`, to limit memory."""

MAX_DENSE_LABELS = 1 << 26
"""Labels up to this many bytes are kept dense, which makes blocks for mini-batches faster."""

MAX_DENSE_CLASSES = 200
"""Labels of more classes are kept sparse: the product of dense ones takes longer."""


def as_labels(labels: Labels, name: str = "labels") -> sp.csr_array:
    """Convert labels to a sparse (n, n_classes) matrix of 0 and 1.

    ``name`` is the name of the argument in error messages.
    """
    if sp.issparse(labels):
        table, values = labels, labels.tocsr().data
    else:
        try:
            table = values = np.asarray(labels)
        except ValueError as error:
            raise InputError(f"{name} must have rows of equal length: {error}.") from error
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be an (n, n_classes) matrix of 0 and 1, got shape {table.shape} and "
            f"dtype {table.dtype}. Convert class indices with np.eye(n_classes)[indices]."
        )
    wrong = _not_zero_or_one(values)
    if len(wrong):
        raise InputError(
            f"{name} must be 0 or 1, got {wrong[0]} ({len(wrong)} such values in all). "
            "Pass labels > 0 if positive numbers mean that an item has the label."
        )
    if sp.issparse(labels):
        return sp.csr_array(table != 0).astype(np.uint8)
    blocks = range(0, max(1, len(table)), ROWS_AT_ONCE)
    parts = [_sparse(table[row : row + ROWS_AT_ONCE] != 0) for row in blocks]
    return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")


def _sparse(flags: NDArray[np.bool_]) -> sp.csr_array:
    """Do what ``csr_array(flags)`` does, in a third of the time."""
    n, n_classes = flags.shape
    rows, classes = np.divmod(np.flatnonzero(flags), max(1, n_classes))
    indptr = np.zeros(n + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=n), out=indptr[1:])
    ones = np.ones(len(rows), np.uint8)
    return sp.csr_array((ones, classes.astype(np.int32), indptr), shape=flags.shape)


def _not_zero_or_one(values: NDArray[Any]) -> NDArray[Any]:
    """Return the invalid values; the range of integers is checked first because it is fast."""
    if values.dtype.kind in "iub" and (values.size == 0 or 0 <= values.min() <= values.max() <= 1):
        return values.ravel()[:0]
    return values[(values != 0) & (values != 1)]


def share_label(query_labels: Labels, database_labels: Labels) -> NDArray[np.bool_]:
    """(n_queries, n_database) whether query and item share at least one label.

    >>> share_label([[1, 0, 1]], [[0, 0, 1], [0, 1, 0]])
    array([[ True, False]])
    """
    return Similarity.from_labels(query_labels, database_labels).block() > 0


@dataclass(frozen=True, eq=False)
class Similarity:
    """Pairwise similarity of rows and columns: +1 similar, -1 dissimilar, 0 not judged.

    In training, rows are images and columns are texts; in evaluation, rows are queries and columns
    are database items. Build one from labels, which judge every pair, with :meth:`from_labels`;
    from relevance judgments with :meth:`from_judgments`; from the pairing alone with
    :meth:`paired`.

    Examples
    --------
    >>> Similarity.from_labels([[1, 0], [0, 1]], [[1, 1], [0, 1], [1, 0]]).block()
    array([[ 1, -1,  1],
           [ 1,  1, -1]], dtype=int8)
    >>> clicks = Similarity.from_judgments([(0, 0, 1), (1, 2, -1)], shape=(2, 3))
    >>> clicks.block()
    array([[ 1,  0,  0],
           [ 0,  0, -1]], dtype=int8)
    >>> clicks.n_judged, clicks.share_similar
    (2, 0.5)
    """

    row_labels: sp.csr_array | None = None
    column_labels: sp.csr_array | None = None
    judgments: sp.csr_array | None = None

    @classmethod
    def from_labels(cls, row_labels: Labels, column_labels: Labels | None = None) -> Similarity:
        """Similar if at least one label is shared. ``column_labels`` default to ``row_labels``."""
        rows = as_labels(row_labels, "row_labels")
        columns = rows if column_labels is None else as_labels(column_labels, "column_labels")
        if rows.shape[1] != columns.shape[1]:
            raise InputError(
                "row_labels and column_labels must have the same classes, "
                f"got {rows.shape[1]} and {columns.shape[1]} columns."
            )
        return cls(row_labels=rows, column_labels=columns)

    @classmethod
    def from_judgments(cls, judgments: ArrayLike, shape: tuple[int, int]) -> Similarity:
        """Build from triples ``(row, column, s)`` with s = +1 or -1; other pairs are not judged.

        ``shape`` is (number of rows, number of columns).
        """
        rows, columns, values = _check_triples(judgments, shape).T
        cell = rows * shape[1] + columns
        order = np.argsort(cell, kind="stable")
        cell, values = cell[order], values[order]
        repeated = cell[1:] == cell[:-1]
        contradictory = repeated & (values[1:] != values[:-1])
        if contradictory.any():
            at = int(np.argmax(contradictory))
            raise InputError(
                f"Row {cell[at] // shape[1]} and column {cell[at] % shape[1]} are judged both "
                "similar and dissimilar. Keep one judgment per pair."
            )
        first = np.concatenate([[True], ~repeated]) if len(cell) else np.zeros(0, dtype=bool)
        cell, values = cell[first], values[first]
        coordinates = (cell // shape[1], cell % shape[1])
        return cls(judgments=sp.csr_array((values.astype(np.int8), coordinates), shape=shape))

    @classmethod
    def paired(cls, n: int) -> Similarity:
        """Row i is similar to column i, its paired sample, and dissimilar to all others."""
        return cls.from_labels(sp.eye_array(n, dtype=np.uint8, format="csr"))

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""
        if self.judgments is not None:
            return self.judgments.shape[0], self.judgments.shape[1]
        rows, columns = self._labels
        return rows.shape[0], columns.shape[0]

    @property
    def aligned(self) -> bool:
        """Whether row i and column i are two modalities of the same item."""
        return self.judgments is None and self.row_labels is self.column_labels

    @property
    def _labels(self) -> tuple[sp.csr_array, sp.csr_array]:
        """Labels of rows and columns, if built from labels."""
        assert self.row_labels is not None
        assert self.column_labels is not None
        return self.row_labels, self.column_labels

    @cached_property
    def _dense_labels(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        rows, columns = self._labels
        dense = rows.toarray()
        return dense, dense if columns is rows else columns.toarray()

    @property
    def T(self) -> Similarity:
        """The transpose: columns become rows."""
        if self.judgments is not None:
            return Similarity(judgments=sp.csr_array(self.judgments.T))
        return Similarity(row_labels=self.column_labels, column_labels=self.row_labels)

    def take(self, rows: Any = slice(None), columns: Any = slice(None)) -> Similarity:
        """Select rows and columns."""
        if self.judgments is not None:
            return Similarity(judgments=self.judgments[rows][:, columns])
        row_labels, column_labels = self._labels
        return Similarity(row_labels=row_labels[rows], column_labels=column_labels[columns])

    def among(self, items: Any) -> Similarity:
        """Select the same items as rows and as columns; requires :attr:`aligned`."""
        labels = self._labels[0][items]
        return Similarity(row_labels=labels, column_labels=labels)

    def block(self, rows: Any = slice(None), columns: Any = slice(None)) -> NDArray[np.int8]:
        """(rows, columns) dense array of +1, -1, and 0 for pairs that are not judged."""
        if self.judgments is not None:
            return np.asarray(self.judgments[rows][:, columns].toarray())
        n_classes = self._labels[0].shape[1]
        if n_classes <= MAX_DENSE_CLASSES and n_classes * max(self.shape) <= MAX_DENSE_LABELS:
            row_labels, column_labels = self._dense_labels
            shared = row_labels[rows].astype(np.float32) @ column_labels[columns].T
        else:
            shared = self.take(rows, columns).gains().toarray()
        return 2 * (shared > 0).astype(np.int8) - 1

    def gains(self) -> sp.csr_array:
        """(rows, columns) sparse gains: shared labels, or 1 for a pair judged similar."""
        if self.judgments is not None:
            similar = self.judgments.copy()
            similar.data = (similar.data > 0).astype(np.int8)
            similar.eliminate_zeros()
            return similar.astype(np.uint32)
        rows, columns = self._labels
        return sp.csr_array(rows.astype(np.uint32) @ columns.astype(np.uint32).T)

    @property
    def n_judged(self) -> int:
        """Number of judged pairs; labels judge all pairs."""
        if self.judgments is not None:
            return int(self.judgments.nnz)
        return self.shape[0] * self.shape[1]

    @property
    def n_unjudged(self) -> int:
        """Number of pairs without a judgment."""
        return self.shape[0] * self.shape[1] - self.n_judged

    @property
    def share_similar(self) -> float:
        """Share of similar pairs among the judged ones; NaN if none is judged."""
        if self.n_judged == 0:
            return float("nan")
        if self.judgments is not None:
            return float(np.mean(self.judgments.data > 0))
        # Items with equal labels have equal similarities, so that distinct label sets suffice.
        (rows, row_counts), (columns, column_counts) = map(_distinct_rows, self._labels)
        rows, columns = rows.astype(np.uint32), columns.astype(np.uint32).T
        n_similar = 0.0
        for start in range(0, rows.shape[0], LABEL_SETS_AT_ONCE):
            part = slice(start, start + LABEL_SETS_AT_ONCE)
            shared = sp.csr_array(rows[part] @ columns)
            shared.data[:] = 1
            n_similar += row_counts[part] @ (shared.astype(np.float64) @ column_counts)
        return float(n_similar / self.n_judged)


def _check_triples(judgments: ArrayLike, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Convert judgments to an (n, 3) array of integers and check their values."""
    table = np.asarray(judgments)
    if table.size == 0:
        return np.empty((0, 3), dtype=np.int64)
    if table.ndim != 2 or table.shape[1] != 3 or table.dtype.kind not in "fiu":
        raise InputError(
            "Judgments must be an (n, 3) array of triples (row, column, 1 or -1), "
            f"got shape {table.shape} and dtype {table.dtype}."
        )
    if table.dtype.kind == "f" and not np.array_equal(table, np.trunc(table)):
        raise InputError("Judgments must be integers (row, column, 1 or -1), got fractions.")
    table = table.astype(np.int64)
    wrong = np.abs(table[:, 2]) != 1
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"Judgments must be 1 or -1, got {table[at, 2]} in triple {at}. "
            "Leave out pairs that are not judged."
        )
    for axis, name in enumerate(("row", "column")):
        outside = (table[:, axis] < 0) | (table[:, axis] >= shape[axis])
        if outside.any():
            at = int(np.argmax(outside))
            raise InputError(
                f"Judgment {at} has {name} {table[at, axis]}, but there are {shape[axis]} {name}s, "
                "counted from 0."
            )
    return table


def label_masks(labels: sp.csr_array) -> NDArray[np.uint64]:
    """(ceil(n_classes / 64), n) labels as bit masks, for the kernels."""
    n, n_classes = labels.shape
    masks = np.zeros((max(1, -(-n_classes // 64)), n), dtype=np.uint64)
    for start in range(0, n, ROWS_AT_ONCE):
        part = labels[start : start + ROWS_AT_ONCE]
        rows = start + np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        bits = np.uint64(1) << (part.indices % 64).astype(np.uint64)
        np.bitwise_or.at(masks, (part.indices // 64, rows), bits)
    return masks


def _distinct_rows(labels: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Return the distinct rows of a label matrix and their counts."""
    labels = labels.sorted_indices()
    keys = [labels.indices[a:b].tobytes() for a, b in pairwise(labels.indptr)]
    _, first, counts = np.unique(
        np.array(keys, dtype=object), return_index=True, return_counts=True
    )
    return labels[first], counts
