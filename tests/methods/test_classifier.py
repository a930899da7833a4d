"""Classifier code: compared with scikit-learn, its two forms, and invalid settings."""

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
from corrhash.similarity import Similarity

N_LABELS = 12


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(1200, seed=1)


@pytest.fixture(scope="module")
def train(pairs):
    return pairs.take(slice(0, 600))


@pytest.fixture(scope="module")
def per_label(train):
    return ClassifierCode(N_LABELS, one_bit_per_label=True, n_centres=200).fit(train)


def both_maps(hasher, query, database):
    directions = [
        (hasher.encode_image(query.images), hasher.encode_text(database.texts)),
        (hasher.encode_text(query.texts), hasher.encode_image(database.images)),
    ]
    return [evaluate(q, d, query.labels, database.labels).map for q, d in directions]


def test_one_bit_per_label_is_the_predicted_label(pairs, per_label):
    new = pairs.take(slice(600, 1200))
    labels = new.labels.toarray() > 0
    right = (per_label.encode_image(new.images).signs() > 0) == labels
    always_no = (~labels).mean()
    assert right.mean() > always_no + 0.05
    right = (per_label.encode_text(new.texts).signs() > 0) == labels
    assert right.mean() > always_no + 0.01


def test_logits_equal_scikit_learn(train):
    """All rows are centres, so that the kernel matrix is also that of the penalty."""
    small = train.take(slice(0, 80))
    hasher = ClassifierCode(N_LABELS, one_bit_per_label=True, ridge=0.5, normalize_rows=False).fit(
        small
    )
    images = small.images.astype(np.float64)
    kernel = rbf_kernel(images, gamma=1 / hasher.image_width_)
    root = np.linalg.cholesky(kernel)  # K w = R v and w' K w = |v|^2
    labels = small.labels.toarray()
    for k in range(4):
        theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
        theirs.fit(root, labels[:, k])
        logits = theirs.decision_function(root)
        np.testing.assert_allclose(hasher.embed_image(images)[:, k], logits, atol=1e-3)


def test_codes_are_projections_of_centred_logits(pairs, train, per_label):
    hasher = ClassifierCode(32, n_centres=200).fit(train)
    for modality in ("image", "text"):
        logits = getattr(per_label, f"embed_{modality}")
        values, of_train = getattr(pairs, f"{modality}s"), getattr(train, f"{modality}s")
        centred = logits(values) - logits(of_train).mean(axis=0)
        found = getattr(hasher, f"embed_{modality}")(values)
        np.testing.assert_allclose(found, centred @ hasher.directions_, atol=1e-8)
    assert hasher.directions_.shape == (N_LABELS, 32)
    assert abs(hasher.directions_.std() - 1) < 0.1


def test_more_bits_approximate_the_angles_of_logits(pairs, train):
    query, database = pairs.take(slice(600, 800)), pairs.take(slice(800, 1200))
    few, many = (ClassifierCode(n, ridge=0.1, n_centres=200).fit(train) for n in (16, 256))
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    for short, long in zip(
        both_maps(few, query, database), both_maps(many, query, database), strict=True
    ):
        assert long > short > chance + 0.03


def test_permuted_labels_give_chance_level(pairs, train):
    query, database = pairs.take(slice(600, 800)), pairs.take(slice(800, 1200))
    order = np.random.default_rng(0).permutation(600)
    permuted = replace(train, labels=train.labels[order])
    hasher = ClassifierCode(16, n_centres=200).fit(permuted)
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    for found in both_maps(hasher, query, database):
        assert abs(found - chance) < 0.05


def test_best_ridge_has_the_lowest_held_out_loss():
    """Compared with scikit-learn on noisy rows."""
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
            # The penalty is |v|² / (2 C) there and ridge |v|² here, 4/5 of it for these rows.
            theirs = LogisticRegression(C=1 / (2 * 0.8 * ridge), fit_intercept=False, tol=1e-8)
            theirs.fit(features[~held], signs[~held, k])
            of_labels.append(log_loss(signs[held, k], theirs.predict_proba(features[held])))
        losses.append(np.mean(of_labels))
    assert best_ridge(features, signs, seed=7) == RIDGES[int(np.argmin(losses))]


def test_given_ridge_is_used(train, per_label):
    given = ClassifierCode(8, ridge=0.7, n_centres=50).fit(train)
    np.testing.assert_array_equal(given.ridges_, [0.7, 0.7])
    assert set(per_label.ridges_) <= set(RIDGES)


def test_one_bit_per_label_needs_matching_n_bits(train):
    with pytest.raises(InputError, match=r"n_bits must be the number of labels, 12, got 16"):
        ClassifierCode(16, one_bit_per_label=True).fit(train)


def test_invalid_settings_are_refused(train):
    with pytest.raises(InputError, match="ridge must be a number > 0, got -1"):
        ClassifierCode(16, ridge=-1).fit(train)
    with pytest.raises(InputError, match="n_centres must be an integer >= 1, got 2.5"):
        ClassifierCode(16, n_centres=2.5).fit(train)
