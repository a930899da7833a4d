"""SCM: compared with an explicit similarity matrix and a case solved by hand, and quality."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import cholesky, inv, svd

from corrhash import InputError
from corrhash._progress import listening
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods._linear_algebra import Whitened
from corrhash.methods.scm import SCM, SCMOrth, semantic_covariance, unit_labels
from corrhash.metrics import evaluate
from corrhash.similarity import Similarity


@pytest.fixture(scope="module")
def split():
    """1,500 training pairs, 250 queries and a database of 1,250."""
    pairs = make_pairs(3000, seed=4)
    return [pairs.take(slice(*part)) for part in ((0, 1500), (1500, 1750), (1750, 3000))]


def maps(hasher, query, database):
    """mAP of both directions."""
    labels = query.labels, database.labels
    across = hasher.encode_image(query.images), hasher.encode_text(database.texts)
    back = hasher.encode_text(query.texts), hasher.encode_image(database.images)
    return [evaluate(*across, *labels).map, evaluate(*back, *labels).map]


def explicit_similarity(labels):
    """S~, (n, n), item by item."""
    labels = labels.toarray().astype(float)
    rows = [row / np.linalg.norm(row) if row.any() else row for row in labels]
    return np.array([[2 * a @ b - 1 for b in rows] for a in rows])


def whitened_by_hand(table, ridge):
    """The whitened table and its projection."""
    centred = table - table.mean(axis=0)
    spread = centred.T @ centred / len(centred)
    spread += ridge * np.trace(spread) / len(spread) * np.eye(len(spread))
    projection = inv(cholesky(spread, lower=True)).T
    return centred @ projection, projection


def slow_scm(pairs, n_bits, ridge, target):
    """(d, n_bits) projections from an explicit residual and a full SVD per bit."""
    x, image_projection = whitened_by_hand(pairs.images.astype(float), ridge)
    y, text_projection = whitened_by_hand(pairs.texts.toarray().astype(float), ridge)
    similarity = explicit_similarity(pairs.labels)
    bits, left, right = np.zeros(similarity.shape), [], []
    for t in range(n_bits):
        residual = target(t) * similarity - bits  # R_t
        u, _, v = svd(x.T @ residual @ y)
        left.append(u[:, 0])
        right.append(v[0])
        h, g = (np.where(modality > 0, 1, -1) for modality in (x @ u[:, 0], y @ v[0]))
        bits += np.outer(h, g)
    return image_projection @ np.transpose(left), text_projection @ np.transpose(right)


@pytest.fixture(scope="module")
def small():
    pairs = make_pairs(150, seed=3)
    return replace(pairs, images=pairs.images[:, :12], texts=pairs.texts[:, :15])


def test_semantic_covariance_equals_the_explicit_one(small):
    labels = small.labels.toarray()
    labels[:5] = 0  # items without any label
    labels = replace(small, labels=labels).labels
    image = Whitened(small.images.astype(float), 0.3)
    text = Whitened(small.texts.astype(float), 0.3)
    x, _ = whitened_by_hand(image.table, 0.3)
    y, _ = whitened_by_hand(text.table.toarray(), 0.3)
    np.testing.assert_allclose(
        semantic_covariance(image, text, unit_labels(labels)),
        x.T @ explicit_similarity(labels) @ y / 150**2,
        atol=1e-12,
    )


@pytest.mark.parametrize("target_growth", [0, 0.6])
def test_bits_equal_those_of_the_explicit_residual(small, target_growth):
    n_bits = 12
    hasher = SCM(n_bits, ridge=0.3, target_growth=target_growth).fit(small)
    slow = slow_scm(
        small, n_bits, 0.3, lambda t: 6 + target_growth * t if target_growth else n_bits
    )
    for mine, other in zip((hasher.image_projection_, hasher.text_projection_), slow, strict=True):
        signs = np.sign((mine * other).sum(axis=0))  # common sign of singular vectors
        np.testing.assert_allclose(mine * signs, other, atol=1e-6)


def test_every_bit_separates_two_classes():
    """By hand: a single direction, with the same sign in both modalities."""
    classes = np.array([0, 0, 0, 1, 1, 1])
    images = (classes * 2.0 - 1)[:, None]
    pairs = PairedDataset(images, -3 * images, np.eye(2)[classes])
    for hasher in (SCM(3).fit(pairs), SCMOrth(1).fit(pairs)):
        codes = hasher.encode_image(images).signs()
        np.testing.assert_array_equal(codes, hasher.encode_text(-3 * images).signs())
        np.testing.assert_array_equal(codes[:3], -codes[3:])


def test_scm_orth_projections_are_uncorrelated(split):
    train, *_ = split
    hasher = SCMOrth(24, ridge=1e-9).fit(train)
    for projected in (hasher.embed_image(train.images), hasher.embed_text(train.texts)):
        np.testing.assert_allclose(projected.T @ projected / len(train), np.eye(24), atol=1e-3)


def test_scm_orth_bits_are_singular_vectors(small):
    hasher = SCMOrth(5, ridge=0.3).fit(small)
    x, image_projection = whitened_by_hand(small.images.astype(float), 0.3)
    y, text_projection = whitened_by_hand(small.texts.toarray().astype(float), 0.3)
    u, _, v = svd(x.T @ explicit_similarity(small.labels) @ y)
    mine = np.vstack([hasher.image_projection_, hasher.text_projection_])
    other = np.vstack([image_projection @ u[:, :5], text_projection @ v[:5].T])
    signs = np.sign((mine * other).sum(axis=0))
    np.testing.assert_allclose(mine * signs, other, atol=1e-8)


def test_scm_beats_scm_orth_and_gains_from_more_bits(split):
    """At 16 and 32 bits both are above chance by 0.03."""
    train, query, database = split
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    found = {b: maps(SCM(b).fit(train), query, database) for b in (16, 32, 64)}
    orthogonal = {b: maps(SCMOrth(b).fit(train), query, database) for b in (16, 32)}
    for b, reached in orthogonal.items():
        assert min(reached) > chance + 0.03
        assert np.all(np.array(found[b]) > np.array(reached) + 0.05)
    assert np.all(np.diff([found[b] for b in (16, 32, 64)], axis=0) > 0)


def test_growing_target_beats_the_paper_at_64_bits(split):
    train, query, database = split
    grown, fixed = (maps(SCM(64, target_growth=g).fit(train), query, database) for g in (0.6, 0))
    assert np.mean(grown) > np.mean(fixed) + 0.01


@pytest.mark.parametrize("method", [SCM, SCMOrth])
def test_permuted_labels_give_chance_level(split, method):
    """No information about the labels of queries leaks into training."""
    train, query, database = split
    order = np.random.default_rng(0).permutation(len(train))
    shuffled = replace(train, labels=train.labels[order])
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    reached = maps(method(12).fit(shuffled), query, database)
    assert max(reached) < chance + 0.03


def test_progress_is_reported_per_bit(split):
    heard = []
    with listening(heard.append):
        SCM(4).fit(split[0])
    assert [(step.done, step.total) for step in heard] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_equal_labels_are_refused(small):
    same = replace(small, labels=np.ones((150, 2), dtype=int))
    for method in (SCM, SCMOrth):
        with pytest.raises(InputError, match="All 150 items have the same labels"):
            method(4).fit(same)


def test_invalid_settings_are_refused(small):
    with pytest.raises(InputError, match="ridge must be a number > 0, got 0"):
        SCM(4, ridge=0).fit(small)
    with pytest.raises(InputError, match="target_growth must be a number >= 0, got -1"):
        SCM(4, target_growth=-1).fit(small)
    with pytest.raises(
        InputError, match="SCM-orth finds at most 12 bits in 150 pairs with 12 image and"
    ):
        SCMOrth(13).fit(small)
    assert SCM(13).fit(small).encode_image(small.images).n_bits == 13
