"""SCM against an explicit similarity matrix, against a case worked by hand, and its limits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import cholesky, inv, svd

from corrhash import InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.scm import SCM, SCMOrth, semantic_covariance, unit_labels
from corrhash.methods.whitened import Whitened
from corrhash.metrics import evaluate
from corrhash.progress import listening
from corrhash.relevance import Similarity


@pytest.fixture(scope="module")
def split():
    """1,500 pairs to train on, 250 that ask and 1,250 that answer."""
    pairs = make_pairs(3000, seed=4)
    return [pairs.take(slice(*part)) for part in ((0, 1500), (1500, 1750), (1750, 3000))]


def maps(hasher, query, database):
    """MAP of both directions."""
    labels = query.labels, database.labels
    across = hasher.encode_image(query.images), hasher.encode_text(database.texts)
    back = hasher.encode_text(query.texts), hasher.encode_image(database.images)
    return [evaluate(*across, *labels).map, evaluate(*back, *labels).map]


def explicit_similarity(labels):
    """(n, n) S~, item by item."""
    labels = labels.toarray().astype(float)
    rows = [row / np.linalg.norm(row) if row.any() else row for row in labels]
    return np.array([[2 * a @ b - 1 for b in rows] for a in rows])


def whitened_by_hand(table, eps):
    """The whitened table itself, and the projection that makes it."""
    centred = table - table.mean(axis=0)
    spread = centred.T @ centred / len(centred)
    spread += eps * np.trace(spread) / len(spread) * np.eye(len(spread))
    projection = inv(cholesky(spread, lower=True)).T
    return centred @ projection, projection


def slow_scm(pairs, n_bits, eps, target):
    """The residual as a matrix of all pairs, a whole SVD for each bit: (d, n_bits) projections."""
    x, image_projection = whitened_by_hand(pairs.images.astype(float), eps)
    y, text_projection = whitened_by_hand(pairs.texts.toarray().astype(float), eps)
    similarity = explicit_similarity(pairs.labels)
    bits, left, right = np.zeros(similarity.shape), [], []
    for t in range(n_bits):
        residual = target(t) * similarity - bits  # R_t
        u, _, v = svd(x.T @ residual @ y)
        left.append(u[:, 0])
        right.append(v[0])
        h, g = (np.where(side > 0, 1, -1) for side in (x @ u[:, 0], y @ v[0]))
        bits += np.outer(h, g)
    return image_projection @ np.transpose(left), text_projection @ np.transpose(right)


@pytest.fixture(scope="module")
def small():
    pairs = make_pairs(150, seed=3)
    return replace(pairs, images=pairs.images[:, :12], texts=pairs.texts[:, :15])


def test_label_factors_give_what_the_similarity_of_all_pairs_gives(small):
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


@pytest.mark.parametrize("growth", [0, 0.6])
def test_bits_are_those_of_the_explicit_residual(small, growth):
    n_bits = 12
    hasher = SCM(n_bits, eps=0.3, growth=growth).fit(small)
    slow = slow_scm(small, n_bits, 0.3, lambda t: 6 + growth * t if growth else n_bits)
    for mine, other in zip((hasher.image_projection_, hasher.text_projection_), slow, strict=True):
        signs = np.sign((mine * other).sum(axis=0))  # of a pair of singular vectors
        np.testing.assert_allclose(mine * signs, other, atol=1e-6)


def test_two_classes_in_one_column_each_are_told_apart_by_every_bit():
    """By hand: the only direction there is, and both sides agree on its sign."""
    classes = np.array([0, 0, 0, 1, 1, 1])
    images = (classes * 2.0 - 1)[:, None]
    pairs = PairedDataset(images, -3 * images, np.eye(2)[classes])
    for hasher in (SCM(3).fit(pairs), SCMOrth(1).fit(pairs)):
        codes = hasher.encode_image(images).signs()
        np.testing.assert_array_equal(codes, hasher.encode_text(-3 * images).signs())
        np.testing.assert_array_equal(codes[:3], -codes[3:])


def test_orthogonal_projections_are_uncorrelated_with_unit_variance(split):
    train, *_ = split
    hasher = SCMOrth(24, eps=1e-9).fit(train)
    for scores in (hasher.score_image(train.images), hasher.score_text(train.texts)):
        np.testing.assert_allclose(scores.T @ scores / len(train), np.eye(24), atol=1e-3)


def test_orthogonal_bits_within_the_rank_of_the_labels_are_the_singular_vectors(small):
    hasher = SCMOrth(5, eps=0.3).fit(small)
    x, image_projection = whitened_by_hand(small.images.astype(float), 0.3)
    y, text_projection = whitened_by_hand(small.texts.toarray().astype(float), 0.3)
    u, _, v = svd(x.T @ explicit_similarity(small.labels) @ y)
    mine = np.vstack([hasher.image_projection_, hasher.text_projection_])
    other = np.vstack([image_projection @ u[:, :5], text_projection @ v[:5].T])
    signs = np.sign((mine * other).sum(axis=0))
    np.testing.assert_allclose(mine * signs, other, atol=1e-8)


def test_one_bit_after_another_beats_all_at_once_and_gains_from_more_bits(split):
    """At 16 and 32 bits both beat chance by .03; a larger ridge suits few pairs."""
    train, query, database = split
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    found = {b: maps(SCM(b).fit(train), query, database) for b in (16, 32, 64)}
    orthogonal = {b: maps(SCMOrth(b).fit(train), query, database) for b in (16, 32)}
    for b, scores in orthogonal.items():
        assert min(scores) > chance + 0.03
        assert np.all(np.array(found[b]) > np.array(scores) + 0.05)
    assert np.all(np.diff([found[b] for b in (16, 32, 64)], axis=0) > 0)


def test_the_growing_target_beats_that_of_the_paper_at_64_bits(split):
    train, query, database = split
    grown, fixed = (maps(SCM(64, growth=g).fit(train), query, database) for g in (0.6, 0))
    assert np.mean(grown) > np.mean(fixed) + 0.01


@pytest.mark.parametrize("method", [SCM, SCMOrth])
def test_permuted_labels_teach_next_to_nothing(split, method):
    """Whoever learns from labels comes close to chance without them: no label leaks."""
    train, query, database = split
    order = np.random.default_rng(0).permutation(len(train))
    shuffled = replace(train, labels=train.labels[order])
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    scores = maps(method(12).fit(shuffled), query, database)
    assert max(scores) < chance + 0.03


def test_every_bit_is_reported(split):
    heard = []
    with listening(heard.append):
        SCM(4).fit(split[0])
    assert [(step.done, step.total) for step in heard] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_labels_that_tell_nothing_apart_are_refused(small):
    same = replace(small, labels=np.ones((150, 2), dtype=int))
    for method in (SCM, SCMOrth):
        with pytest.raises(InputError, match="All 150 items carry the same labels"):
            method(4).fit(same)


def test_settings_that_make_no_sense_are_refused(small):
    with pytest.raises(InputError, match="eps must be a number above 0. Got 0"):
        SCM(4, eps=0).fit(small)
    with pytest.raises(InputError, match="growth must be 0 or a number above. Got -1"):
        SCM(4, growth=-1).fit(small)
    with pytest.raises(InputError, match="SCM-orth finds at most 12 bits in 150 pairs of 12 and"):
        SCMOrth(13).fit(small)
    assert SCM(13).fit(small).encode_image(small.images).n_bits == 13
