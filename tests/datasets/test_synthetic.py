"""make_pairs: repeatable, learnable, as its knobs say."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.similarity import Similarity


def test_the_same_seed_gives_the_same_pairs():
    first, second, other = make_pairs(50), make_pairs(50), make_pairs(50, seed=1)
    np.testing.assert_array_equal(first.images, second.images)
    assert (first.texts != second.texts).nnz == 0
    assert not np.array_equal(first.images, other.images)


def test_sizes_and_shares_are_as_documented():
    pairs = make_pairs(3000)
    assert Similarity.from_labels(pairs.labels).share_similar == pytest.approx(0.325, abs=0.02)
    assert np.mean(pairs.images == 0) == pytest.approx(0.5, abs=0.05)
    assert pairs.images.min() == 0
    assert pairs.texts.sum(axis=1).mean() == pytest.approx(8.5, abs=0.5)
    n_labels = pairs.labels.sum(axis=1)
    assert set(n_labels) == {1, 2, 3}


def test_more_concepts_share_labels_less():
    harder = make_pairs(2000, n_concepts=20, zipf=0.6)
    assert 0.15 < Similarity.from_labels(harder.labels).share_similar < 0.21


def test_invalid_sizes_are_rejected():
    with pytest.raises(InputError, match="n must be at least 1, got 0"):
        make_pairs(0)
    with pytest.raises(InputError, match="n_concepts must be at least 3, got 2"):
        make_pairs(5, n_concepts=2)
