"""What each dataset promises, checked for every name in DATASETS."""

import numpy as np
import pytest

from corrhash.datasets import DATASETS, load_dataset
from corrhash.datasets.base import PARTS
from corrhash.datasets.check import about, check_dataset
from corrhash.datasets.published.base import published_files
from tests.datasets.layouts import LAYOUTS

pytestmark = pytest.mark.parametrize("name", list(DATASETS))


@pytest.fixture(scope="module")
def in_miniature(tmp_path_factory):
    """What to load a dataset with few items with: published ones are laid out once."""
    known = {}

    def of(name):
        if name not in known and name in LAYOUTS:
            lay_out, sizes = LAYOUTS[name]
            known[name] = {"root": lay_out(tmp_path_factory.mktemp(name)), **sizes}
        return known.get(name, {"n": 300})

    return of


@pytest.fixture(scope="module")
def small(in_miniature):
    """Each dataset, loaded once with few items."""
    splits = {}

    def of(name, **options):
        key = (name, *options.items())
        if key not in splits:
            splits[key] = load_dataset(name, **in_miniature(name), **options)
        return splits[key]

    return of


def rows_of(pairs):
    return set(pairs.row_keys())


def test_parts_are_aligned(name, small):
    split = small(name, image_features="simple")
    for part in PARTS:
        pairs = getattr(split, part)
        assert pairs.images.shape[0] == pairs.texts.shape[0] == pairs.labels.shape[0] > 0
        assert pairs.images.shape[1] == split.train.images.shape[1]
        assert pairs.texts.shape[1] == split.train.texts.shape[1]
        assert len(pairs.label_names) == pairs.labels.shape[1]


def test_keys_are_unique_and_queries_held_out(name, small):
    split = small(name)
    assert len(rows_of(split.pairs)) == len(split.pairs)
    assert not rows_of(split.query) & rows_of(split.database)
    assert rows_of(split.train) | rows_of(split.validation) <= rows_of(split.database)
    assert not rows_of(split.train) & rows_of(split.validation)
    trained = np.array(split.database.row_keys())[split.train_in_database]
    assert set(trained) == rows_of(split.train)


def test_all_but_the_database_have_labels(name, small):
    split = small(name)
    for part in ("train", "validation", "query"):
        assert getattr(split, part).labels.sum(axis=1).min() >= 1


def test_the_same_seed_gives_the_same_split(name, small, in_miniature):
    first = small(name, image_features="simple")
    second = load_dataset(name, **in_miniature(name), image_features="simple")
    assert first.query.row_keys() == second.query.row_keys()
    assert first.fingerprint == second.fingerprint
    np.testing.assert_array_equal(first.query.images, second.query.images)
    other = small(name, seed=1)
    assert other.query.row_keys() != first.query.row_keys()
    assert other.fingerprint.split != first.fingerprint.split


def test_the_docstring_is_one_short_sentence(name):
    first = DATASETS[name].__doc__.strip().splitlines()[0]
    assert first.endswith(".")
    assert len(first) < 100


def test_a_saved_reader_gives_the_same_arrays(name, small, in_miniature):
    split = small(name, image_features="simple")
    again = load_dataset(name, **in_miniature(name), reader=split.reader)
    np.testing.assert_array_equal(again.query.images, split.query.images)
    assert (again.query.texts != split.query.texts).nnz == 0


def test_about_has_url_licence_and_split(name):
    lines = "\n".join(about(name))
    published = published_files(DATASETS[name])
    if published is None:
        assert "Generated: nothing to download" in lines
    else:
        assert name in LAYOUTS, "published datasets are laid out in tests/datasets/layouts.py"
        for words in (*published.urls, published.licence, "Unpack: ", "queries"):
            assert words in lines


def test_a_check_counts_items_and_takes_samples(name, in_miniature):
    check = check_dataset(name, **in_miniature(name))
    lines = "\n".join(check.lines())
    assert "fingerprint: data " in lines
    assert "train " in lines
    if published_files(DATASETS[name]):
        assert not check.complete
        assert "published: " in lines
    if name != "synthetic":
        assert len(check.images) == len(check.captions) == 24
        assert all(caption.startswith("[") for caption in check.captions)
