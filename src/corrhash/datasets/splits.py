"""Who is query, who is trained on: splits drawn from hashes, the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.errors import InputError


def hash_order(keys: Sequence[str], dataset: str, seed: int) -> np.ndarray:
    """Rows ordered by the SHA-256 of ``seed:dataset:key``: no library's random stream decides.

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
) -> RetrievalSplit:
    """Query, validation and training items in hash order; the database is all but the queries.

    Items without any label may stay in the database but play no other part.
    """
    order = hash_order(pairs.row_keys(), name, seed)
    if pairs.labels is not None:
        labelled = np.diff(pairs.labels.indptr) > 0
        order = order[labelled[order]]
    if min(n_query, n_validation, n_train) < 1:
        raise InputError(
            f"Every part of a split needs an item. Got {n_query} queries, {n_validation} for "
            f"validation and {n_train} for training. Use more items."
        )
    wanted = n_query + n_validation + n_train
    if wanted > len(order):
        raise InputError(
            f"{name} has {len(order)} labelled items, but {n_query} queries, {n_validation} for "
            f"validation and {n_train} for training make {wanted}. Ask for fewer."
        )
    query, validation, train = np.split(order[:wanted], np.cumsum([n_query, n_validation]))
    in_database = np.ones(len(pairs), dtype=bool)
    in_database[query] = False
    return RetrievalSplit(pairs, train, validation, query, np.flatnonzero(in_database), name=name)
