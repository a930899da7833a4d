"""Quantization max-margin loss: nothing to ask of corners, most to ask of axes."""

import pytest
import torch

from corrhash import InputError
from corrhash.losses import active_share, quantization_margin_loss


@pytest.fixture
def scores():
    return torch.randn(200, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("margin", [0.5, 0.9, 1.0])
def test_codes_cost_nothing(scores, margin):
    codes = torch.where(scores > 0, 1.0, -1.0).double()
    assert float(quantization_margin_loss(codes, margin)) == pytest.approx(0, abs=1e-15)
    assert active_share(codes, 0.999) == 0


def test_an_axis_costs_most():
    axes = torch.eye(16)
    assert float(quantization_margin_loss(axes, 0.9)) == pytest.approx(0.9 - 1 / 4)
    assert active_share(axes, 0.9) == 1


def test_it_is_what_a_slow_loop_gives(scores):
    u = scores.tanh()
    missing = [max(0.0, 0.9 - float(row.abs().sum() / (row.norm() * 32**0.5))) for row in u]
    assert float(quantization_margin_loss(u, 0.9)) == pytest.approx(sum(missing) / len(missing))
    assert active_share(u, 0.9) == sum(m > 0 for m in missing) / len(missing)


def test_lengths_and_signs_do_not_matter(scores):
    before = float(quantization_margin_loss(scores, 0.9))
    stretch = torch.linspace(0.1, 30, len(scores), dtype=scores.dtype)[:, None]
    assert float(quantization_margin_loss(-scores * stretch, 0.9)) == pytest.approx(before)


def test_a_small_margin_asks_for_nothing_of_normal_scores(scores):
    assert active_share(scores, 0.6) == 0
    assert 0.9 < active_share(scores, 0.9) <= 1


def test_a_row_of_zeros_sends_no_gradient():
    u = torch.zeros(2, 8, requires_grad=True)
    loss = quantization_margin_loss(u, 0.9)
    loss.backward()
    assert loss.item() == pytest.approx(0.9)
    assert torch.equal(u.grad, torch.zeros(2, 8))


def test_wrong_margins_and_shapes_are_refused(scores):
    with pytest.raises(InputError, match="at most at 1.*Got 1.5"):
        quantization_margin_loss(scores, 1.5)
    with pytest.raises(InputError, match=r"Got \(32,\)"):
        quantization_margin_loss(scores[0], 0.9)
