"""Splits: the same everywhere, disjoint, and drawn from labelled items."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import PairedDataset
from corrhash.datasets.splits import (
    PROTOCOLS,
    draw_per_class,
    draw_split,
    draw_user_split,
    hash_order,
    protocol_of,
)


def pairs_of(n, unlabelled=()):
    labels = np.ones((n, 1), dtype=int)
    labels[list(unlabelled)] = 0
    return PairedDataset(np.arange(n)[:, None], np.ones((n, 1)), labels)


def test_rows_are_ordered_by_hash():
    keys = [f"im{i}" for i in range(50)]
    slow = sorted(
        range(50), key=lambda i: hashlib.sha256(f"7:flickr:{keys[i]}".encode()).hexdigest()
    )
    np.testing.assert_array_equal(hash_order(keys, "flickr", 7), slow)


def test_a_known_split_does_not_change():
    """These rows may never change: published numbers rest on them."""
    split = draw_split(pairs_of(12), "example", 0, n_query=2, n_validation=2, n_train=3)
    drawn = [part.images.ravel().tolist() for part in (split.query, split.validation, split.train)]
    assert drawn == [[0, 4], [1, 7], [11, 2, 10]]


def test_parts_are_disjoint_and_database_is_the_rest():
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


def test_unlabelled_items_are_in_the_database_only():
    split = draw_split(
        pairs_of(30, unlabelled=range(10)), "example", 0, n_query=5, n_validation=5, n_train=10
    )
    for part in (split.query, split.validation, split.train):
        assert part.images.min() >= 10
    assert set(range(10)) <= set(split.database.images.ravel())


def test_an_empty_part_is_rejected():
    with pytest.raises(InputError, match=r"must be at least 1, got 0"):
        draw_split(pairs_of(30), "example", 0, n_query=0, n_validation=10, n_train=10)


def test_a_split_larger_than_the_data_is_rejected():
    with pytest.raises(InputError, match=r"30 labelled items, but the split needs 31"):
        draw_split(pairs_of(30), "example", 0, n_query=11, n_validation=10, n_train=10)


def in_classes(n=300, n_classes=4):
    """Items of several classes, of which the first are the rarest; names go the other way."""
    rows = np.arange(n)
    labels = np.stack([rows % (7 - c) == 0 for c in range(n_classes)], axis=1)
    names = [f"class {n_classes - c}" for c in range(n_classes)]
    return PairedDataset(rows[:, None], np.ones((n, 1)), labels, label_names=names)


def test_the_rarest_class_draws_first_no_item_twice():
    pairs = in_classes()
    split = draw_per_class(pairs, "example", 5, n_query=3, n_validation=2, n_train=6)
    labels = pairs.labels.toarray().astype(bool)
    order = sorted(
        range(len(pairs)), key=lambda i: hashlib.sha256(f"5:example:{i}".encode()).hexdigest()
    )
    taken, slow = set(), {"query": [], "validation": [], "train": []}
    for column in sorted(range(4), key=lambda c: labels[:, c].sum()):
        for part, size in (("query", 3), ("validation", 2), ("train", 6)):
            new = [i for i in order if labels[i, column] and i not in taken][:size]
            taken |= set(new)
            slow[part] += new
    for part, rows in slow.items():
        assert getattr(split, f"{part}_rows").tolist() == rows
    assert sorted({*range(300)} - {*slow["query"]}) == split.database_rows.tolist()


def test_classes_of_one_size_draw_by_name():
    labels = np.ones((20, 2), dtype=int)
    pairs = PairedDataset(np.arange(20)[:, None], np.ones((20, 1)), labels, label_names=["b", "a"])
    split = draw_per_class(pairs, "example", 0, n_query=1, n_validation=1, n_train=1)
    swapped = replace(pairs, label_names=["a", "b"])
    other = draw_per_class(swapped, "example", 0, n_query=1, n_validation=1, n_train=1)
    order = hash_order(pairs.row_keys(), "example", 0)
    assert split.query_rows.tolist() == [order[0], order[3]] == other.query_rows.tolist()


def test_a_class_with_too_few_items_is_named():
    with pytest.raises(InputError, match=r"items left of the class 'class 4', but the split"):
        draw_per_class(in_classes(), "example", 0, n_query=30, n_validation=20, n_train=60)
    nothing = PairedDataset(np.ones((3, 1)), np.ones((3, 1)))
    with pytest.raises(InputError, match="has no labels"):
        draw_per_class(nothing, "example", 0, n_query=1, n_validation=1, n_train=1)


NO_SIZES = {"n_query": None, "n_validation": None, "n_train": None}


def test_user_data_is_split_by_tenths():
    split = draw_user_split(pairs_of(60), 0, NO_SIZES)
    assert [len(rows) for rows in (split.query_rows, split.validation_rows)] == [6, 6]
    assert len(split.train_rows) == 48
    large = draw_user_split(pairs_of(12000), 0, {**NO_SIZES, "n_train": 50})
    assert (len(large.query_rows), len(large.train_rows)) == (1000, 50)
    with pytest.raises(InputError, match="2 labelled items, but a split needs at least 3"):
        draw_user_split(pairs_of(2), 0, NO_SIZES)


def test_protocols_are_those_of_the_papers():
    sizes = {name: (p.n_query, p.n_train, p.per_class) for name, p in PROTOCOLS.items()}
    assert sizes == {
        "mirflickr25k": (1000, 4000, False),
        "mirflickr25k-24": (2000, 10000, False),
        "nuswide": (100, 500, True),
        "coco": (5000, 10000, False),
    }
    assert protocol_of("coco", {"n_query": 7, "n_train": None}).n_query == 7


def test_errors_about_user_splits_name_the_data():
    with pytest.raises(InputError, match="^photos has 9 labelled items, but the split needs 10: "):
        draw_user_split(pairs_of(9), 0, NO_SIZES | {"n_train": 8}, "photos")
    with pytest.raises(InputError, match="^n_query must be an integer, got 'abc'"):
        draw_user_split(pairs_of(9), 0, NO_SIZES | {"n_query": "abc"})
