"""DSPH: the loss of the paper, thresholds from coding theory, proxies and checkpoints."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.methods.dsph import DSPH, coding_threshold, irrelevant_pair_loss, proxy_loss
from corrhash.networks.config import Networks
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


def slow_loss(x, y, proxies, labels, t, alpha):
    """The objective of the paper, one item and one class or pair at a time."""
    total = 0.0
    for codes in (x, y):
        own, other = [], []
        for i, c in itertools.product(range(len(codes)), range(len(proxies))):
            cos = cosine(codes[i], proxies[c])
            if labels[i, c]:
                own.append(1 - cos)
            else:
                other.append(max(0, cos - t))
        total += np.mean(own) + np.mean(other)
    several = [i for i in range(len(x)) if labels[i].sum() > 1]
    for left, right in ((x, x), (y, y), (x, y)):
        apart = [
            max(0, cosine(left[i], right[j]) - t)
            for i, j in itertools.product(several, several)
            if not (labels[i] & labels[j]).any()
        ]
        total += alpha * np.mean(apart) if apart else 0
    return total


@pytest.mark.parametrize("t", [-0.2, 0.0, 0.3])
def test_loss_is_that_of_the_paper(t):
    rng = np.random.default_rng(0)
    x, y, proxies = (rng.uniform(-1, 1, (n, 8)) for n in (7, 7, 5))
    labels = (rng.random((7, 5)) < 0.35).astype(int)
    batch = Batch(
        torch.from_numpy(x),
        torch.from_numpy(y),
        torch.zeros(7, 7),
        labels=torch.from_numpy(labels).float(),
        memory={"proxies": torch.from_numpy(proxies)},
    )
    loss, _ = DSPH(8, threshold=t, irrelevant_weight=0.7).batch_loss(batch)
    assert float(loss) == pytest.approx(slow_loss(x, y, proxies, labels, t, 0.7), rel=1e-6)


def test_batches_without_irrelevant_pairs_have_no_such_loss():
    codes, labels = torch.randn(3, 4), torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    assert float(irrelevant_pair_loss(codes, codes, labels, -1.0)) == 0


def test_items_without_a_class_are_only_pushed_away():
    proxies = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    loss = proxy_loss(torch.tensor([[1.0, 0.0]]), proxies, torch.zeros(1, 2), 0.2)
    assert float(loss) == pytest.approx(0.4)  # (0.8 + 0) / 2


def largest_distance(n_bits, k):
    """The largest minimum distance of binary linear codes, by trying all generator matrices."""
    words = list(itertools.product((0, 1), repeat=k))[1:]
    best = 0
    for columns in itertools.combinations_with_replacement(words, n_bits):
        matrix = np.array(columns).T  # (k, n_bits)
        best = max(best, ((np.array(words) @ matrix) % 2).sum(axis=1).min())
    return best


@pytest.mark.parametrize(("n_bits", "n_classes"), [(4, 4), (6, 4), (6, 7), (7, 8), (8, 5)])
def test_thresholds_are_those_of_the_best_linear_codes(n_bits, n_classes):
    d = largest_distance(n_bits, int(np.ceil(np.log2(n_classes))))
    assert coding_threshold(n_bits, n_classes) == pytest.approx(1 - 2 * d / n_bits)


@pytest.mark.parametrize("n_bits", [16, 32, 64, 128])
def test_24_classes_are_orthogonal(n_bits):
    """Reed-Muller codes reach half of the bits for up to 2 b codewords."""
    assert coding_threshold(n_bits, 24) == 0


def test_codes_too_short_for_the_classes_have_a_threshold_below_1():
    assert coding_threshold(4, 1000) == 0.5


def test_proxies_are_trained_by_their_own_optimizer(pairs):
    hasher = DSPH(8, proxy_learning_rate=0.05, **QUICK)
    hasher._build({"image": 256, "text": 400})
    trainer = hasher._trainer(pairs.take(slice(0, 300)), pairs.take(slice(300, None)))
    before = trainer.memory["proxies"].detach().clone()
    trainer._epoch(0)
    assert not torch.equal(trainer.memory["proxies"], before)
    group = trainer._optimizers["memory_optimizer"].param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.05, 0.9, 5e-4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"threshold": 1.0}, r"threshold must be a cosine in \[-1, 1\), got 1.0"),
        ({"proxy_learning_rate": 0}, "proxy_learning_rate must be a number > 0, got 0"),
        ({"irrelevant_weight": -1}, "irrelevant_weight must be a number >= 0, got -1"),
    ],
)
def test_invalid_parameters_are_refused(pairs, params, message):
    with pytest.raises(InputError, match=message):
        DSPH(8, **params, **QUICK).fit(pairs)


def test_judgments_are_refused(pairs):
    from corrhash.similarity import Similarity

    judged = Similarity.from_judgments([(0, 1, 1), (2, 0, -1)], shape=(400, 400))
    with pytest.raises(InputError, match="row i of images and texts must form a pair"):
        DSPH(8, **QUICK).fit(replace(pairs, labels=None, similarity=judged))
