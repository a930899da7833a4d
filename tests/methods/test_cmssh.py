"""CMSSH against boosting written out pair by pair, a case worked by hand, and its limits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import svd

from corrhash import InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.cmssh import (
    CMSSH,
    QUANTILES,
    WEAK,
    boost,
    reweighted,
    thresholds,
    whitening_basis,
)
from corrhash.methods.pair_sample import draw_pairs
from corrhash.metrics import evaluate
from corrhash.progress import listening
from corrhash.relevance import Similarity


def mean_map(hasher, query, database):
    labels = query.labels, database.labels
    across = hasher.encode_image(query.images), hasher.encode_text(database.texts)
    back = hasher.encode_text(query.texts), hasher.encode_image(database.images)
    return (evaluate(*across, *labels).map + evaluate(*back, *labels).map) / 2


def chance_of(query, database):
    return Similarity.from_labels(query.labels, database.labels).share_similar


@pytest.fixture(scope="module")
def split():
    """1,200 pairs to train on, 200 that ask and 800 that answer."""
    pairs = make_pairs(2200, seed=4)
    return [pairs.take(slice(*part)) for part in ((0, 1200), (1200, 1400), (1400, 2200))]


@pytest.fixture(scope="module")
def small():
    pairs = make_pairs(80, seed=3)
    return replace(pairs, images=pairs.images[:, :12], texts=pairs.texts[:, :40])


def slow_cmssh(pairs, n_bits, n_pairs):
    """Raw features, loops over the pairs of a sample: r of each bit, and the codes of the items."""
    relation = Similarity.from_labels(pairs.labels)
    sample = draw_pairs(relation, n_pairs, np.random.default_rng(0))
    x = pairs.images.astype(float) - pairs.images.mean(axis=0, dtype=float)
    y = pairs.texts.toarray().astype(float)
    y -= y.mean(axis=0)
    triples = list(zip(sample.images, sample.texts, sample.similarity, strict=True))
    weights = np.full(len(triples), 1 / (2 * n_pairs))
    found, image_codes, text_codes = [], [], []
    for _ in range(n_bits):
        c = sum(w * s * np.outer(x[i], y[j]) for w, (i, j, s) in zip(weights, triples, strict=True))
        u, _, v = svd(c)
        sign = np.sign(u[abs(u[:, 0]).argmax(), 0])
        along_p, along_q = sign * x @ u[:, 0], sign * y @ v[0]
        best = -2.0
        for a in thresholds(along_p):
            for b in thresholds(along_q):
                xi, eta = np.where(along_p > a, 1, -1), np.where(along_q > b, 1, -1)
                right = np.array([s * xi[i] * eta[j] for i, j, s in triples])
                if weights @ right > best:
                    best, chosen = weights @ right, (xi, eta, right)
        xi, eta, right = chosen
        weights = weights * np.exp(-np.log((1 + best) / (1 - best)) / 2 * right)
        weights /= weights.sum()
        found.append(best)
        image_codes.append(xi)
        text_codes.append(eta)
    return np.array(found), np.transpose(image_codes), np.transpose(text_codes)


def test_bits_are_those_of_boosting_pair_by_pair(small):
    r, image_codes, text_codes = slow_cmssh(small, 4, 100)
    hasher = CMSSH(4, n_pairs=100, eps=None).fit(small)
    np.testing.assert_allclose(hasher.correlations_, r, atol=1e-9)
    np.testing.assert_array_equal(hasher.encode_image(small.images).signs(), image_codes)
    np.testing.assert_array_equal(hasher.encode_text(small.texts).signs(), text_codes)


def test_two_classes_in_one_column_each_are_told_apart_by_every_bit():
    """By hand: r is 1, and both sides agree on its sign."""
    classes = np.array([0, 0, 0, 1, 1, 1])
    images = (classes * 2.0 - 1)[:, None]
    pairs = PairedDataset(images, -3 * images, np.eye(2)[classes])
    hasher = CMSSH(3, n_pairs=50).fit(pairs)
    np.testing.assert_allclose(hasher.correlations_, 1)
    codes = hasher.encode_image(images).signs()
    np.testing.assert_array_equal(codes, hasher.encode_text(-3 * images).signs())
    np.testing.assert_array_equal(codes[:3], -codes[3:])


def test_a_wrong_pair_gains_weight_until_both_kinds_weigh_the_same():
    """By hand: the bit is right on three of four pairs, so r = 1/2 and the weights go by √3."""
    weights = reweighted(np.full(4, 0.25), np.array([1, 1, 1, -1.0]), 0.5)
    np.testing.assert_allclose(weights, [1 / 6, 1 / 6, 1 / 6, 1 / 2])


def test_weights_sum_to_one_even_where_a_bit_is_always_right():
    for right in (np.ones(5), np.array([1, -1, 1, 1, -1.0])):
        weights = reweighted(np.full(5, 0.2), right, right.mean())
        assert weights.sum() == pytest.approx(1, abs=1e-12)


def test_every_bit_is_right_more_often_than_wrong(split):
    train, *_ = split
    assert CMSSH(64, n_pairs=5000).fit(train).correlations_.min() > 0


def test_other_pairs_are_drawn_after_a_bit_that_is_hardly_right():
    """Two columns a side know little, so there is little to learn of any sample."""
    pairs = make_pairs(300, seed=1)
    images, texts = pairs.images[:, :2].astype(float), pairs.texts.toarray()[:, :2].astype(float)
    samples, relation, rng = [], Similarity.from_labels(pairs.labels), np.random.default_rng(0)

    def draw():
        samples.append(draw_pairs(relation, 3000, rng))
        return samples[-1]

    found = np.array([bit.correlation for bit in boost(images, texts, draw, 32)])
    assert found.min() > 0
    assert len(samples) == 1 + np.sum(found[:-1] <= WEAK) > 1


def test_thresholds_stand_between_the_training_items():
    rng = np.random.default_rng(0)
    projections = np.concatenate([np.zeros(40), rng.standard_normal(60)])
    candidates = thresholds(projections)
    assert len(candidates) == len(QUANTILES)
    assert abs(projections[:, None] - candidates).min() > 1e-9
    below = (projections[:, None] < candidates).mean(axis=0)
    assert np.all(below >= QUANTILES - 1e-9)
    np.testing.assert_allclose(thresholds(np.array([1.0, 3.0])), 2)


def test_whitened_columns_are_uncorrelated_with_unit_variance():
    table = make_pairs(500).images.astype(float)
    basis = whitening_basis(table, 1e-9, 20)
    scores = (table - table.mean(axis=0)) @ basis
    np.testing.assert_allclose(scores.T @ scores / 500, np.eye(20), atol=1e-5)
    raw = whitening_basis(table, None, 20)
    np.testing.assert_allclose(raw.T @ raw, np.eye(20), atol=1e-10)


def test_keeping_all_principal_directions_changes_nothing(small):
    whole, rotated = (CMSSH(4, n_pairs=500, eps=None, image_pca=k).fit(small) for k in (None, 12))
    np.testing.assert_allclose(whole.correlations_, rotated.correlations_, atol=1e-8)
    mine, other = (h.encode_text(small.texts).signs() for h in (whole, rotated))
    # Directions may change their signs, both sides together.
    assert np.mean(abs((mine * other).mean(axis=0))) > 0.9


def test_a_strong_ridge_and_no_whitening_beat_full_whitening(split):
    train, query, database = split
    found = {
        eps: mean_map(CMSSH(16, n_pairs=20_000, eps=eps).fit(train), query, database)
        for eps in (None, 3.0, 1e-3)
    }
    assert found[3.0] > found[1e-3] + 0.02
    assert found[None] > found[1e-3] + 0.02


def test_it_beats_chance_at_16_and_at_32_bits(split):
    train, query, database = split
    for n_bits in (16, 32):
        hasher = CMSSH(n_bits, n_pairs=20_000).fit(train)
        assert mean_map(hasher, query, database) > chance_of(query, database) + 0.08


def test_permuted_labels_teach_next_to_nothing(split):
    train, query, database = split
    order = np.random.default_rng(0).permutation(len(train))
    shuffled = replace(train, labels=train.labels[order])
    hasher = CMSSH(16, n_pairs=20_000).fit(shuffled)
    assert mean_map(hasher, query, database) < chance_of(query, database) + 0.03


def test_judged_pairs_of_unaligned_images_and_texts_are_learned(split):
    train, query, database = split
    rng = np.random.default_rng(0)
    texts = rng.permutation(1200)[:900]
    truth = Similarity.from_labels(train.labels, train.labels[texts]).block()
    triples = [(i, j, truth[i, j]) for i, j in np.argwhere(rng.random(truth.shape) < 0.03)]
    judged = Similarity.from_pairs(triples, shape=truth.shape)
    clicks = PairedDataset(train.images, train.texts[texts], similarity=judged)
    hasher = CMSSH(16, n_pairs=20_000).fit(clicks)
    assert mean_map(hasher, query, database) > chance_of(query, database) + 0.05


def test_another_seed_draws_other_pairs(small):
    first, again, other = (CMSSH(4, n_pairs=200, seed=s).fit(small) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.image_projection_, again.image_projection_)
    assert not np.array_equal(first.image_projection_, other.image_projection_)


def test_every_bit_is_reported(small):
    heard = []
    with listening(heard.append):
        CMSSH(3, n_pairs=200).fit(small)
    assert [(step.done, step.total) for step in heard] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(n_pairs=0), "n_pairs must be a whole number from 1 on. Got 0"),
        (dict(eps=0), "eps must be a number above 0. Got 0"),
        (dict(image_pca=13), "image_pca must be at most 12, the columns of the images. Got 13"),
        (dict(image_pca=0.5), "image_pca must be a whole number from 1 on. Got 0.5"),
        (dict(seed=-1), "seed must be a whole number from 0 on. Got -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(small, change, message):
    with pytest.raises(InputError, match=message):
        CMSSH(4, **{"n_pairs": 100, **change}).fit(small)


def test_data_that_tells_nothing_apart_are_refused(small):
    with pytest.raises(InputError, match="known pairs are similar, so there is nothing to tell"):
        CMSSH(4).fit(replace(small, labels=np.ones((80, 1), dtype=int)))
    with pytest.raises(InputError, match="All columns are constant"):
        CMSSH(4, eps=None).fit(replace(small, images=np.ones((80, 4))))
