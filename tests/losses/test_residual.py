"""The gradient of the losses together, against the residual that the paper writes out."""

import pytest
import torch

from corrhash.losses import cosine_margin_loss, quantization_margin_loss

WEIGHT = 0.3  # λ of the paper


def residual_of_paper(before_tanh, v, similarity, margin):
    """(n, b) derivative of the paper's sums L + λ Q by what enters the tanh of images."""
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
def test_autograd_gives_the_residual_of_the_paper(margin):
    generator = torch.Generator().manual_seed(int(100 * margin))
    n_images, n_texts, b = 7, 9, 16
    before_tanh = torch.randn(n_images, b, generator=generator, dtype=torch.float64)
    v = torch.randn(n_texts, b, generator=generator, dtype=torch.float64).tanh()
    similarity = torch.randint(0, 2, (n_images, n_texts), generator=generator) * 2 - 1

    before_tanh.requires_grad_()
    u = torch.tanh(before_tanh)
    pairs = cosine_margin_loss(u, v, similarity, margin) * n_images * n_texts
    items = quantization_margin_loss(u, margin) * n_images
    (pairs + WEIGHT * items).backward()

    expected = residual_of_paper(before_tanh.detach(), v, similarity, margin)
    assert expected.abs().max() > 0.1
    assert (before_tanh.grad - expected).abs().max() < 1e-10
