"""Splits: the same everywhere, disjoint, and drawn from labelled items."""

import hashlib

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import PairedDataset
from corrhash.datasets.splits import draw_split, hash_order


def pairs_of(n, unlabelled=()):
    labels = np.ones((n, 1), dtype=int)
    labels[list(unlabelled)] = 0
    return PairedDataset(np.arange(n)[:, None], np.ones((n, 1)), labels)


def test_the_order_is_that_of_the_hashes():
    keys = [f"im{i}" for i in range(50)]
    slow = sorted(
        range(50), key=lambda i: hashlib.sha256(f"7:flickr:{keys[i]}".encode()).hexdigest()
    )
    np.testing.assert_array_equal(hash_order(keys, "flickr", 7), slow)


def test_a_known_split_stays_what_it_is():
    """These rows may never change: published numbers rest on them."""
    split = draw_split(pairs_of(12), "example", 0, n_query=2, n_validation=2, n_train=3)
    drawn = [part.images.ravel().tolist() for part in (split.query, split.validation, split.train)]
    assert drawn == [[0, 4], [1, 7], [11, 2, 10]]


def test_queries_validation_and_training_are_disjoint_and_the_database_is_the_rest():
    split = draw_split(pairs_of(100), "example", 3, n_query=10, n_validation=20, n_train=30)
    query, validation, train, database = (
        set(part.images.ravel())
        for part in (split.query, split.validation, split.train, split.database)
    )
    assert (len(query), len(validation), len(train), len(database)) == (10, 20, 30, 90)
    assert not query & database
    assert not validation & train
    assert validation | train <= database
    assert set(split.database.images.ravel()[split.train_in_database]) == train


def test_another_seed_draws_another_split():
    first, second = (
        draw_split(pairs_of(100), "example", seed, n_query=10, n_validation=5, n_train=5)
        for seed in (0, 1)
    )
    assert set(first.query.images.ravel()) != set(second.query.images.ravel())


def test_items_without_a_label_only_stand_in_the_database():
    split = draw_split(
        pairs_of(30, unlabelled=range(10)), "example", 0, n_query=5, n_validation=5, n_train=10
    )
    for part in (split.query, split.validation, split.train):
        assert part.images.min() >= 10
    assert set(range(10)) <= set(split.database.images.ravel())


def test_an_empty_part_is_refused():
    with pytest.raises(InputError, match=r"needs an item. Got 0 queries"):
        draw_split(pairs_of(30), "example", 0, n_query=0, n_validation=10, n_train=10)


def test_more_than_there_is_is_refused():
    with pytest.raises(InputError, match=r"30 labelled items, but .* make 31"):
        draw_split(pairs_of(30), "example", 0, n_query=11, n_validation=10, n_train=10)
