"""CHN: the objective and settings of the paper, its variants, and quality."""

import numpy as np
import pytest
import torch

from corrhash.datasets import make_pairs
from corrhash.errors import InputError
from corrhash.methods.chn import CHN, CHNI, CHNM, CHNQ
from corrhash.networks.config import Networks
from corrhash.training.batches import Batch
from corrhash.training.config import Training

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=3, learning_rate=3e-3, validate_every=1),
}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


def random_batch(n_images=5, n_texts=4):
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.rand((n, 8), generator=generator) * 2 - 1 for n in (n_images, n_texts))
    similarity = torch.randint(0, 2, (n_images, n_texts), generator=generator) * 2 - 1
    return Batch(u, v, similarity)


def by_hand(batch, margin, quantization_weight):
    """O = L + λ Q, as loops over pairs and items."""
    u, v, s = (t.double().numpy() for t in (batch.image_codes, batch.text_codes, batch.similarity))
    total = 0.0
    for i in range(len(u)):
        for j in range(len(v)):
            cosine = u[i] @ v[j] / np.linalg.norm(u[i]) / np.linalg.norm(v[j])
            total += max(0, margin - s[i, j] * cosine) ** 2
    for row in (*u, *v):
        corner = np.abs(row).sum() / np.linalg.norm(row) / np.sqrt(len(row))
        total += quantization_weight * max(0, margin - corner)
    return total


@pytest.mark.parametrize("margin", [0.3, 0.8, 0.95])
def test_objective_sums_over_pairs_and_items(margin):
    batch = random_batch()
    loss, _ = CHN(8, margin=margin, quantization_weight=3.0).batch_loss(batch)
    assert float(loss) == pytest.approx(by_hand(batch, margin, 3.0), rel=1e-5)


WEIGHT = 0.3  # λ of the paper


def residual_of_paper(before_tanh, v, similarity, margin):
    """(n, b) derivative of the paper's sums L + λ Q with respect to the input of the tanh."""
    u = torch.tanh(before_tanh)
    slope = 1 - u**2
    b = u.shape[1]
    residual = torch.zeros_like(u)
    for i in range(len(u)):
        length = u[i].norm()
        for j in range(len(v)):
            s, other = similarity[i, j], v[j].norm()
            cosine = u[i] @ v[j] / (length * other)
            inner = v[j] / (length * other) - u[i] * (u[i] @ v[j]) / (length**3 * other)
            residual[i] += 2 * max(0, margin - s * cosine) * slope[i] * -s * inner
        q = u[i].abs().sum() / (b**0.5 * length)
        bracket = u[i].sign() / (b**0.5 * length) - u[i] * u[i].abs().sum() / (b**0.5 * length**3)
        residual[i] -= WEIGHT * slope[i] * (margin - q > 0) * bracket
    return residual


@pytest.mark.parametrize("margin", [0.3, 0.5, 0.7, 0.9, 0.95, 1.0])
def test_gradient_of_chn_is_the_residual_of_the_paper(margin):
    generator = torch.Generator().manual_seed(int(100 * margin))
    n_images, n_texts, b = 7, 9, 16
    before_tanh = torch.randn(n_images, b, generator=generator, dtype=torch.float64)
    v = torch.randn(n_texts, b, generator=generator, dtype=torch.float64).tanh()
    similarity = torch.randint(0, 2, (n_images, n_texts), generator=generator) * 2 - 1

    before_tanh.requires_grad_()
    hasher = CHN(b, margin=margin, quantization_weight=WEIGHT)
    loss, _ = hasher.batch_loss(Batch(torch.tanh(before_tanh), v, similarity))
    loss.backward()

    expected = residual_of_paper(before_tanh.detach(), v, similarity, margin)
    assert expected.abs().max() > 0.1
    assert (before_tanh.grad - expected).abs().max() < 1e-10


def test_from_paper_has_the_published_settings():
    hasher = CHN.from_paper(16, epochs=5, learning_rate=1e-3)
    networks, training = hasher.networks, hasher.training
    assert (networks.width, networks.dropout, networks.sqrt, networks.noise) == (
        4096,
        0.5,
        False,
        0,
    )
    assert (training.optimizer, training.momentum, training.batch_size) == ("sgd", 0.9, 64)
    assert (training.epochs, training.learning_rate) == (5, 1e-3)
    assert training.patience is not None


def test_unusable_parameters_are_refused(pairs):
    with pytest.raises(InputError, match="margin must be .* got 0"):
        CHN(8, margin=0, **QUICK).fit(pairs)
    with pytest.raises(InputError, match="quantization_weight"):
        CHN(8, quantization_weight=-1, **QUICK).fit(pairs)


def test_chn_without_quantization_equals_chn_q(pairs):
    zero = CHN(16, quantization_weight=0.0, **QUICK).fit(pairs)
    variant = CHNQ(16, **QUICK).fit(pairs)
    for modality in ("image", "text"):
        values = getattr(pairs, f"{modality}s")
        first, second = (getattr(h, f"encode_{modality}")(values) for h in (zero, variant))
        np.testing.assert_array_equal(first.packed, second.packed)


def test_chn_m_has_the_squared_cosine_loss():
    batch = random_batch()
    loss, _ = CHNM(8, quantization_weight=0.0).batch_loss(batch)
    unit = [torch.nn.functional.normalize(t) for t in (batch.image_codes, batch.text_codes)]
    assert float(loss) == pytest.approx(
        float((batch.similarity - unit[0] @ unit[1].T).square().sum()), rel=1e-5
    )


def test_chn_i_has_the_inner_product_loss():
    batch = random_batch()
    loss, _ = CHNI(8, quantization_weight=0.0).batch_loss(batch)
    products = batch.image_codes @ batch.text_codes.T / 8
    assert float(loss) == pytest.approx(
        float((batch.similarity - products).square().sum()), rel=1e-5
    )
