"""The classifier code against scikit-learn's classifier, its two forms, and its own limits."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.methods.classifier import RIDGES, ClassifierCode, best_ridge
from corrhash.metrics import evaluate
from corrhash.relevance import Similarity

N_LABELS = 12


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(1200, seed=1)


@pytest.fixture(scope="module")
def train(pairs):
    return pairs.take(slice(0, 600))


@pytest.fixture(scope="module")
def own(train):
    return ClassifierCode(N_LABELS, own_length=True, n_centres=200).fit(train)


def both_maps(hasher, query, database):
    directions = [
        (hasher.encode_image(query.images), hasher.encode_text(database.texts)),
        (hasher.encode_text(query.texts), hasher.encode_image(database.images)),
    ]
    return [evaluate(q, d, query.labels, database.labels).map for q, d in directions]


def test_bits_of_the_own_length_are_the_labels_that_are_predicted(pairs, own):
    new = pairs.take(slice(600, 1200))
    labels = new.labels.toarray() > 0
    right = (own.encode_image(new.images).signs() > 0) == labels
    always_no = (~labels).mean()
    assert right.mean() > always_no + 0.05
    right = (own.encode_text(new.texts).signs() > 0) == labels
    assert right.mean() > always_no + 0.01


def test_logits_are_those_of_kernel_logistic_regression_in_scikit_learn(train):
    """The centres are the rows, so that the kernel matrix itself is the penalty's."""
    small = train.take(slice(0, 80))
    hasher = ClassifierCode(N_LABELS, own_length=True, ridge=0.5, unit_rows=False).fit(small)
    images = small.images.astype(np.float64)
    kernel = rbf_kernel(images, gamma=1 / hasher.image_width_)
    root = np.linalg.cholesky(kernel)  # K w = R v and w' K w = |v|^2
    labels = small.labels.toarray()
    for k in range(4):
        theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
        theirs.fit(root, labels[:, k])
        logits = theirs.decision_function(root)
        np.testing.assert_allclose(hasher.score_image(images)[:, k], logits, atol=1e-3)


def test_longer_codes_are_projections_of_the_centred_logits(pairs, train, own):
    hasher = ClassifierCode(32, n_centres=200).fit(train)
    for side in ("image", "text"):
        logits = getattr(own, f"score_{side}")
        values, of_train = getattr(pairs, f"{side}s"), getattr(train, f"{side}s")
        centred = logits(values) - logits(of_train).mean(axis=0)
        scores = getattr(hasher, f"score_{side}")(values)
        np.testing.assert_allclose(scores, centred @ hasher.directions_, atol=1e-8)
    assert hasher.directions_.shape == (N_LABELS, 32)
    assert abs(hasher.directions_.std() - 1) < 0.1


def test_more_bits_come_closer_to_the_angles_of_the_logits(pairs, train):
    query, database = pairs.take(slice(600, 800)), pairs.take(slice(800, 1200))
    few, many = (ClassifierCode(n, ridge=0.1, n_centres=200).fit(train) for n in (16, 256))
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    for short, long in zip(
        both_maps(few, query, database), both_maps(many, query, database), strict=True
    ):
        assert long > short > chance + 0.03


def test_permuted_labels_bring_it_close_to_chance(pairs, train):
    query, database = pairs.take(slice(600, 800)), pairs.take(slice(800, 1200))
    order = np.random.default_rng(0).permutation(600)
    permuted = replace(train, labels=train.labels[order])
    hasher = ClassifierCode(16, n_centres=200).fit(permuted)
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    for found in both_maps(hasher, query, database):
        assert abs(found - chance) < 0.05


def test_the_ridge_is_the_one_that_predicts_held_out_rows_best():
    """Against scikit-learn's regressions and log-loss, on rows of mostly noise."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((300, 40)) * 0.05
    signs = np.sign(features[:, :2] * 40 + rng.standard_normal((300, 2)))
    order = np.random.default_rng(7).permutation(300)
    held = np.zeros(300, dtype=bool)
    held[order[::5]] = True
    losses = []
    for ridge in RIDGES:
        of_labels = []
        for k in range(2):
            # Its penalty is |v|^2 / (2 C), ours ridge |v|^2, four fifths of it for these rows.
            theirs = LogisticRegression(C=1 / (2 * 0.8 * ridge), fit_intercept=False, tol=1e-8)
            theirs.fit(features[~held], signs[~held, k])
            of_labels.append(log_loss(signs[held, k], theirs.predict_proba(features[held])))
        losses.append(np.mean(of_labels))
    assert best_ridge(features, signs, seed=7) == RIDGES[int(np.argmin(losses))]


def test_a_ridge_of_ones_own_is_used_as_it_is(train, own):
    given = ClassifierCode(8, ridge=0.7, n_centres=50).fit(train)
    np.testing.assert_array_equal(given.ridges_, [0.7, 0.7])
    assert set(own.ridges_) <= set(RIDGES)


def test_the_own_length_is_one_bit_a_label_and_no_other(train):
    with pytest.raises(InputError, match=r"one bit a label: 12 here. Got n_bits=16. Use n_bits=12"):
        ClassifierCode(16, own_length=True).fit(train)


def test_settings_that_make_no_sense_are_refused(train):
    with pytest.raises(InputError, match="ridge must be a number above 0. Got -1"):
        ClassifierCode(16, ridge=-1).fit(train)
    with pytest.raises(InputError, match="n_centres must be a whole number above 0. Got 2.5"):
        ClassifierCode(16, n_centres=2.5).fit(train)
