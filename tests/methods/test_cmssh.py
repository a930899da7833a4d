"""CMSSH: uniform sampling of pairs, boosting compared with slow loops, and quality."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import svd

from corrhash import InputError
from corrhash._progress import listening
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.cmssh import (
    CMSSH,
    QUANTILES,
    WEAK,
    boost,
    draw_pairs,
    reweighted,
    thresholds,
    whitening_basis,
)
from corrhash.metrics import evaluate
from corrhash.similarity import Similarity

N_EACH = 30_000


def check_even(sample, truth):
    """Each similar and each dissimilar pair occurs equally often, within five deviations."""
    counts = sample.matrix(np.ones(len(sample))).toarray()
    for sign in (1, -1):
        of_kind = counts[truth == sign]
        expected = N_EACH / len(of_kind)
        assert of_kind.sum() == N_EACH
        assert abs(of_kind - expected).max() < 5 * np.sqrt(expected)
    assert counts[truth == 0].sum() == 0


def test_labels_give_a_uniform_sample_of_pairs():
    rng = np.random.default_rng(0)
    rows, columns = (rng.random((n, 5)) < 0.35 for n in (12, 9))
    relation = Similarity.from_labels(rows, columns)
    check_even(draw_pairs(relation, N_EACH, rng), relation.block())


def test_judgments_give_a_uniform_sample():
    rng = np.random.default_rng(1)
    truth = rng.choice([-1, 0, 1], (8, 11))
    triples = [(i, j, truth[i, j]) for i, j in np.argwhere(truth != 0)]
    relation = Similarity.from_judgments(triples, shape=truth.shape)
    check_even(draw_pairs(relation, N_EACH, rng), truth)


def test_pairing_gives_its_pairs_as_similar_ones():
    sample = draw_pairs(Similarity.paired(20), 500, np.random.default_rng(2))
    np.testing.assert_array_equal((sample.images == sample.texts), sample.similarity > 0)


def test_matrix_adds_the_values_of_repeated_pairs():
    sample = draw_pairs(Similarity.paired(2), 10, np.random.default_rng(3))
    matrix = sample.matrix(sample.similarity).toarray()
    assert np.trace(matrix) == 10
    assert matrix.sum() == 0


def test_label_of_nearly_all_items_is_refused():
    labels = np.ones((2000, 1), dtype=int)
    labels[0] = 0
    with pytest.raises(InputError, match=r"99.900% of the pairs are similar.* Remove labels"):
        draw_pairs(Similarity.from_labels(labels), 10, np.random.default_rng(4))


def mean_map(hasher, query, database):
    labels = query.labels, database.labels
    across = hasher.encode_image(query.images), hasher.encode_text(database.texts)
    back = hasher.encode_text(query.texts), hasher.encode_image(database.images)
    return (evaluate(*across, *labels).map + evaluate(*back, *labels).map) / 2


def chance_of(query, database):
    return Similarity.from_labels(query.labels, database.labels).share_similar


@pytest.fixture(scope="module")
def split():
    """1,200 training pairs, 200 queries and a database of 800."""
    pairs = make_pairs(2200, seed=4)
    return [pairs.take(slice(*part)) for part in ((0, 1200), (1200, 1400), (1400, 2200))]


@pytest.fixture(scope="module")
def small():
    pairs = make_pairs(80, seed=3)
    return replace(pairs, images=pairs.images[:, :12], texts=pairs.texts[:, :40])


def slow_cmssh(pairs, n_bits, n_pairs):
    """r of each bit and the codes of the items, by loops over the sampled pairs."""
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


def test_bits_equal_slow_boosting(small):
    r, image_codes, text_codes = slow_cmssh(small, 4, 100)
    hasher = CMSSH(4, n_pairs=100, ridge=None).fit(small)
    np.testing.assert_allclose(hasher.correlations_, r, atol=1e-9)
    np.testing.assert_array_equal(hasher.encode_image(small.images).signs(), image_codes)
    np.testing.assert_array_equal(hasher.encode_text(small.texts).signs(), text_codes)


def test_every_bit_separates_two_classes():
    """By hand: r = 1, and both modalities agree on its sign."""
    classes = np.array([0, 0, 0, 1, 1, 1])
    images = (classes * 2.0 - 1)[:, None]
    pairs = PairedDataset(images, -3 * images, np.eye(2)[classes])
    hasher = CMSSH(3, n_pairs=50).fit(pairs)
    np.testing.assert_allclose(hasher.correlations_, 1)
    codes = hasher.encode_image(images).signs()
    np.testing.assert_array_equal(codes, hasher.encode_text(-3 * images).signs())
    np.testing.assert_array_equal(codes[:3], -codes[3:])


def test_reweighting_balances_right_and_wrong_pairs():
    """By hand: the bit is right on 3 of 4 pairs, so r = 1/2 and weights change by √3."""
    weights = reweighted(np.full(4, 0.25), np.array([1, 1, 1, -1.0]), 0.5)
    np.testing.assert_allclose(weights, [1 / 6, 1 / 6, 1 / 6, 1 / 2])


def test_weights_sum_to_one_after_a_perfect_bit():
    for right in (np.ones(5), np.array([1, -1, 1, 1, -1.0])):
        weights = reweighted(np.full(5, 0.2), right, right.mean())
        assert weights.sum() == pytest.approx(1, abs=1e-12)


def test_every_correlation_is_positive(split):
    train, *_ = split
    assert CMSSH(64, n_pairs=5000).fit(train).correlations_.min() > 0


def test_weak_bit_draws_a_new_sample():
    """Two features per modality carry little information."""
    pairs = make_pairs(300, seed=1)
    images, texts = pairs.images[:, :2].astype(float), pairs.texts.toarray()[:, :2].astype(float)
    samples, relation, rng = [], Similarity.from_labels(pairs.labels), np.random.default_rng(0)

    def draw():
        samples.append(draw_pairs(relation, 3000, rng))
        return samples[-1]

    found = np.array([bit.correlation for bit in boost(images, texts, draw, 32)])
    assert found.min() > 0
    assert len(samples) == 1 + np.sum(found[:-1] <= WEAK) > 1


def test_thresholds_lie_between_training_items():
    rng = np.random.default_rng(0)
    projections = np.concatenate([np.zeros(40), rng.standard_normal(60)])
    candidates = thresholds(projections)
    assert len(candidates) == len(QUANTILES)
    assert abs(projections[:, None] - candidates).min() > 1e-9
    below = (projections[:, None] < candidates).mean(axis=0)
    assert np.all(below >= QUANTILES - 1e-9)
    np.testing.assert_allclose(thresholds(np.array([1.0, 3.0])), 2)


def test_whitening_gives_uncorrelated_unit_variances():
    table = make_pairs(500).images.astype(float)
    basis = whitening_basis(table, 1e-9, 20)
    projected = (table - table.mean(axis=0)) @ basis
    np.testing.assert_allclose(projected.T @ projected / 500, np.eye(20), atol=1e-5)
    raw = whitening_basis(table, None, 20)
    np.testing.assert_allclose(raw.T @ raw, np.eye(20), atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_keeping_all_components_keeps_the_directions(small, seed):
    """Up to their signs, which depend on the basis and shift the quantiles of thresholds."""
    whole, rotated = (CMSSH(1, n_pairs=500, image_pca=k, seed=seed).fit(small) for k in (None, 12))
    for name in ("image_projection_", "text_projection_"):
        first, second = (getattr(hasher, name)[:, 0] for hasher in (whole, rotated))
        cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
        assert abs(cosine) == pytest.approx(1, abs=1e-8)


def test_weak_or_no_whitening_beats_full_whitening(split):
    train, query, database = split
    found = {
        ridge: mean_map(CMSSH(16, n_pairs=20_000, ridge=ridge).fit(train), query, database)
        for ridge in (None, 3.0, 1e-3)
    }
    assert found[3.0] > found[1e-3] + 0.02
    assert found[None] > found[1e-3] + 0.02


def test_map_is_above_chance(split):
    train, query, database = split
    for n_bits in (16, 32):
        hasher = CMSSH(n_bits, n_pairs=20_000).fit(train)
        assert mean_map(hasher, query, database) > chance_of(query, database) + 0.08


def test_permuted_labels_give_chance_level(split):
    train, query, database = split
    order = np.random.default_rng(0).permutation(len(train))
    shuffled = replace(train, labels=train.labels[order])
    hasher = CMSSH(16, n_pairs=20_000).fit(shuffled)
    assert mean_map(hasher, query, database) < chance_of(query, database) + 0.03


def test_learns_from_judgments_of_unaligned_items(split):
    train, query, database = split
    rng = np.random.default_rng(0)
    texts = rng.permutation(1200)[:900]
    truth = Similarity.from_labels(train.labels, train.labels[texts]).block()
    triples = [(i, j, truth[i, j]) for i, j in np.argwhere(rng.random(truth.shape) < 0.03)]
    judgments = Similarity.from_judgments(triples, shape=truth.shape)
    clicks = PairedDataset(train.images, train.texts[texts], similarity=judgments)
    hasher = CMSSH(16, n_pairs=20_000).fit(clicks)
    assert mean_map(hasher, query, database) > chance_of(query, database) + 0.05


def test_seed_changes_the_sample(small):
    first, again, other = (CMSSH(4, n_pairs=200, seed=s).fit(small) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.image_projection_, again.image_projection_)
    assert not np.array_equal(first.image_projection_, other.image_projection_)


def test_progress_is_reported_per_bit(small):
    heard = []
    with listening(heard.append):
        CMSSH(3, n_pairs=200).fit(small)
    assert [(step.done, step.total) for step in heard] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(n_pairs=0), "n_pairs must be an integer >= 1, got 0"),
        (dict(ridge=0), "ridge must be a number > 0, got 0"),
        (dict(image_pca=13), "image_pca must be at most 12, the number of image features, got 13"),
        (dict(image_pca=0.5), "image_pca must be an integer >= 1, got 0.5"),
        (dict(seed=-1), "seed must be an integer >= 0, got -1"),
    ],
)
def test_invalid_settings_are_refused(small, change, message):
    with pytest.raises(InputError, match=message):
        CMSSH(4, **{"n_pairs": 100, **change}).fit(small)


def test_uninformative_data_is_refused(small):
    with pytest.raises(
        InputError, match="known pairs are similar, so there is nothing to discriminate"
    ):
        CMSSH(4).fit(replace(small, labels=np.ones((80, 1), dtype=int)))
    with pytest.raises(InputError, match="All columns are constant"):
        CMSSH(4, ridge=None).fit(replace(small, images=np.ones((80, 4))))
