"""Who is relevant to whom, in training and in scoring alike: shared labels, or judged pairs."""

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
"""Labels are turned from one form into another in blocks, so that little is held beside them."""

SETS_AT_ONCE = 1 << 10
"""Label sets that are compared with all others at a time: words make nearly as many as items."""

DENSE_LABELS = 1 << 26
"""Up to so many bytes, labels are held as a dense table, of which mini-batches are made faster."""


def as_labels(labels: Labels, name: str = "labels") -> sp.csr_array:
    """``labels`` as a sparse (n, n_classes) matrix of 0 and 1, or an error that says why not."""
    if sp.issparse(labels):
        table, values = labels, labels.tocsr().data
    else:
        try:
            table = values = np.asarray(labels)
        except ValueError as error:
            raise InputError(f"{name} must be rows of equal length. Got {error}.") from error
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be an (n, n_classes) matrix of 0 and 1. Got shape {table.shape} of "
            f"{table.dtype}. Class numbers become such a matrix by np.eye(n_classes)[numbers]."
        )
    wrong = _neither_zero_nor_one(values)
    if len(wrong):
        raise InputError(
            f"{name} must be 0 or 1. Got {wrong[0]} ({len(wrong)} such values in all). "
            "Use labels > 0 if positive numbers mean that an item carries the label."
        )
    if sp.issparse(labels):
        return sp.csr_array(table != 0).astype(np.uint8)
    blocks = range(0, max(1, len(table)), ROWS_AT_ONCE)
    parts = [_sparse(table[row : row + ROWS_AT_ONCE] != 0) for row in blocks]
    return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")


def _sparse(flags: NDArray[np.bool_]) -> sp.csr_array:
    """What ``csr_array`` makes of a table of truths, at a third of the time."""
    n, n_classes = flags.shape
    rows, classes = np.divmod(np.flatnonzero(flags), max(1, n_classes))
    begins = np.zeros(n + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=n), out=begins[1:])
    ones = np.ones(len(rows), np.uint8)
    return sp.csr_array((ones, classes.astype(np.int32), begins), shape=flags.shape)


def _neither_zero_nor_one(values: NDArray[Any]) -> NDArray[Any]:
    """The values that no label may have; whole numbers are checked by their range alone."""
    if values.dtype.kind in "iub" and (values.size == 0 or 0 <= values.min() <= values.max() <= 1):
        return values.ravel()[:0]
    return values[(values != 0) & (values != 1)]


def share_label(query_labels: Labels, database_labels: Labels) -> NDArray[np.bool_]:
    """(n_queries, n_database): whether the two share at least one label.

    >>> share_label([[1, 0, 1]], [[0, 0, 1], [0, 1, 0]])
    array([[ True, False]])
    """
    return Similarity.from_labels(query_labels, database_labels).block() > 0


@dataclass(frozen=True, eq=False)
class Similarity:
    """A relation between rows and columns: +1 similar, -1 dissimilar, 0 where nobody has judged.

    In training the rows are images and the columns texts; in scoring they are the queries and the
    database. Rows and columns need be neither aligned nor equal in number. Build one with
    :meth:`from_labels` (every pair is known) or :meth:`from_pairs` (only the judged ones are).

    Examples
    --------
    >>> Similarity.from_labels([[1, 0], [0, 1]], [[1, 1], [0, 1], [1, 0]]).block()
    array([[ 1, -1,  1],
           [ 1,  1, -1]], dtype=int8)
    >>> clicks = Similarity.from_pairs([(0, 0, 1), (1, 2, -1)], shape=(2, 3))
    >>> clicks.block()
    array([[ 1,  0,  0],
           [ 0,  0, -1]], dtype=int8)
    >>> clicks.n_known, clicks.share_similar
    (2, 0.5)
    """

    row_labels: sp.csr_array | None = None
    column_labels: sp.csr_array | None = None
    judged: sp.csr_array | None = None

    @classmethod
    def from_labels(cls, row_labels: Labels, column_labels: Labels | None = None) -> Similarity:
        """Similar where at least one label is shared; columns are the rows again if not given."""
        rows = as_labels(row_labels, "row_labels")
        columns = rows if column_labels is None else as_labels(column_labels, "column_labels")
        if rows.shape[1] != columns.shape[1]:
            raise InputError(
                "Both sides need the same label columns. "
                f"Got {rows.shape[1]} and {columns.shape[1]} columns. "
                "Use one list of classes for queries and database."
            )
        return cls(row_labels=rows, column_labels=columns)

    @classmethod
    def from_pairs(cls, pairs: ArrayLike, shape: tuple[int, int]) -> Similarity:
        """Judged pairs ``(row, column, s)`` with s = +1 or -1; all other pairs are unknown."""
        rows, columns, values = _triples(pairs).T
        wrong = (values != 1) & (values != -1)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"A judgement must be 1 or -1. Got {values[at]} in pair {at}. "
                "Leave unknown pairs out."
            )
        for name, numbers, limit in (("row", rows, shape[0]), ("column", columns, shape[1])):
            outside = (numbers < 0) | (numbers >= limit)
            if outside.any():
                at = int(np.argmax(outside))
                raise InputError(
                    f"A judged pair names {name} {numbers[at]} (pair {at}), "
                    f"but there are {limit} {name}s, numbered from 0."
                )
        cell = rows * shape[1] + columns
        order = np.argsort(cell, kind="stable")
        cell, values = cell[order], values[order]
        again = cell[1:] == cell[:-1]
        if np.any(again & (values[1:] != values[:-1])):
            at = int(np.argmax(again & (values[1:] != values[:-1])))
            raise InputError(
                f"Row {cell[at] // shape[1]} and column {cell[at] % shape[1]} are judged both "
                "similar and dissimilar. Keep one judgement a pair."
            )
        first = np.concatenate([[True], ~again]) if len(cell) else np.zeros(0, dtype=bool)
        cell, values = cell[first], values[first]
        coordinates = (cell // shape[1], cell % shape[1])
        judged = sp.csr_array((values.astype(np.int8), coordinates), shape=shape)
        return cls(judged=judged)

    @classmethod
    def partners(cls, n: int) -> Similarity:
        """Row i is similar to column i and to nothing else: pairs without labels."""
        return cls.from_labels(sp.eye_array(n, dtype=np.uint8, format="csr"))

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""
        if self.judged is not None:
            return self.judged.shape[0], self.judged.shape[1]
        rows, columns = self._labels
        return rows.shape[0], columns.shape[0]

    @property
    def aligned(self) -> bool:
        """Whether row i and column i are two sides of one item, as they are for partners."""
        return self.judged is None and self.row_labels is self.column_labels

    @property
    def _labels(self) -> tuple[sp.csr_array, sp.csr_array]:
        """The labels of rows and columns, of a relation that was built from labels."""
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
        """The same relation seen from the columns."""
        if self.judged is not None:
            return Similarity(judged=sp.csr_array(self.judged.T))
        return Similarity(row_labels=self.column_labels, column_labels=self.row_labels)

    def take(self, rows: Any = slice(None), columns: Any = slice(None)) -> Similarity:
        """The relation between some of the rows and some of the columns."""
        if self.judged is not None:
            return Similarity(judged=self.judged[rows][:, columns])
        row_labels, column_labels = self._labels
        return Similarity(row_labels=row_labels[rows], column_labels=column_labels[columns])

    def among(self, items: Any) -> Similarity:
        """The relation among some of the items of an aligned one."""
        labels = self._labels[0][items]
        return Similarity(row_labels=labels, column_labels=labels)

    def block(self, rows: Any = slice(None), columns: Any = slice(None)) -> NDArray[np.int8]:
        """(rows, columns) of +1, -1 and 0 for unknown: what a mini-batch asks for."""
        if self.judged is not None:
            return np.asarray(self.judged[rows][:, columns].toarray())
        if max(labels.shape[0] * labels.shape[1] for labels in self._labels) <= DENSE_LABELS:
            row_labels, column_labels = self._dense_labels
            shared = row_labels[rows].astype(np.float32) @ column_labels[columns].T
        else:
            shared = self.take(rows, columns).gains().toarray()
        return np.where(shared > 0, np.int8(1), np.int8(-1))

    def gains(self) -> sp.csr_array:
        """(rows, columns), sparse: the number of shared labels; 1 for a pair judged similar."""
        if self.judged is not None:
            similar = self.judged.copy()
            similar.data = (similar.data > 0).astype(np.int8)
            similar.eliminate_zeros()
            return similar.astype(np.uint32)
        rows, columns = self._labels
        return sp.csr_array(rows.astype(np.uint32) @ columns.astype(np.uint32).T)

    @property
    def n_known(self) -> int:
        """How many pairs are known."""
        if self.judged is not None:
            return int(self.judged.nnz)
        return self.shape[0] * self.shape[1]

    @property
    def n_unknown(self) -> int:
        """How many pairs nobody has judged."""
        return self.shape[0] * self.shape[1] - self.n_known

    @property
    def share_similar(self) -> float:
        """The share of similar pairs among the known ones; NaN if none is known."""
        if self.n_known == 0:
            return float("nan")
        if self.judged is not None:
            return float(np.mean(self.judged.data > 0))
        # Items with equal labels behave alike: count over the distinct label sets only.
        (rows, row_counts), (columns, column_counts) = map(_distinct_rows, self._labels)
        rows, columns = rows.astype(np.uint32), columns.astype(np.uint32).T
        n_similar = 0.0
        for start in range(0, rows.shape[0], SETS_AT_ONCE):
            part = slice(start, start + SETS_AT_ONCE)
            shared = sp.csr_array(rows[part] @ columns)
            shared.data[:] = 1
            n_similar += row_counts[part] @ (shared.astype(np.float64) @ column_counts)
        return float(n_similar / self.n_known)


def _triples(pairs: ArrayLike) -> NDArray[np.int64]:
    """Judged pairs as an (n, 3) table of whole numbers."""
    table = np.asarray(pairs)
    if table.size == 0:
        return np.empty((0, 3), dtype=np.int64)
    if table.ndim != 2 or table.shape[1] != 3 or table.dtype.kind not in "fiu":
        raise InputError(
            "Judged pairs are triples (row, column, 1 or -1), an (n, 3) table of numbers. "
            f"Got shape {table.shape} of {table.dtype}."
        )
    if table.dtype.kind == "f" and not np.array_equal(table, np.trunc(table)):
        raise InputError("Judged pairs are whole numbers: (row, column, 1 or -1). Got fractions.")
    return table.astype(np.int64)


def label_masks(labels: sp.csr_array) -> NDArray[np.uint64]:
    """Labels as bit masks, (ceil(n_classes / 64), n): the form that the kernels read."""
    n, n_classes = labels.shape
    masks = np.zeros((max(1, -(-n_classes // 64)), n), dtype=np.uint64)
    for start in range(0, n, ROWS_AT_ONCE):
        part = labels[start : start + ROWS_AT_ONCE]
        rows = start + np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        bits = np.uint64(1) << (part.indices % 64).astype(np.uint64)
        np.bitwise_or.at(masks, (part.indices // 64, rows), bits)
    return masks


def _distinct_rows(labels: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """The distinct rows of a label matrix and how often each occurs."""
    labels = labels.sorted_indices()
    keys = [labels.indices[a:b].tobytes() for a, b in pairwise(labels.indptr)]
    _, first, counts = np.unique(
        np.array(keys, dtype=object), return_index=True, return_counts=True
    )
    return labels[first], counts
