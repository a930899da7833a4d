"""UCCH: the losses of the public code, the memory, negatives, and learning without labels."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.methods.ucch import UCCH, contrastive_loss, ranking_loss
from corrhash.networks.config import Networks
from corrhash.training.batches import Batch, Rows
from corrhash.training.config import Training

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=4, learning_rate=3e-3, validate_every=2),
}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def random_batch(epoch, n=5, n_pairs=12, n_bits=8):
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(-1, 1, (n, n_bits)) for _ in range(2))
    rows = rng.permutation(n_pairs)[:n]
    memory = unit(rng.normal(size=(n_pairs, n_bits)))
    return Batch(
        torch.from_numpy(x),
        torch.from_numpy(y),
        torch.eye(n),
        rows=Rows(rows, rows),
        epoch=epoch,
        memory={"codes": torch.from_numpy(memory)},
    )


def slow_contrast(h, own, negatives, temperature):
    """One item at a time; ``negatives`` lists the binary codes of each item's negatives."""
    scale = temperature * np.sqrt(h.shape[1])
    losses = []
    for code, positive, others in zip(h, own, negatives, strict=True):
        numerator = np.exp(positive @ code / scale)
        denominator = numerator + sum(np.exp(other @ code / scale) for other in others)
        losses.append(-np.log(numerator / denominator))
    return np.mean(losses)


def slow_ranking(s, margin, shift):
    """Rows and columns of the similarities, one at a time."""
    total = 0.0
    for scores in (s, s.T):
        losses = []
        for i, row in enumerate(scores):
            terms = [
                np.exp((value if value >= row[i] - margin else value - shift) - row[i])
                for value in row
            ]
            losses.append(np.log(sum(terms)) + margin)
        total += np.mean(losses)
    return total


def slow_loss(hasher, batch):
    x, y = unit(batch.image_codes.numpy()), unit(batch.text_codes.numpy())
    rows, memory = batch.rows.images, np.sign(batch.memory["codes"].numpy())
    if batch.epoch == 0:  # the batch takes the place of the memory
        own = np.sign(x + y)
        negatives = [[own[j] for j in range(len(x)) if j != i] for i in range(len(x))]
    else:
        own, drawn = memory[rows], np.repeat(*hasher._draw(batch))
        negatives = [[memory[k] for k in drawn if k != row] for row in rows]
    contrast = sum(slow_contrast(h, own, negatives, hasher.temperature) for h in (x, y))
    alpha = hasher.contrast_weight
    ranking = slow_ranking(x @ y.T, hasher.margin, hasher.shift)
    return alpha * contrast + (1 - alpha) * ranking


@pytest.mark.parametrize("epoch", [0, 1, 7])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_loss_is_that_of_the_public_code(epoch, alpha):
    hasher = UCCH(8, contrast_weight=alpha, n_negatives=20, shift=0.4)
    batch = random_batch(epoch)
    expected = slow_loss(hasher, batch)  # before the memory is updated
    loss, _ = hasher.batch_loss(batch)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("epoch", "momentum"), [(0, 0.0), (3, 0.4)])
def test_memory_moves_towards_the_mean_of_both_modalities(epoch, momentum):
    batch = random_batch(epoch)
    before, rows = batch.memory["codes"].numpy().copy(), batch.rows.images
    UCCH(8, n_negatives=4).batch_loss(batch)
    mean = unit(unit(batch.image_codes.numpy()) + unit(batch.text_codes.numpy()))
    expected = before.copy()
    expected[rows] = unit(momentum * before[rows] + (1 - momentum) * mean)
    np.testing.assert_allclose(batch.memory["codes"].numpy(), expected, atol=1e-6)


def test_negatives_depend_on_seed_epoch_and_batch():
    batch, hasher = random_batch(1), UCCH(8)
    drawn, counts = hasher._draw(batch)
    np.testing.assert_array_equal(drawn, np.arange(12))  # of 12 pairs, all are drawn
    assert counts.sum() == 4096
    np.testing.assert_array_equal(counts, hasher._draw(batch)[1])
    other_rows = Rows(batch.rows.images[::-1], batch.rows.texts[::-1])
    others = [
        UCCH(8, training=Training(seed=1))._draw(batch),
        hasher._draw(replace(batch, epoch=2)),
        hasher._draw(replace(batch, rows=other_rows)),
    ]
    assert all((counts != other).any() for _, other in others)


def test_ranked_pairs_count_less():
    near, far = (torch.tensor([[0.9, s], [-1.0, 0.9]]) for s in (0.71, 0.69))
    assert ranking_loss(near, 0.2, 1.0) - ranking_loss(far, 0.2, 1.0) > 0.1


def test_gradient_is_finite_if_all_negatives_are_excluded():
    h = torch.tensor([[1.0, 0.0]], requires_grad=True)
    own = torch.tensor([[1.0, -1.0]])
    loss = contrastive_loss(h, own, own, torch.tensor([[0.0]]), 0.9)
    loss.backward()
    assert float(loss.detach()) == 0
    assert torch.isfinite(h.grad).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"contrast_weight": 1.5}, "contrast_weight must be at most 1, got 1.5"),
        ({"memory_momentum": 1.0}, "memory_momentum must be below 1, got 1.0"),
        ({"temperature": 0}, "temperature must be a number > 0, got 0"),
        ({"n_negatives": 0}, "n_negatives must be an integer >= 1, got 0"),
        ({"margin": -0.1}, "margin must be a number >= 0, got -0.1"),
        ({"shift": -1}, "shift must be a number >= 0, got -1"),
    ],
)
def test_invalid_parameters_are_refused(pairs, params, message):
    with pytest.raises(InputError, match=message):
        UCCH(8, **params, **QUICK).fit(pairs)
