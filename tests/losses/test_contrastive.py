"""The contrastive loss of MMNN: by hand, by a slow loop, and where distances vanish."""

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.losses import contrastive_loss


def scores(n, b=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, b, generator=generator, dtype=torch.float64).tanh()


@pytest.fixture
def batch():
    similarity = np.random.default_rng(3).choice([-1, 0, 1], (6, 8), p=[0.6, 0.2, 0.2])
    return scores(6, seed=1), scores(8, seed=2), similarity


def slow_loss(u, v, similarity, margin):
    """Pair by pair, as one would on paper."""
    pulled, pushed = [], []
    for i, j in np.ndindex(similarity.shape):
        distance = float(np.sqrt(np.sum((u[i] - v[j]).numpy() ** 2)))
        if similarity[i, j] > 0:
            pulled.append(distance**2)
        elif similarity[i, j] < 0:
            pushed.append(max(0.0, margin - distance) ** 2)
    return 0.5 * np.mean(pulled) + 0.5 * np.mean(pushed)


@pytest.mark.parametrize("margin", [1.0, 3.0, 4.9])
def test_it_is_what_a_slow_loop_gives(batch, margin):
    loss = contrastive_loss(*batch, margin)
    assert float(loss) == pytest.approx(slow_loss(*batch, margin), rel=1e-8)


def test_unknown_pairs_do_not_count(batch):
    u, v, similarity = batch
    known = np.random.default_rng(4).random(similarity.shape) < 0.6
    expected = slow_loss(u, v, np.where(known, similarity, 0), 3.0)
    assert float(contrastive_loss(u, v, similarity, 3.0, known=known)) == pytest.approx(expected)


def test_it_is_zero_when_similar_codes_coincide_and_others_are_beyond_the_margin():
    """Four codes of 16 bits, any two of them 8 bits apart; each has its twin on the other side."""
    halves = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    codes = halves[:, [0, 1, 0, 1]].repeat_interleave(4, dim=1) * torch.tensor([1.0, -1.0] * 8)
    similarity = 2 * torch.eye(4) - 1
    nearest = torch.cdist(codes, codes)[similarity < 0].min()
    assert float(contrastive_loss(codes, codes, similarity, float(nearest) * 0.999)) == 0
    assert float(contrastive_loss(codes, codes, similarity, float(nearest) * 1.001)) > 0
    assert float(contrastive_loss(codes, 0.99 * codes, similarity, 1.0)) > 0


def test_a_kind_has_half_of_the_say_however_rare_it_is(batch):
    u, v, similarity = batch
    once = contrastive_loss(u, v, similarity, 3.0)
    rest = np.concatenate([similarity, np.minimum(similarity, 0)])  # dissimilar ones twice
    again = contrastive_loss(torch.cat([u, u]), v, rest, 3.0)
    assert float(again) == pytest.approx(float(once), rel=1e-12)


@pytest.mark.parametrize("kind", [-1, 1])
def test_a_kind_that_does_not_occur_adds_nothing(batch, kind):
    u, v, similarity = batch
    alone = np.where(similarity == kind, kind, 0)
    both = sum(
        float(contrastive_loss(u, v, np.where(similarity == one, one, 0), 3.0)) for one in (-1, 1)
    )
    assert 0 < float(contrastive_loss(u, v, alone, 3.0)) < both
    assert both == pytest.approx(float(contrastive_loss(u, v, similarity, 3.0)), rel=1e-12)


def test_the_gradient_is_that_of_finite_differences(batch):
    u, v, similarity = batch
    u.requires_grad_()
    v.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda u, v: contrastive_loss(u, v, similarity, 3.0), (u, v), atol=1e-7
    )


def test_dissimilar_scores_that_coincide_have_a_finite_gradient(batch):
    _, v, similarity = batch
    same = v[:6].clone().requires_grad_()
    contrastive_loss(same, v, np.full_like(similarity, -1), 3.0).backward()
    assert torch.isfinite(same.grad).all()


@pytest.mark.parametrize("margin", [0, -1, 6.93, float("nan")])  # 2 √12 is 6.928
def test_a_margin_outside_its_range_is_refused(batch, margin):
    with pytest.raises(InputError, match=rf"at most at 2 √b, here 6.928.*Got {margin}.*Choose"):
        contrastive_loss(*batch, margin)


def test_wrong_shapes_are_refused(batch):
    u, v, similarity = batch
    with pytest.raises(InputError, match=r"\(6, 8\). Got \(8, 6\)"):
        contrastive_loss(u, v, similarity.T, 3.0)
