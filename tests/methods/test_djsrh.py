"""DJSRH: the loss of the paper, cosines of features, and learning without labels."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from corrhash import InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.djsrh import DJSRH, FeatureCosines
from corrhash.networks.config import Networks
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch
from corrhash.training.config import Training

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=4, learning_rate=3e-3, validate_every=2),
}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


def cosine(u, v):
    return u @ v / (np.linalg.norm(u) * np.linalg.norm(v))


def slow_loss(image_codes, text_codes, s_image, s_text, *, epoch, beta, eta, mu, weight):
    """The objective of the paper, one pair of items at a time."""
    m = len(image_codes)
    mixed = np.empty((m, m))
    for i, j in np.ndindex(m, m):
        mixed[i, j] = beta * s_image[i, j] + (1 - beta) * s_text[i, j]
    steep = np.sqrt(epoch + 1)
    b_image, b_text = np.tanh(steep * image_codes), np.tanh(steep * text_codes)
    across, images, texts = [], [], []
    for i, j in np.ndindex(m, m):
        second_order = sum(mixed[i, k] * mixed[k, j] for k in range(m)) / m
        s = mu * ((1 - eta) * mixed[i, j] + eta * second_order)
        across.append((cosine(b_image[i], b_text[j]) - s) ** 2)
        images.append((cosine(b_image[i], b_image[j]) - s) ** 2)
        texts.append((cosine(b_text[i], b_text[j]) - s) ** 2)
    return np.mean(across) + weight * (np.mean(images) + np.mean(texts))


@pytest.mark.parametrize("epoch", [0, 8])
def test_loss_is_that_of_the_paper(epoch):
    rng = np.random.default_rng(0)
    z = [rng.normal(size=(5, 8)) for _ in range(2)]
    cosines = [FeatureCosines(rng.normal(size=(5, 3))).block(*[np.arange(5)] * 2) for _ in "ab"]
    batch = Batch(
        *map(torch.from_numpy, z),
        torch.eye(5),
        within_modality=dict(zip(("image", "text"), map(torch.from_numpy, cosines), strict=True)),
        epoch=epoch,
    )
    params = {"image_weight": 0.7, "second_order_weight": 0.3, "scale": 1.2}
    loss, _ = DJSRH(8, within_modality_weight=0.2, **params).batch_loss(batch)
    expected = slow_loss(*z, *cosines, epoch=epoch, beta=0.7, eta=0.3, mu=1.2, weight=0.2)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_cosines_of_non_negative_features_are_stretched(convert):
    features = np.random.default_rng(0).random((6, 4))
    rows, columns = np.array([0, 3]), np.array([5, 1, 0])
    expected = [[2 * cosine(features[i], features[j]) - 1 for j in columns] for i in rows]
    found = FeatureCosines(convert(features)).block(rows, columns)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_cosines_of_signed_features_are_not_stretched():
    features = np.array([[1.0, 0.0], [-1.0, 1.0]])
    np.testing.assert_allclose(FeatureCosines(features).block([0], [1]), [[-(0.5**0.5)]])


def test_an_empty_text_has_finite_cosines():
    found = FeatureCosines(sp.csr_array([[0.0, 0.0], [0.0, 2.0]])).block([0, 1], [0, 1])
    np.testing.assert_allclose(found, [[-1, -1], [-1, 1]])


def test_strings_are_compared_by_their_terms():
    pairs = PairedDataset(np.eye(3), ["red boat", "boat red", "green trees"])
    within = DJSRH(8).within_modality_similarity(pairs, Similarity.paired(3))
    np.testing.assert_allclose(within["text"].block([0], [1, 2]), [[1, -1]], atol=1e-9)


def test_hash_layers_are_linear(pairs):
    assert np.abs(DJSRH(16, **QUICK).fit(pairs).embed_image(pairs.images)).max() > 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"image_weight": 1.5}, "image_weight must be at most 1, got 1.5"),
        ({"second_order_weight": -1}, "second_order_weight must be a number >= 0, got -1"),
        ({"scale": 0}, "scale must be a number > 0, got 0"),
    ],
)
def test_invalid_parameters_are_refused(pairs, params, message):
    with pytest.raises(InputError, match=message):
        DJSRH(8, **params, **QUICK).fit(pairs)
