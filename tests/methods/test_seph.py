"""SePH: compared with slow sums and finite differences, fusion of modalities, and quality."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from corrhash import InputError
from corrhash._progress import listening
from corrhash.codes import Codes
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.seph import (
    SePH,
    divergence,
    fuse,
    learn_codes,
    one_plus_distances,
    unit_labels,
)
from corrhash.metrics import evaluate
from corrhash.similarity import Similarity

ALPHA = 0.01


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(1200, seed=1)


@pytest.fixture(scope="module")
def fitted(pairs):
    return SePH(16, n_centres=200).fit(pairs.take(slice(0, 600)))


def small_case(n=14, n_bits=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = make_pairs(n, seed=seed).labels.toarray().astype(float)
    labels /= np.linalg.norm(labels, axis=1, keepdims=True)
    return rng.standard_normal((n, n_bits)), labels


def slow_objective(h, labels, alpha):
    """Ψ as in the paper, with P and Q as full matrices."""
    n, n_bits = h.shape
    others = ~np.eye(n, dtype=bool)
    p = np.where(others, labels @ labels.T, 0)
    p /= p.sum()
    d = np.square(h[:, None] - h[None]).sum(axis=2) / 4
    q = np.where(others, 1 / (1 + d), 0)
    q /= q.sum()
    similar = p > 0
    kl = np.sum(p[similar] * np.log(p[similar] / q[similar]))
    constant = np.sum(p[similar] * np.log(p[similar]))
    return kl - constant + alpha / (n * n_bits) * np.square(np.abs(h) - 1).sum()


def both_maps(hasher, query, database):
    directions = [
        (hasher.encode_image(query.images), hasher.encode_text(database.texts)),
        (hasher.encode_text(query.texts), hasher.encode_image(database.images)),
    ]
    return [evaluate(q, d, query.labels, database.labels).map for q, d in directions]


def chance_of(query, database):
    return Similarity.from_labels(query.labels, database.labels).share_similar


def test_objective_is_that_of_the_paper(monkeypatch):
    h, labels = small_case()
    for rows in (256, 5):  # one block, and several with a smaller last one
        monkeypatch.setattr("corrhash.methods.seph.BLOCK_SIZE", rows)
        objective, _ = divergence(h, labels, ALPHA)
        assert objective == pytest.approx(slow_objective(h, labels, ALPHA), abs=1e-12)


@pytest.mark.parametrize("quantization_weight", [0, 0.01, 10])
def test_gradient_equals_finite_differences(quantization_weight):
    h, labels = small_case()
    _, gradient = divergence(h, labels, quantization_weight)
    for i in range(h.shape[0]):
        for k in range(h.shape[1]):
            moved = np.zeros_like(h)
            moved[i, k] = 1e-6
            up, down = (slow_objective(h + s * moved, labels, quantization_weight) for s in (1, -1))
            assert gradient[i, k] == pytest.approx((up - down) / 2e-6, abs=1e-8)


def test_single_precision_is_close_to_double():
    h, labels = small_case(200, 16)
    exact, slope = divergence(h, labels, ALPHA)
    objective, gradient = divergence(h.astype(np.float32), labels.astype(np.float32), ALPHA)
    assert objective == pytest.approx(exact, abs=1e-5)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, slope, atol=1e-5 * np.abs(slope).max())


def test_distances_of_codes_are_hamming_distances():
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(20, 12))
    codes = Codes.from_signs(signs)
    np.testing.assert_allclose(
        one_plus_distances(signs, slice(3, 9)) - 1, codes.hamming(codes)[3:9]
    )


def test_inner_products_of_unit_labels_are_cosines():
    labels = make_pairs(30).labels
    dense = labels.toarray().astype(float)
    norms = np.linalg.norm(dense, axis=1)
    expected = dense @ dense.T / np.outer(norms, norms)
    unit = unit_labels(labels)
    np.testing.assert_allclose(unit @ unit.T, expected, atol=1e-6)


def test_best_iterate_is_kept(pairs):
    labels = unit_labels(pairs.labels)
    best, objectives = learn_codes(labels, 16, ALPHA, seed=0)
    assert objectives.min() < objectives[0] - 0.3
    assert objectives[5] > objectives[0] - 0.01
    kept, _ = divergence(best, labels, ALPHA)
    assert kept == objectives.min()


def test_training_codes_follow_the_labels(pairs):
    best, _ = learn_codes(unit_labels(pairs.labels), 16, ALPHA, seed=0)
    codes = Codes.from_continuous(best)
    assert evaluate(codes, codes, pairs.labels, pairs.labels).map > 0.75


def test_uninformative_modality_does_not_change_the_other():
    rng = np.random.default_rng(0)
    shares, logits = rng.uniform(0.1, 0.9, 8), rng.standard_normal((5, 8))
    prior = np.tile(logit(shares), (5, 1))
    np.testing.assert_allclose(fuse(logits, prior, shares), logits, atol=1e-12)
    np.testing.assert_allclose(fuse(prior, logits, shares), logits, atol=1e-12)


def test_fusion_is_bayes_rule_for_independent_modalities():
    rng = np.random.default_rng(1)
    share = rng.uniform(0.1, 0.9, 8)
    image, text = rng.standard_normal((2, 5, 8))
    # p(bit | x, y) ~ p(bit | x) p(bit | y) / p(bit)
    yes = expit(image) * expit(text) / share
    no = (1 - expit(image)) * (1 - expit(text)) / (1 - share)
    np.testing.assert_allclose(expit(fuse(image, text, share)), yes / (yes + no), atol=1e-12)


def test_constant_bit_gives_finite_logits():
    assert np.isfinite(fuse(np.zeros((1, 2)), np.zeros((1, 2)), np.array([0.0, 1.0]))).all()


def test_codes_from_both_modalities_have_higher_map(pairs, fitted):
    query, database = pairs.take(slice(600, 800)), pairs.take(slice(800, 1200))
    both = fitted.encode_both(database.images, database.texts)
    asked = fitted.encode_image(query.images)
    one = fitted.encode_text(database.texts)
    maps = [evaluate(asked, d, query.labels, database.labels).map for d in (both, one)]
    assert maps[0] > maps[1]
    with pytest.raises(InputError, match=r"got 200 images and 400 texts"):
        fitted.encode_both(query.images, database.texts)


def test_permuted_labels_give_chance_level(pairs):
    train = pairs.take(slice(0, 600))
    query, database = pairs.take(slice(600, 800)), pairs.take(slice(800, 1200))
    order = np.random.default_rng(0).permutation(600)
    permuted = replace(train, labels=train.labels[order])
    for found in both_maps(SePH(16).fit(permuted), query, database):
        assert abs(found - chance_of(query, database)) < 0.05


def test_map_increases_with_code_length(pairs, fitted):
    query, database = pairs.take(slice(600, 800)), pairs.take(slice(800, 1200))
    longer = SePH(64, n_centres=200).fit(pairs.take(slice(0, 600)))
    for few, many in zip(
        both_maps(fitted, query, database), both_maps(longer, query, database), strict=True
    ):
        assert many > few > chance_of(query, database) + 0.03


def test_pairs_without_labels_are_skipped(pairs):
    train = pairs.take(slice(0, 300))
    labels = train.labels.toarray()
    labels[250:] = 0
    some = replace(train, labels=labels)
    quick = SePH(8, n_centres=50)
    codes = quick.fit(some).encode_image(pairs.images)
    expected = SePH(8, n_centres=50).fit(some.take(slice(0, 250))).encode_image(pairs.images)
    np.testing.assert_array_equal(codes.packed, expected.packed)


def test_max_pairs_limits_the_training_pairs(pairs):
    few = SePH(8, max_pairs=100).fit(pairs)
    assert len(few.image_centres_) == 100  # every pair is a centre
    np.testing.assert_allclose(few.shares_ * 100, np.round(few.shares_ * 100))
    again = SePH(8, max_pairs=100).fit(pairs)
    np.testing.assert_array_equal(few.image_weights_, again.image_weights_)
    other = SePH(8, max_pairs=100, seed=1).fit(pairs)
    assert not np.array_equal(few.image_centres_, other.image_centres_)


def test_progress_is_reported(pairs):
    steps = []
    with listening(steps.append):
        SePH(4, n_centres=10).fit(pairs.take(slice(0, 100)))
    tasks = list(dict.fromkeys(step.task for step in steps))
    assert tasks == [
        "Learning codes",
        "Fitting the regression of images",
        "Fitting the regression of texts",
    ]
    for task in tasks:
        assert [s for s in steps if s.task == task][-1].done == 100


def test_invalid_settings_are_refused(pairs):
    for settings, complaint in [
        ({"quantization_weight": -1}, "quantization_weight must be a number >= 0, got -1"),
        ({"ridge": 0}, "ridge must be a number > 0, got 0"),
        ({"n_centres": 0}, "n_centres must be an integer >= 1, got 0"),
        ({"max_pairs": 1}, "max_pairs must be an integer >= 2, got 1"),
    ]:
        with pytest.raises(InputError, match=complaint):
            SePH(8, **settings).fit(pairs)


def test_unshared_labels_are_refused():
    rng = np.random.default_rng(0)
    lonely = PairedDataset(rng.random((20, 4)), rng.random((20, 5)), labels=np.eye(20))
    with pytest.raises(InputError, match="No two pairs share a label"):
        SePH(8).fit(lonely)
    unlabelled = replace(lonely, labels=np.zeros((20, 3)))
    with pytest.raises(InputError, match="none of these pairs has one"):
        SePH(8).fit(unlabelled)
