"""What each dataset promises, checked for every name in DATASETS."""

import numpy as np
import pytest

from corrhash.datasets import DATASETS, load_dataset
from corrhash.datasets.base import PARTS

pytestmark = pytest.mark.parametrize("name", list(DATASETS))


@pytest.fixture(scope="module")
def small():
    """Each dataset, loaded once with few items."""
    splits = {}

    def of(name, **options):
        key = (name, *options.items())
        if key not in splits:
            splits[key] = load_dataset(name, n=300, **options)
        return splits[key]

    return of


def rows_of(pairs):
    return set(pairs.row_keys())


def test_the_parts_are_aligned_and_of_one_kind(name, small):
    split = small(name, image_features="simple")
    for part in PARTS:
        pairs = getattr(split, part)
        assert pairs.images.shape[0] == pairs.texts.shape[0] == pairs.labels.shape[0] > 0
        assert pairs.images.shape[1] == split.train.images.shape[1]
        assert pairs.texts.shape[1] == split.train.texts.shape[1]
        assert len(pairs.label_names) == pairs.labels.shape[1]


def test_queries_are_never_in_the_database(name, small):
    split = small(name)
    assert not rows_of(split.query) & rows_of(split.database)
    assert rows_of(split.train) | rows_of(split.validation) <= rows_of(split.database)
    assert not rows_of(split.train) & rows_of(split.validation)
    trained = np.array(split.database.row_keys())[split.train_in_database]
    assert set(trained) == rows_of(split.train)


def test_all_but_the_database_carry_labels(name, small):
    split = small(name)
    for part in ("train", "validation", "query"):
        assert getattr(split, part).labels.sum(axis=1).min() >= 1


def test_the_same_seed_gives_the_same_split(name, small):
    first, second = small(name), load_dataset(name, n=300)
    assert first.query.row_keys() == second.query.row_keys()
    np.testing.assert_array_equal(first.query.images, second.query.images)
    assert small(name, seed=1).query.row_keys() != first.query.row_keys()


def test_the_loader_says_what_it_is_in_one_line(name):
    first = DATASETS[name].__doc__.strip().splitlines()[0]
    assert first.endswith(".")
    assert len(first) < 100


def test_a_reader_of_one_load_reads_the_next_alike(name, small):
    split = small(name, image_features="simple")
    again = load_dataset(name, n=300, reader=split.reader)
    np.testing.assert_array_equal(again.query.images, split.query.images)
    assert (again.query.texts != split.query.texts).nnz == 0
