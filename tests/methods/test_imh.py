"""IMH: compared with its explicit objective and with CCA, and its limits."""

import numpy as np
import pytest
from scipy.linalg import eigh, subspace_angles

from corrhash import InputError
from corrhash._progress import listening
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods import imh
from corrhash.methods._linear_algebra import RidgeRegression, neighbour_laplacian, unit_rows
from corrhash.methods.cvh import CVH
from corrhash.methods.imh import IMH, shared_codes
from corrhash.metrics import evaluate
from corrhash.similarity import Similarity

SMOOTHNESS, RIDGE = 0.5, 0.3


@pytest.fixture(scope="module")
def views():
    """Two noisy linear views of three latent variables."""
    rng = np.random.default_rng(1)
    shared = rng.standard_normal((150, 3))
    noisy = shared + rng.standard_normal((150, 3)) * [0.2, 0.6, 1.2]
    images = np.hstack([noisy, rng.standard_normal((150, 4))]) @ rng.standard_normal((7, 7))
    texts = np.hstack([shared, rng.standard_normal((150, 2))]) @ rng.standard_normal((5, 5)) + 3
    return PairedDataset(images, texts)


def centred(table):
    return table - table.mean(axis=0)


def beta(table, ridge=RIDGE):
    """β of the paper; ridge is relative to the mean eigenvalue of the scatter matrix."""
    return ridge * np.sum(centred(table) ** 2) / table.shape[1]


def laplacian(table):
    return neighbour_laplacian(unit_rows(table, table.mean(axis=0)), 10)


def codes_of(pairs, n_bits):
    modalities = [RidgeRegression(table, RIDGE) for table in (pairs.images, pairs.texts)]
    graphs = SMOOTHNESS * (laplacian(pairs.images) + laplacian(pairs.texts))
    return shared_codes(*modalities, graphs, n_bits)


def objective(codes, pairs):
    """J of the paper with one code per pair and optimal maps, term by term."""
    total = 0.0
    for table in (pairs.images, pairs.texts):
        features, ridge = centred(table), beta(table)
        gram = features.T @ features + ridge * np.eye(features.shape[1])
        weights = np.linalg.solve(gram, features.T @ codes)
        total += SMOOTHNESS * np.trace(codes.T @ (laplacian(table) @ codes))
        total += np.sum((features @ weights - codes) ** 2) + ridge * np.sum(weights**2)
    return total


def test_lanczos_iterations_find_the_codes_of_the_dense_decomposition(views, monkeypatch):
    dense = codes_of(views, 4)
    monkeypatch.setattr(imh, "DENSE", 0)
    iterated = codes_of(views, 4)
    np.testing.assert_allclose(abs(np.sum(dense * iterated, axis=0)), 1, atol=1e-6)


def test_codes_are_eigenvectors_of_the_explicit_matrix(views):
    matrix = np.zeros((150, 150))
    for table in (views.images, views.texts):
        features = centred(table)
        gram = features.T @ features + beta(table) * np.eye(features.shape[1])
        matrix += features @ np.linalg.solve(gram, features.T)
        matrix -= SMOOTHNESS * laplacian(table).toarray()
    matrix -= 1000 * np.ones((150, 150)) / 150  # the constant code comes last
    _, vectors = eigh(matrix)
    codes = codes_of(views, 4)
    np.testing.assert_allclose(codes.T @ codes, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(abs(codes.T @ vectors[:, ::-1][:, :4]), np.eye(4), atol=1e-4)


def test_codes_minimize_the_objective(views):
    best = codes_of(views, 3)
    least = objective(best, views)
    rng = np.random.default_rng(0)
    for scale in (0.01, 0.1, 1.0):
        other, _ = np.linalg.qr(centred(best + scale * rng.standard_normal((150, 3))))
        assert objective(other, views) > least


def test_codes_are_the_limit_of_the_general_problem(views):
    """F_x of the paper for a growing weight u of ||F_x - F_y||², by dense inverses."""
    identity = np.eye(150)
    predictable, smooth = [], []
    for table in (views.images, views.texts):
        features = centred(table)
        gram = features.T @ features + beta(table) * np.eye(features.shape[1])
        predictable.append(identity - features @ np.linalg.solve(gram, features.T))  # A_v
        smooth.append(SMOOTHNESS * laplacian(table).toarray())
    angles = []
    for u in (1.0, 100.0, 10000.0):
        e = u * np.linalg.inv(predictable[1] + smooth[1] + u * identity)
        apart = identity - e
        matrix = predictable[0] + smooth[0] + u * apart.T @ apart
        matrix += e.T @ (predictable[1] + smooth[1]) @ e
        matrix += 1000 * np.ones((150, 150)) / 150
        _, vectors = eigh((matrix + matrix.T) / 2)
        angles.append(subspace_angles(vectors[:, :3], codes_of(views, 3)).max())
    assert angles[0] > angles[1] > angles[2]
    assert angles[2] < 1e-3


def test_without_graphs_and_ridge_it_spans_cca(views):
    imh = IMH(3, smoothness=0.0, ridge=1e-8).fit(views)
    cca = CVH(3, ridge=1e-8).fit(views)
    for modality in ("image", "text"):
        ours, theirs = (getattr(hasher, f"{modality}_projection_") for hasher in (imh, cca))
        assert subspace_angles(ours, theirs).max() < 1e-3


def test_no_code_is_constant(views):
    """The constant code is the smoothest, but carries no information."""
    hasher = IMH(12, smoothness=1e4).fit(views)
    assert np.all(np.std(hasher.embed_image(views.images), axis=0) > 0)
    balance = hasher.encode_image(views.images).signs().mean(axis=0)
    np.testing.assert_allclose(balance, 0, atol=0.02)


def test_bits_are_balanced_on_training_items():
    pairs = make_pairs(501)
    hasher = IMH(16).fit(pairs)
    for codes in (hasher.encode_image(pairs.images), hasher.encode_text(pairs.texts)):
        np.testing.assert_allclose(codes.signs().mean(axis=0), 0, atol=0.01)


def test_codes_do_not_depend_on_the_batch():
    pairs = make_pairs(400)
    hasher = IMH(16).fit(pairs)
    odd = hasher.encode_image(pairs.images[1::2])
    np.testing.assert_array_equal(hasher.encode_image(pairs.images).packed[1::2], odd.packed)


@pytest.mark.parametrize("n_bits", [16, 32])
def test_map_on_other_pairs_is_above_chance(n_bits):
    pairs = make_pairs(1600, seed=3)
    hasher = IMH(n_bits).fit(pairs.take(slice(0, 1000)))
    query, database = pairs.take(slice(1000, 1100)), pairs.take(slice(1100, None))
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    images, texts = hasher.encode_image(query.images), hasher.encode_text(database.texts)
    assert evaluate(images, texts, query.labels, database.labels).map > chance + 0.03


def test_progress_is_reported_per_step():
    steps = []
    with listening(steps.append):
        IMH(4).fit(make_pairs(60))
    assert [(step.done, step.total) for step in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_invalid_settings_are_refused():
    pairs = make_pairs(20)
    with pytest.raises(InputError, match="at most 19 bits in 20 pairs, got n_bits=20"):
        IMH(20).fit(pairs)
    with pytest.raises(InputError, match="n_neighbours must be below the number of pairs, 20"):
        IMH(4, n_neighbours=20).fit(pairs)
    with pytest.raises(InputError, match="smoothness must be a number >= 0, got -1"):
        IMH(4, smoothness=-1).fit(pairs)
    with pytest.raises(InputError, match="ridge must be a number > 0, got 0"):
        IMH(4, ridge=0).fit(pairs)
