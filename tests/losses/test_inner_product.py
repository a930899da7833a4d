"""The inner-product loss of CHN-I: codes are told apart as by Hamming distance, lengths count."""

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.losses import cosine_margin_loss, inner_product_loss


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(5, 8, generator=generator, dtype=torch.float64).tanh()
    v = torch.randn(7, 8, generator=generator, dtype=torch.float64).tanh()
    return u, v, np.random.default_rng(1).choice([-1, 0, 1], (5, 7))


def test_it_is_what_a_slow_loop_gives(batch):
    u, v, similarity = batch
    terms = [
        (similarity[i, j] - float(u[i] @ v[j]) / 8) ** 2
        for i, j in np.ndindex(similarity.shape)
        if similarity[i, j] != 0
    ]
    assert float(inner_product_loss(u, v, similarity)) == pytest.approx(np.mean(terms), rel=1e-12)


def test_balance_gives_each_kind_half_of_the_say(batch):
    u, v, similarity = batch
    similar = inner_product_loss(u, v, similarity, known=similarity > 0)
    dissimilar = inner_product_loss(u, v, similarity, known=similarity < 0)
    balanced = inner_product_loss(u, v, similarity, balanced=True)
    assert float(balanced) == pytest.approx(float(similar + dissimilar) / 2, rel=1e-12)


def test_on_codes_it_equals_the_cosine_loss_without_margin(batch):
    u, v, similarity = batch
    u, v = u.sign(), v.sign()
    assert float(inner_product_loss(u, v, similarity)) == pytest.approx(
        float(cosine_margin_loss(u, v, similarity, 1.0)), rel=1e-12
    )


def test_lengths_count(batch):
    u, v, similarity = batch
    assert float(inner_product_loss(u / 2, v, similarity)) != pytest.approx(
        float(inner_product_loss(u, v, similarity))
    )


def test_wrong_shapes_are_refused(batch):
    u, v, similarity = batch
    with pytest.raises(InputError, match=r"\(5, 7\). Got \(7, 5\)"):
        inner_product_loss(u, v, similarity.T)
