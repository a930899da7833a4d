"""Fingerprint: checksums of a dataset and of its split, equal on every machine and version.

Both are SHA-256 of strings in UTF-8, each prefixed with its length, and of numbers in little-endian
order. They do not depend on Python's hash, a random stream or the memory layout of arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from corrhash.datasets.base import PARTS, PairedDataset, RetrievalSplit
from corrhash.datasets.images import ImageFiles

DIGITS = 16


@dataclass(frozen=True)
class Fingerprint:
    """Two checksums of 16 hexadecimal digits.

    Parameters
    ----------
    data : of keys, texts, labels and images; arrays with every byte, image files with their size
        in bytes.
    split : of the keys of training, validation, query and database items, in their order.
    """

    data: str
    split: str

    def __str__(self) -> str:
        return f"data {self.data}, split {self.split}"


def fingerprint_of(split: RetrievalSplit, *, images: bool = True) -> Fingerprint:
    """Return the fingerprint of a dataset as loaded, before a reader has changed it.

    Without ``images``, image files are ignored: features of a file are used in their place.
    """
    return Fingerprint(_of_data(split.pairs, images), split_fingerprint(split))


def split_fingerprint(split: RetrievalSplit) -> str:
    """Return the checksum of a split.

    >>> from corrhash.datasets import PairedDataset
    >>> from corrhash.datasets.splits import draw_split
    >>> pairs = PairedDataset(np.ones((9, 2)), np.ones((9, 2)))
    >>> split = draw_split(pairs, "example", 0, n_query=2, n_validation=2, n_train=3)
    >>> split_fingerprint(split)
    '4b6b8f1a638d5dd2'
    """
    keys = split.pairs.row_keys()
    digest = hashlib.sha256()
    for part in PARTS:
        rows = getattr(split, f"{part}_rows").tolist()
        _add_strings(digest, [part, str(len(rows)), *(keys[row] for row in rows)])
    return digest.hexdigest()[:DIGITS]


def _of_data(pairs: PairedDataset, images: bool) -> str:
    digest = hashlib.sha256()
    _add_strings(digest, pairs.row_keys())
    _add(digest, pairs.texts)
    if pairs.labels is not None:
        _add_strings(digest, pairs.label_names)
        _add(digest, pairs.labels)
    if images or not isinstance(pairs.images, ImageFiles):
        _add(digest, pairs.images)
    return digest.hexdigest()[:DIGITS]


def digest_of(values: Any) -> str:
    """Return the SHA-256 of a dense or sparse array, of strings, or of the sizes of files."""
    digest = hashlib.sha256()
    _add(digest, values)
    return digest.hexdigest()


def _add(digest: Any, values: Any) -> None:
    if isinstance(values, list):
        _add_strings(digest, values)
    elif isinstance(values, ImageFiles):
        _add_strings(digest, [str(_size(path)) for path in values.paths])
    elif sp.issparse(values):
        table = sp.csr_array(values, copy=True)
        table.sum_duplicates()  # also sorts each row
        _add_strings(digest, map(str, table.shape))
        for part in (table.indptr.astype("<i8"), table.indices.astype("<i8"), table.data):
            _add_array(digest, part)
    else:
        _add_array(digest, values)


def _add_array(digest: Any, array: np.ndarray) -> None:
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    _add_strings(digest, [f"{array.dtype.kind}{array.dtype.itemsize}", *map(str, array.shape)])
    digest.update(array.view(np.uint8).data)


def _add_strings(digest: Any, strings: Iterable[str]) -> None:
    for string in strings:
        content = string.encode()
        digest.update(b"%d:" % len(content))
        digest.update(content)


def _size(path: Any) -> int:
    """Return the size of a file in bytes; -1 if it does not exist."""
    try:
        return int(path.stat().st_size)
    except OSError:
        return -1
