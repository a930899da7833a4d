"""Training settings: learning-rate schedules, optimizers, mixed precision."""

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.methods.chn import CHN
from corrhash.networks.config import Networks
from corrhash.training.config import Training


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1, 1, 1, 1, 1, 1]),
        ("linear", [1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
        ("cosine", (1 + np.cos(np.pi * np.arange(6) / 6)) / 2),
        ("step", [1, 1, 1, 1, 0.1, 0.1]),
    ],
)
def test_the_learning_rate_follows_the_schedule(schedule, expected):
    training = Training(learning_rate=2.0, warmup=0, schedule=schedule)
    rates = [training.learning_rate_at(step, 6) for step in range(6)]
    np.testing.assert_allclose(rates, 2 * np.array(expected))


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_warmup_rises_linearly_before_the_schedule(schedule):
    training = Training(learning_rate=1.0, warmup=0.5, schedule=schedule)
    rates = [training.learning_rate_at(step, 8) for step in range(8)]
    np.testing.assert_allclose(rates[:5], [0.2, 0.4, 0.6, 0.8, 1.0])
    assert (rates[7] < 1) == (schedule != "constant")


@pytest.mark.parametrize(
    ("epochs", "n_batches", "expected"),
    [
        (None, 100, 60),
        (None, 17, 60),  # 1,020 steps
        (None, 16, 63),  # 1,008 steps
        (None, 1, 1000),
        (5, 1, 5),
    ],
)
def test_small_datasets_get_enough_steps(epochs, n_batches, expected):
    assert Training(epochs=epochs).epochs_for(n_batches) == expected


def descend(**settings):
    """Return a weight after three steps with gradient 1."""
    weight = torch.nn.Parameter(torch.zeros(()))
    training = Training(learning_rate=0.1, weight_decay=0, optimizer="sgd", **settings)
    optimizer = training.make_optimizer([], [weight])
    for _ in range(3):
        weight.grad = torch.ones(())
        optimizer.step()
    return weight.item()


def test_sgd_uses_momentum():
    assert descend(momentum=0.0) == pytest.approx(-0.1 * 3)
    assert descend(momentum=0.5) == pytest.approx(-0.1 * (1 + 1.5 + 1.75))
    assert descend() == pytest.approx(-0.1 * (1 + 1.9 + 2.71))


@pytest.mark.parametrize("momentum", [-0.1, 1])
def test_momentum_must_be_below_one(momentum):
    with pytest.raises(InputError, match=rf"in \[0, 1\), got {momentum}"):
        Training(momentum=momentum)


def test_mixed_precision_learns_nearly_the_same():
    pairs = make_pairs(300, seed=1)
    losses, scores = [], []
    for mixed in (False, True):
        training = Training(epochs=3, batch_size=50, mixed_precision=mixed)
        hasher = CHN(16, networks=Networks(width=32), training=training).fit(pairs)
        losses.append([entry["loss"] for entry in hasher.history_])
        scores.append(hasher.embed_image(pairs.images))
        kinds = {array.dtype for array in hasher.learned().values() if array.dtype.kind == "f"}
        assert kinds == {np.dtype(np.float32)}
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)
    assert losses[0] != losses[1]
    assert ((scores[0] > 0) == (scores[1] > 0)).mean() > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(epochs=0), "epochs must be an integer >= 1, got 0"),
        (dict(patience=0), "patience must be an integer >= 1, got 0"),
        (dict(epochs="abc"), "epochs must be an integer >= 1, got 'abc'"),
        (dict(batch_size=True), "batch_size must be an integer >= 1, got True"),
        (dict(warmup="a"), "warmup must be a number, got 'a'"),
        (dict(optimizer=3), "optimizer must be a string, got 3"),
        (dict(mixed_precision="yes"), "mixed_precision must be true or false, got 'yes'"),
        (dict(learning_rate=0), "learning_rate must be above 0, got 0"),
        (dict(optimizer="lion"), "Unknown optimizer 'lion'. Choose sgd or adamw"),
        (dict(image_cache_gb=-1), "image_cache_gb must be a number >= 0, got -1"),
        (dict(schedule="wild"), "Unknown schedule 'wild'"),
    ],
)
def test_invalid_settings_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        Training(**change)
