"""DCHMT: the loss of the paper on two softmax units per bit, judgments and pixels."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods.dchmt import DCHMT, selection_loss
from corrhash.metrics import evaluate
from corrhash.networks.config import Networks
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch
from corrhash.training.config import Training

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=3, learning_rate=3e-3, validate_every=1),
}


def softmax_units(logits):
    """Two units per bit: (n, b, 2) probabilities, as loops."""
    units = np.empty((*logits.shape, 2))
    for i, bit in np.ndindex(*logits.shape):
        first, second = np.exp(logits[i, bit]), np.exp(0.0)
        units[i, bit] = first / (first + second), second / (first + second)
    return units


def slow_selection_loss(first, second, similarity, margin):
    """The loss of the paper on (n, b, 2) softmax units, one pair at a time."""
    b = first.shape[1]
    largest = np.sqrt(2 * b * margin)
    pulled, pushed = [], []
    for i, p in enumerate(first):
        for j, q in enumerate(second):
            distance = np.linalg.norm(p.ravel() - q.ravel())
            s = float(similarity[i, j] > 0)
            pulled.append((s * distance) ** 2)
            pushed.append(((1 - s) * (largest - min(distance, largest))) ** 2)
    return np.mean(pulled) + np.mean(pushed)


def random_batch(seed=0):
    rng = np.random.default_rng(seed)
    logits = [rng.normal(0, 2, (6, 8)) for _ in range(2)]
    h = [torch.from_numpy(np.tanh(z / 2)) for z in logits]
    s = torch.from_numpy(rng.choice([-1, 1], (6, 6)))
    return logits, Batch(*h, s, within_modality={"image": s, "text": s})


@pytest.mark.parametrize("margin", [0.25, 0.75])
def test_loss_is_that_of_two_softmax_units_per_bit(margin):
    logits, batch = random_batch()
    p, q = (softmax_units(z) for z in logits)
    expected = sum(
        slow_selection_loss(*units, batch.similarity, margin) for units in ((p, q), (p, p), (q, q))
    )
    quantization = [1 - np.mean((2 * units - 1) ** 2) for units in (p, q)]
    loss, _ = DCHMT(8, margin=margin, quantization_weight=0.3).batch_loss(batch)
    assert float(loss) == pytest.approx(expected + 0.3 * np.mean(quantization), rel=1e-4)


def test_codes_are_the_larger_units():
    (z, _), batch = random_batch()
    chosen = softmax_units(z).argmax(axis=2) == 0
    np.testing.assert_array_equal(batch.image_codes.numpy() > 0, chosen)


def test_unknown_pairs_do_not_count():
    _, batch = random_batch()
    s = batch.similarity.clone()
    s[:, 3:] = 0
    known = selection_loss(batch.image_codes, batch.text_codes[:3], s[:, :3], 0.75)
    found = selection_loss(batch.image_codes, batch.text_codes, s, 0.75)
    assert float(found) == pytest.approx(float(known))


def test_equal_codes_have_a_finite_gradient():
    h = torch.ones(3, 4, requires_grad=True)
    selection_loss(h, h, torch.ones(3, 3) - 2 * torch.eye(3), 0.75).backward()
    assert torch.isfinite(h.grad).all()


def test_learns_from_judgments_of_unaligned_items():
    pairs = make_pairs(200, seed=2)
    shared = (pairs.labels[:, :] @ pairs.labels[:150].T).toarray() > 0
    judged = [(i, j, 1 if shared[i, j] else -1) for i in range(200) for j in range(i % 3, 150, 9)]
    unaligned = PairedDataset(
        pairs.images, pairs.texts[:150], similarity=Similarity.from_judgments(judged, (200, 150))
    )
    hasher = DCHMT(16, **QUICK).fit(unaligned)
    assert hasher.history_[-1]["loss"] < hasher.history_[0]["loss"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"margin": 0.0}, "margin must be greater than 0 and at most 1, got 0.0"),
        ({"quantization_weight": -1}, "quantization_weight must be a number >= 0, got -1"),
    ],
)
def test_invalid_parameters_are_refused(params, message):
    with pytest.raises(InputError, match=message):
        DCHMT(8, **params, **QUICK).fit(make_pairs(100))


def test_shuffled_labels_give_chance_level():
    pairs = make_pairs(900, seed=3)
    train, rest = pairs.take(slice(0, 600)), pairs.take(slice(600, None))
    order = np.random.default_rng(0).permutation(600)
    hasher = DCHMT(16, **QUICK).fit(replace(train, labels=train.labels[order]))
    images, texts = hasher.encode_image(rest.images), hasher.encode_text(rest.texts)
    chance = Similarity.from_labels(rest.labels).share_similar
    assert evaluate(images, texts, rest.labels, rest.labels).map == pytest.approx(chance, abs=0.05)
