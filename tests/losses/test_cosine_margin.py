"""Cosine max-margin loss: by hand, by a slow loop, and where nothing is known."""

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.losses import cosine_margin_loss, cosines


def scores(n, b=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, b, generator=generator, dtype=torch.float64).tanh()


@pytest.fixture
def batch():
    similarity = np.random.default_rng(3).choice([-1, 1], (6, 8), p=[0.8, 0.2]).astype(np.int8)
    return scores(6, seed=1), scores(8, seed=2), similarity


def slow_loss(u, v, similarity, margin, balanced=False):
    """Pair by pair, as one would on paper."""
    known = [(i, j) for i, j in np.ndindex(similarity.shape) if similarity[i, j] != 0]
    p = np.mean([similarity[i, j] > 0 for i, j in known])
    p = min(max(p, 0.001), 0.999)
    total = 0.0
    for i, j in known:
        cosine = float(u[i] @ v[j] / (u[i].norm() * v[j].norm()))
        weight = 1.0 if not balanced else 0.5 / p if similarity[i, j] > 0 else 0.5 / (1 - p)
        total += weight * max(0.0, margin - similarity[i, j] * cosine) ** 2
    return total / len(known)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("margin", [0.2, 0.5, 1.0])
def test_it_is_what_a_slow_loop_gives(batch, margin, balanced):
    u, v, similarity = batch
    loss = cosine_margin_loss(u, v, similarity, margin, balanced=balanced)
    assert float(loss) == pytest.approx(slow_loss(u, v, similarity, margin, balanced), rel=1e-12)


@pytest.mark.parametrize("balanced", [False, True])
def test_unknown_pairs_do_not_count(batch, balanced):
    u, v, similarity = batch
    known = np.random.default_rng(4).random(similarity.shape) < 0.5
    expected = slow_loss(u, v, np.where(known, similarity, 0), 0.5, balanced)
    by_mask = cosine_margin_loss(u, v, similarity, 0.5, balanced=balanced, known=known)
    by_zeros = cosine_margin_loss(u, v, similarity * known, 0.5, balanced=balanced)
    assert float(by_mask) == pytest.approx(expected, rel=1e-12)
    assert float(by_zeros) == pytest.approx(expected, rel=1e-12)


def test_without_a_known_pair_nothing_is_learned(batch):
    u, v, similarity = batch
    u.requires_grad_()
    loss = cosine_margin_loss(u, v, 0 * similarity, 0.5, balanced=True)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(u.grad, torch.zeros_like(u))


@pytest.mark.parametrize("value", [-1, 1])
def test_a_batch_of_one_kind_keeps_bounded_weights(batch, value):
    u, v, similarity = batch
    similarity = np.full_like(similarity, value)
    plain = float(cosine_margin_loss(u, v, similarity, 0.5))
    balanced = float(cosine_margin_loss(u, v, similarity, 0.5, balanced=True))
    assert balanced == pytest.approx(plain * 0.5 / 0.999)


def test_lengths_do_not_matter(batch):
    u, v, similarity = batch
    stretch = torch.linspace(0.1, 30, len(u), dtype=u.dtype)[:, None]
    before = cosine_margin_loss(u, v, similarity, 0.7)
    assert float(cosine_margin_loss(u * stretch, v * 5, similarity, 0.7)) == pytest.approx(
        float(before), rel=1e-12
    )


def test_a_margin_of_one_is_the_squared_loss_of_chn_m(batch):
    u, v, similarity = batch
    squared = (torch.as_tensor(similarity) - cosines(u, v)).square().mean()
    assert float(cosine_margin_loss(u, v, similarity, 1.0)) == pytest.approx(
        float(squared), rel=1e-12
    )


def test_cosines_of_codes_are_their_hamming_distances():
    signs = torch.where(scores(5, b=10) > 0, 1.0, -1.0)
    distances = (signs[:, None] != signs[None]).sum(2)
    assert torch.allclose(cosines(signs, signs), 1 - 2 * distances / 10)


def test_a_row_of_zeros_has_cosine_zero_and_a_harmless_gradient(batch):
    u, v, similarity = batch
    u[2] = 0
    u.requires_grad_()
    assert torch.equal(cosines(u, v)[2], torch.zeros(8, dtype=u.dtype))
    cosine_margin_loss(u, v, similarity, 0.5).backward()
    assert u.grad.abs().max() < 1
    assert torch.equal(u.grad[2], torch.zeros_like(u[2]))


@pytest.mark.parametrize("margin", [0, -0.5, 1.01, float("nan")])
def test_a_margin_outside_its_range_is_refused(batch, margin):
    with pytest.raises(InputError, match=f"at most at 1.*Got {margin}.*Choose"):
        cosine_margin_loss(*batch, margin)


def test_wrong_shapes_are_refused(batch):
    u, v, similarity = batch
    with pytest.raises(InputError, match=r"column for each text, \(6, 8\). Got \(8, 6\)"):
        cosine_margin_loss(u, v, similarity.T, 0.5)
    with pytest.raises(InputError, match=r"known .*\(6, 8\). Got \(8,\)"):
        cosine_margin_loss(u, v, similarity, 0.5, known=np.ones(8, bool))
    with pytest.raises(InputError, match=r"Got \(6, 12\) and \(8, 5\).*same n_bits"):
        cosine_margin_loss(u, v[:, :5], similarity, 0.5)
    with pytest.raises(InputError, match=r"Got \(12,\)"):
        cosines(u[0], v)


def test_true_and_false_are_refused_for_similarity(batch):
    u, v, similarity = batch
    with pytest.raises(InputError, match="Got true and false.*2 \\* similarity - 1"):
        cosine_margin_loss(u, v, similarity > 0, 0.5)
