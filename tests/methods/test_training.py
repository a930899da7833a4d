"""Training: learning rates over the steps, and optimizers as the settings say."""

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.methods.chn import CHN
from corrhash.methods.training import Training
from corrhash.methods.two_networks import Networks


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1, 1, 1, 1, 1, 1]),
        ("linear", [1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
        ("cosine", (1 + np.cos(np.pi * np.arange(6) / 6)) / 2),
        ("step", [1, 1, 1, 1, 0.1, 0.1]),
    ],
)
def test_the_learning_rate_falls_as_its_schedule_says(schedule, expected):
    training = Training(learning_rate=2.0, warmup=0, schedule=schedule)
    rates = [training.rate_at(step, 6) for step in range(6)]
    np.testing.assert_allclose(rates, 2 * np.array(expected))


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_a_warmup_rises_in_a_line_before_the_schedule_begins(schedule):
    training = Training(learning_rate=1.0, warmup=0.5, schedule=schedule)
    rates = [training.rate_at(step, 8) for step in range(8)]
    np.testing.assert_allclose(rates[:5], [0.2, 0.4, 0.6, 0.8, 1.0])
    assert (rates[7] < 1) == (schedule != "constant")


def descend(**settings):
    """Where three steps down a slope of 1 lead."""
    weight = torch.nn.Parameter(torch.zeros(()))
    training = Training(learning_rate=0.1, weight_decay=0, optimizer="sgd", **settings)
    optimizer = training.make_optimizer([], [weight])
    for _ in range(3):
        weight.grad = torch.ones(())
        optimizer.step()
    return weight.item()


def test_sgd_gathers_momentum_unless_it_has_none():
    assert descend(momentum=0.0) == pytest.approx(-0.1 * 3)
    assert descend(momentum=0.5) == pytest.approx(-0.1 * (1 + 1.5 + 1.75))
    assert descend() == pytest.approx(-0.1 * (1 + 1.9 + 2.71))


@pytest.mark.parametrize("momentum", [-0.1, 1])
def test_a_momentum_that_never_ends_is_refused(momentum):
    with pytest.raises(InputError, match=f"from 0 to below 1. Got {momentum}"):
        Training(momentum=momentum)


def test_mixed_precision_learns_nearly_the_same_in_other_numbers():
    pairs = make_pairs(300, seed=1)
    losses, scores = [], []
    for mixed in (False, True):
        training = Training(epochs=3, batch_size=50, mixed=mixed)
        hasher = CHN(16, networks=Networks(width=32), training=training).fit(pairs)
        losses.append([entry["loss"] for entry in hasher.history_])
        scores.append(hasher.score_image(pairs.images))
        kinds = {array.dtype for array in hasher.learned().values() if array.dtype.kind == "f"}
        assert kinds == {np.dtype(np.float32)}
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)
    assert losses[0] != losses[1]
    assert ((scores[0] > 0) == (scores[1] > 0)).mean() > 0.9
