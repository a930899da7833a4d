"""The likelihood loss of DCMH: by a slow loop, by its closed gradient, and far from zero."""

import math

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.losses import pairwise_likelihood_loss


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    v = torch.randn(7, 8, generator=generator, dtype=torch.float64)
    return u, v, np.random.default_rng(1).choice([-1, 0, 1], (5, 7))


def test_it_is_the_negative_logarithm_of_the_chance_of_what_is_known(batch):
    u, v, similarity = batch
    logarithms = []
    for i, j in np.ndindex(similarity.shape):
        chance = 1 / (1 + math.exp(-float(u[i] @ v[j]) / 2))  # that i and j are similar
        if similarity[i, j] != 0:
            logarithms.append(-math.log(chance if similarity[i, j] > 0 else 1 - chance))
    loss = pairwise_likelihood_loss(u, v, similarity)
    assert float(loss) == pytest.approx(np.mean(logarithms), rel=1e-12)


def test_the_gradient_is_the_one_that_the_paper_writes_out(batch):
    u, v, similarity = batch
    u.requires_grad_()
    n_known = np.count_nonzero(similarity)
    (pairwise_likelihood_loss(u, v, similarity) * n_known).backward()
    expected = torch.zeros_like(u)
    for i, j in np.argwhere(similarity != 0):
        chance = 1 / (1 + torch.exp(-u[i] @ v[j] / 2))
        expected[i] += 0.5 * (chance.detach() - (similarity[i, j] > 0)) * v[j]
    torch.testing.assert_close(u.grad, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("theta", "kind", "expected"), [(1000, 1, 0), (1000, -1, 1000)])
def test_it_stays_finite_far_from_zero(theta, kind, expected, dtype):
    """Θ of +1000, and of -1000 with the other kind, where ln(1 + exp Θ) would overflow."""
    for sign in (1, -1):
        u = torch.full((1, 4), 2 * theta / 4, dtype=dtype, requires_grad=True)
        loss = pairwise_likelihood_loss(u, torch.full((1, 4), sign, dtype=dtype), [[sign * kind]])
        loss.backward()
        assert float(loss.detach()) == pytest.approx(expected)
        assert torch.isfinite(u.grad).all()


def test_balance_gives_each_kind_half_of_the_say(batch):
    u, v, similarity = batch
    similar = pairwise_likelihood_loss(u, v, similarity, known=similarity > 0)
    dissimilar = pairwise_likelihood_loss(u, v, similarity, known=similarity < 0)
    balanced = pairwise_likelihood_loss(u, v, similarity, balanced=True)
    assert float(balanced) == pytest.approx(float(similar + dissimilar) / 2, rel=1e-12)


def test_wrong_shapes_are_refused(batch):
    u, v, similarity = batch
    with pytest.raises(InputError, match=r"\(5, 7\). Got \(7, 5\)"):
        pairwise_likelihood_loss(u, v, similarity.T)
