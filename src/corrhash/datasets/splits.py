"""Splits into train, validation, query and database, by the published protocols.

Items are ordered by the SHA-256 of ``seed:dataset:key`` and taken from the front, so a split does
not depend on the machine, nor on the versions of Python and NumPy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.errors import InputError, check_integer


@dataclass(frozen=True)
class Protocol:
    """Sizes of the parts of a split.

    Parameters
    ----------
    n_query, n_validation, n_train : of the whole dataset, or of each class.
    per_class : whether items are drawn class by class.
    source : the papers that use the protocol.
    """

    n_query: int
    n_validation: int
    n_train: int
    per_class: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("n_query", "n_validation", "n_train"):
            check_integer(name, getattr(self, name), 1)

    def draw(self, pairs: PairedDataset, name: str, seed: int) -> RetrievalSplit:
        """Draw the split of a dataset called ``name``."""
        sizes = {
            "n_query": self.n_query,
            "n_validation": self.n_validation,
            "n_train": self.n_train,
        }
        return (draw_per_class if self.per_class else draw_split)(pairs, name, seed, **sizes)


PROTOCOLS = {
    "mirflickr25k": Protocol(1000, 1000, 4000, source="the paper of CHN"),
    "mirflickr25k-24": Protocol(2000, 1000, 10000, source="most papers since 2016"),
    "nuswide": Protocol(100, 50, 500, per_class=True, source="the paper of CHN"),
    "coco": Protocol(5000, 1000, 10000, source="most papers since 2017"),
}
"""Protocols of the published datasets; 1,000 validation items where a paper has none."""

LARGEST_PART = 1000
"""Queries and validation items of user data are a tenth each, but no more than this."""


def protocol_of(name: str, sizes: Mapping[str, Any]) -> Protocol:
    """Return the protocol of a published dataset, with ``sizes`` (n_query, ...) replaced."""
    return replace(PROTOCOLS[name], **{k: n for k, n in sizes.items() if n is not None})


def hash_order(keys: Sequence[str], dataset: str, seed: int) -> np.ndarray:
    """Return rows in the order of the SHA-256 of ``seed:dataset:key``.

    >>> hash_order(["im1", "im2", "im3"], "flickr", seed=0)
    array([1, 2, 0])
    """
    digests = [hashlib.sha256(f"{seed}:{dataset}:{key}".encode()).digest() for key in keys]
    return np.array(sorted(range(len(keys)), key=digests.__getitem__), dtype=np.int64)


def draw_split(
    pairs: PairedDataset,
    name: str,
    seed: int,
    *,
    n_query: int,
    n_validation: int,
    n_train: int,
    title: str = "",
) -> RetrievalSplit:
    """Take query, validation and training items in hash order; the rest is database only.

    Items without any label are in the database only. Queries are not in the database. ``title`` is
    what errors call the data, by default its name.
    """
    Protocol(n_query, n_validation, n_train)  # refuses empty parts
    order = hash_order(pairs.row_keys(), name, seed)
    if pairs.labels is not None:
        labelled = np.diff(pairs.labels.indptr) > 0
        order = order[labelled[order]]
    wanted = n_query + n_validation + n_train
    if wanted > len(order):
        items = "items" if pairs.labels is None else "labelled items"
        raise InputError(
            f"{title or name} has {len(order):,} {items}, but the split needs {wanted:,}: "
            f"{n_query:,} queries, {n_validation:,} for validation and {n_train:,} for training. "
            "Reduce these numbers."
        )
    query, validation, train = np.split(order[:wanted], np.cumsum([n_query, n_validation]))
    return split_of(pairs, name, train=train, validation=validation, query=query)


def draw_per_class(
    pairs: PairedDataset,
    name: str,
    seed: int,
    *,
    n_query: int,
    n_validation: int,
    n_train: int,
) -> RetrievalSplit:
    """Draw query, then validation, then training items of each class, no item twice.

    The rarest class draws first (ties by name). An item counts for the class that drew it, even if
    it has other labels.
    """
    Protocol(n_query, n_validation, n_train)
    if pairs.labels is None:
        raise InputError(f"{name} has no labels, so a split cannot be drawn class by class.")
    by_class = pairs.labels.tocsc()
    sizes = np.diff(by_class.indptr)
    names = list(pairs.label_names) or [f"{column:06}" for column in range(len(sizes))]
    rank = np.empty(len(pairs), dtype=np.int64)
    rank[hash_order(pairs.row_keys(), name, seed)] = np.arange(len(pairs))
    free = np.ones(len(pairs), dtype=bool)
    drawn = []
    for column in sorted(range(len(sizes)), key=lambda c: (sizes[c], names[c])):
        rows = by_class.indices[by_class.indptr[column] : by_class.indptr[column + 1]]
        rows = rows[free[rows]]
        wanted = n_query + n_validation + n_train
        if len(rows) < wanted:
            raise InputError(
                f"{name} has {len(rows)} items left of the class {names[column]!r}, but the split "
                f"needs {wanted}: {n_query} queries, {n_validation} for validation and {n_train} "
                "for training. Reduce these numbers."
            )
        taken = rows[np.argsort(rank[rows])[:wanted]].astype(np.int64)
        free[taken] = False
        drawn.append(np.split(taken, np.cumsum([n_query, n_validation])))
    query, validation, train = (np.concatenate(part) for part in zip(*drawn, strict=True))
    return split_of(pairs, name, train=train, validation=validation, query=query)


def draw_user_split(
    pairs: PairedDataset, seed: int, sizes: Mapping[str, int | None], title: str = "The dataset"
) -> RetrievalSplit:
    """Draw a split of user data: by default a tenth each for queries and validation.

    It depends on the keys and the seed, not on the name or path of the data. ``title`` is what
    errors call the data.
    """
    n = len(pairs) if pairs.labels is None else int((np.diff(pairs.labels.indptr) > 0).sum())
    if n < 3:
        items = f"{'' if pairs.labels is None else 'labelled '}item{'' if n == 1 else 's'}"
        raise InputError(
            f"{title} has {n} {items}, but a split needs at least 3 (query, validation and "
            "training). Add more items."
        )
    for name, size in sizes.items():
        if size is not None:
            check_integer(name, size, 1)
    part = max(1, min(LARGEST_PART, n // 10))
    n_query = part if sizes["n_query"] is None else sizes["n_query"]
    n_validation = part if sizes["n_validation"] is None else sizes["n_validation"]
    rest = n - n_query - n_validation
    n_train = max(1, rest) if sizes["n_train"] is None else sizes["n_train"]
    parts = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    return draw_split(pairs, "own", seed, **parts, title=title)


def split_of(
    pairs: PairedDataset, name: str, *, train: np.ndarray, validation: np.ndarray, query: np.ndarray
) -> RetrievalSplit:
    """Return the split with these rows; the database is everything but the queries."""
    in_database = np.ones(len(pairs), dtype=bool)
    in_database[query] = False
    return RetrievalSplit(pairs, train, validation, query, np.flatnonzero(in_database), name=name)
