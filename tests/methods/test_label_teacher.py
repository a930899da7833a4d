"""Label classifiers: probabilities of shared labels, and what CHN-plus learns from them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from corrhash.datasets import make_pairs
from corrhash.methods.chn_plus import CHNPlus
from corrhash.methods.label_teacher import (
    LABEL_WEIGHT,
    SoftSimilarityTrainer,
    expected_similarity,
    predict_labels,
)
from corrhash.networks.config import Networks
from corrhash.training.config import Training

NETWORKS = Networks(width=64, term_dropout=0.3)
TRAINING = Training(epochs=10, learning_rate=3e-3)


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


def test_expected_similarity_equals_an_enumeration_of_labels():
    rng = np.random.default_rng(0)
    p, q = rng.random((3, 4)), rng.random((2, 4))
    found = expected_similarity(torch.from_numpy(p), torch.from_numpy(q))
    for i, j in np.ndindex(3, 2):
        shared = 0.0  # over all 4 x 4 label sets of the two items
        for first in np.ndindex(2, 2, 2, 2):
            for second in np.ndindex(2, 2, 2, 2):
                a, b = np.array(first), np.array(second)
                chance = np.prod(np.where(a, p[i], 1 - p[i]) * np.where(b, q[j], 1 - q[j]))
                shared += chance * bool((a & b).any())
        assert float(found[i, j]) == pytest.approx(2 * shared - 1, abs=1e-6)


def test_classifiers_learn_the_labels(pairs):
    train, validation = pairs.take(slice(0, 350)), pairs.take(slice(350, None))
    probabilities = predict_labels(train, validation, NETWORKS, replace(TRAINING, epochs=40))
    labels = torch.from_numpy(train.labels.toarray()).bool()
    for of_modality in probabilities.values():
        assert of_modality.shape == labels.shape
        assert of_modality[labels].mean() > of_modality[~labels].mean() + 0.2


def test_targets_mix_predictions_and_labels(pairs):
    hasher = CHNPlus(16, networks=NETWORKS, training=TRAINING)
    hasher.fit(pairs)
    labels = torch.from_numpy(pairs.labels.toarray()).float()
    half = torch.full_like(labels, 0.5)
    trainer = SoftSimilarityTrainer(hasher, pairs, pairs, {"image": half, "text": labels})
    expected = torch.where(labels > 0, 0.5 + LABEL_WEIGHT / 2, 0.5 - LABEL_WEIGHT / 2)
    torch.testing.assert_close(trainer.probabilities["image"], expected)
    torch.testing.assert_close(trainer.probabilities["text"], labels)


def test_the_teacher_needs_real_labels_and_feature_vectors(pairs):
    def codes(data, **params):
        hasher = CHNPlus(16, networks=NETWORKS, training=replace(TRAINING, epochs=2), **params)
        return hasher.fit(data).encode_text(pairs.texts).packed

    taught, plain = codes(pairs), codes(pairs, label_teacher=False)
    assert (taught != plain).any()
    pseudo = replace(pairs, pseudo_labels=True)
    np.testing.assert_array_equal(codes(pseudo), codes(pseudo, label_teacher=False))


def test_resumed_training_is_taught_the_same(pairs, tmp_path):
    def fit(epochs, checkpoint):
        training = replace(TRAINING, epochs=epochs, checkpoint=checkpoint)
        return CHNPlus(16, networks=NETWORKS, training=training).fit(pairs)

    fit(3, str(tmp_path / "a"))
    assert (tmp_path / "a" / "labels").is_dir()
    again, whole = fit(3, str(tmp_path / "a")), fit(3, None)
    np.testing.assert_array_equal(
        again.encode_image(pairs.images).packed, whole.encode_image(pairs.images).packed
    )
