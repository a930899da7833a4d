"""CVH: compared with scikit-learn and a case with a known solution, and its limits."""

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.cross_decomposition import CCA

from corrhash import InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.cvh import CVH


def test_rotated_views_get_the_same_codes():
    rng = np.random.default_rng(0)
    images = rng.standard_normal((500, 12)) * np.linspace(0.5, 3, 12)
    texts = images @ ortho_group.rvs(12, random_state=0)
    hasher = CVH(12, ridge=1e-8).fit(PairedDataset(images, texts))
    np.testing.assert_allclose(hasher.correlations_, 1, atol=1e-6)
    agree = hasher.encode_image(images).signs() == hasher.encode_text(texts).signs()
    assert agree.mean() > 0.99


def test_without_ridge_it_equals_cca():
    """scikit-learn finds the same directions, up to their signs."""
    rng = np.random.default_rng(1)
    shared = rng.standard_normal((800, 3))
    noisy = shared + rng.standard_normal((800, 3)) * [0.2, 0.6, 1.2]
    images = np.hstack([noisy, rng.standard_normal((800, 4))]) @ rng.standard_normal((7, 7))
    texts = np.hstack([shared, rng.standard_normal((800, 2))]) @ rng.standard_normal((5, 5))
    hasher = CVH(3, ridge=1e-8).fit(PairedDataset(images, texts))
    cca = CCA(3, scale=False, max_iter=5000, tol=1e-12).fit(images, texts)
    theirs = cca.transform(images, texts)
    ours = hasher.embed_image(images), hasher.embed_text(texts)
    for mine, other in zip(ours, theirs, strict=True):
        for bit in range(3):
            assert abs(np.corrcoef(mine[:, bit], other[:, bit])[0, 1]) > 1 - 1e-4


def test_projections_are_uncorrelated_with_unit_variance():
    pairs = make_pairs(600)
    hasher = CVH(8, ridge=1e-9).fit(pairs)
    projected = hasher.embed_image(pairs.images)
    np.testing.assert_allclose(projected.T @ projected / 600, np.eye(8), atol=1e-4)


def test_correlations_generalize_to_other_pairs():
    pairs = make_pairs(1600)
    hasher = CVH(4).fit(pairs.take(slice(0, 1200)))
    rest = pairs.take(slice(1200, None))
    first = hasher.embed_image(rest.images)[:, 0], hasher.embed_text(rest.texts)[:, 0]
    assert np.corrcoef(*first)[0, 1] > 0.3


def test_more_bits_than_directions_are_refused():
    with pytest.raises(
        InputError, match=r"at most 3 bits in 50 pairs with 3 image and 5 text features"
    ):
        CVH(4).fit(PairedDataset(np.random.default_rng(0).random((50, 3)), np.eye(50)[:, :5]))


def test_constant_columns_and_zero_ridge_are_refused():
    constant = PairedDataset(np.ones((50, 6)), np.ones((50, 6)))
    with pytest.raises(InputError, match="All columns are constant"):
        CVH(4).fit(constant)
    with pytest.raises(InputError, match=r"ridge must be a number > 0, got 0"):
        CVH(4, ridge=0).fit(make_pairs(50))
