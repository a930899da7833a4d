"""Pair weights and losses, compared with slow loops and the equations of the papers."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.losses import (
    active_share,
    class_weights,
    contrastive_loss,
    cosine_likelihood_loss,
    cosine_margin_loss,
    cosines,
    counterpart_loss,
    inner_product_loss,
    pair_weights,
    pairwise_likelihood_loss,
    quantization_margin_loss,
)


@pytest.fixture
def similarity():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-1, 2, (6, 8), generator=generator).double()  # with unknown pairs


def slow_item_weight(similarity, i, j):
    """Mean of the weights that the pairs of image i and of text j give."""
    given = []
    for line in (similarity[i], similarity[:, j]):
        known = [float(s) for s in line if s != 0]
        p = min(max(sum(s > 0 for s in known) / len(known), 0.001), 0.999)
        given.append(0.5 / p if similarity[i, j] > 0 else 0.5 / (1 - p))
    return sum(given) / 2


def test_item_weights_equal_a_slow_count(similarity):
    weights = pair_weights(similarity, balanced="item")
    for i, j in similarity.nonzero().tolist():
        assert float(weights[i, j]) == pytest.approx(slow_item_weight(similarity, i, j))


def test_unknown_pairs_have_weight_zero(similarity):
    for balanced in (False, True, "item"):
        assert (pair_weights(similarity, balanced=balanced)[similarity == 0] == 0).all()


def test_batch_weights_balance_both_kinds_of_pairs(similarity):
    weights = pair_weights(similarity, balanced=True)
    assert float(weights[similarity > 0].sum()) == pytest.approx(float(weights.sum()) / 2)


def test_item_weights_give_each_item_the_same_total():
    few_and_many = torch.tensor([[1.0, -1.0, -1.0, -1.0], [1.0, 1.0, 1.0, -1.0]])
    images = [float(pair_weights(row[None], balanced="item").sum()) for row in few_and_many]
    assert images[0] == pytest.approx(images[1])
    batch = pair_weights(few_and_many, balanced=True)
    assert float(batch[0][few_and_many[0] > 0].sum()) < float(batch[1][few_and_many[1] > 0].sum())


def test_unknown_kind_of_weights_is_refused(similarity):
    with pytest.raises(InputError, match="True, False or 'item', got 'items'"):
        pair_weights(similarity, balanced="items")


def codes(n, b=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, b, generator=generator, dtype=torch.float64).tanh()


@pytest.fixture
def batch():
    similarity = np.random.default_rng(3).choice([-1, 1], (6, 8), p=[0.8, 0.2]).astype(np.int8)
    return codes(6, seed=1), codes(8, seed=2), similarity


def slow_loss(u, v, similarity, margin, balanced=False):
    """The loss, pair by pair."""
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
def test_cosine_loss_equals_a_slow_loop(batch, margin, balanced):
    u, v, similarity = batch
    loss = cosine_margin_loss(u, v, similarity, margin, balanced=balanced)
    assert float(loss) == pytest.approx(slow_loss(u, v, similarity, margin, balanced), rel=1e-12)


@pytest.mark.parametrize("balanced", [False, True])
def test_cosine_loss_ignores_unknown_pairs(batch, balanced):
    u, v, similarity = batch
    known = np.random.default_rng(4).random(similarity.shape) < 0.5
    expected = slow_loss(u, v, np.where(known, similarity, 0), 0.5, balanced)
    loss = cosine_margin_loss(u, v, similarity * known, 0.5, balanced=balanced)
    assert float(loss) == pytest.approx(expected, rel=1e-12)


def test_cosine_loss_is_zero_without_known_pairs(batch):
    u, v, similarity = batch
    u.requires_grad_()
    loss = cosine_margin_loss(u, v, 0 * similarity, 0.5, balanced=True)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(u.grad, torch.zeros_like(u))


def test_sums_are_means_times_the_number_of_terms(batch):
    u, v, similarity = batch
    total = cosine_margin_loss(u, v, similarity, 0.5, reduction="sum")
    mean = cosine_margin_loss(u, v, similarity, 0.5)
    assert float(total) == pytest.approx(float(mean) * similarity.size, rel=1e-12)
    total = quantization_margin_loss(u, 0.9, reduction="sum")
    assert float(total) == pytest.approx(float(quantization_margin_loss(u, 0.9)) * len(u))


def slow_likelihood(u, v, similarity, scale, balanced):
    """The cross-entropy of P = (1 + s) / 2, pair by pair."""
    known = [(i, j) for i, j in np.ndindex(similarity.shape) if similarity[i, j] != 0]
    p = np.mean([(1 + similarity[i, j]) / 2 for i, j in known])
    total = 0.0
    for i, j in known:
        logit = scale * float(u[i] @ v[j] / (u[i].norm() * v[j].norm()))
        similar = (1 + similarity[i, j]) / 2 * (0.5 / p if balanced else 1)
        dissimilar = (1 - similarity[i, j]) / 2 * (0.5 / (1 - p) if balanced else 1)
        total += similar * np.log1p(np.exp(-logit)) + dissimilar * np.log1p(np.exp(logit))
    return total / len(known)


@pytest.mark.parametrize("balanced", [False, True])
def test_cosine_likelihood_equals_a_slow_loop(batch, balanced):
    u, v, similarity = batch
    expected = np.random.default_rng(5).uniform(-1, 1, similarity.shape)
    expected[similarity > 0] = 0  # unknown
    for s in (similarity.astype(float), expected):
        loss = cosine_likelihood_loss(u, v, s, 4.0, balanced=balanced)
        assert float(loss) == pytest.approx(slow_likelihood(u, v, s, 4.0, balanced), rel=1e-12)


def test_expected_similarities_are_shared_among_both_classes():
    similar, dissimilar = class_weights(torch.tensor([[1.0, 0.5, -1.0, 0.0]]))
    assert similar.tolist() == [[1, 0.75, 0, 0]]
    assert dissimilar.tolist() == [[0, 0.25, 1, 0]]


@pytest.mark.parametrize("value", [-1, 1])
def test_weights_are_bounded_if_one_kind_is_missing(batch, value):
    u, v, similarity = batch
    similarity = np.full_like(similarity, value)
    plain = float(cosine_margin_loss(u, v, similarity, 0.5))
    balanced = float(cosine_margin_loss(u, v, similarity, 0.5, balanced=True))
    assert balanced == pytest.approx(plain * 0.5 / 0.999)


def test_cosine_loss_does_not_depend_on_norms(batch):
    u, v, similarity = batch
    stretch = torch.linspace(0.1, 30, len(u), dtype=u.dtype)[:, None]
    before = float(cosine_margin_loss(u, v, similarity, 0.7))
    after = float(cosine_margin_loss(u * stretch, v * 5, similarity, 0.7))
    assert after == pytest.approx(before, rel=1e-12)


def test_margin_of_one_gives_the_squared_loss_of_chn_m(batch):
    u, v, similarity = batch
    squared = (torch.as_tensor(similarity) - cosines(u, v)).square().mean()
    loss = float(cosine_margin_loss(u, v, similarity, 1.0))
    assert loss == pytest.approx(float(squared), rel=1e-12)


def test_cosines_of_codes_follow_hamming_distances():
    signs = torch.where(codes(5, b=10) > 0, 1.0, -1.0)
    distances = (signs[:, None] != signs[None]).sum(2)
    assert torch.allclose(cosines(signs, signs), 1 - 2 * distances / 10)


def test_zero_row_has_cosine_zero_and_no_gradient(batch):
    u, v, similarity = batch
    u[2] = 0
    u.requires_grad_()
    assert torch.equal(cosines(u, v)[2], torch.zeros(8, dtype=u.dtype))
    cosine_margin_loss(u, v, similarity, 0.5).backward()
    assert u.grad.abs().max() < 1
    assert torch.equal(u.grad[2], torch.zeros_like(u[2]))


@pytest.mark.parametrize("margin", [0, -0.5, 1.01, float("nan")])
def test_cosine_margin_out_of_range_is_refused(batch, margin):
    with pytest.raises(InputError, match=f"at most 1, got {margin}.*Start with"):
        cosine_margin_loss(*batch, margin)


def test_cosine_loss_refuses_wrong_shapes(batch):
    u, v, similarity = batch
    with pytest.raises(InputError, match=r"one column per text, \(6, 8\), got \(8, 6\)"):
        cosine_margin_loss(u, v, similarity.T, 0.5)
    with pytest.raises(InputError, match=r"got \(6, 12\) and \(8, 5\).*same n_bits"):
        cosine_margin_loss(u, v[:, :5], similarity, 0.5)
    with pytest.raises(InputError, match=r"got \(12,\)"):
        cosines(u[0], v)


def test_boolean_similarity_is_refused(batch):
    u, v, similarity = batch
    with pytest.raises(InputError, match="got booleans.*2 \\* similarity - 1"):
        cosine_margin_loss(u, v, similarity > 0, 0.5)


@pytest.fixture
def code_rows():
    return torch.randn(200, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("margin", [0.5, 0.9, 1.0])
def test_quantization_loss_of_codes_is_zero(code_rows, margin):
    signs = torch.where(code_rows > 0, 1.0, -1.0).double()
    assert float(quantization_margin_loss(signs, margin)) == pytest.approx(0, abs=1e-15)
    assert active_share(signs, 0.999) == 0


def test_quantization_loss_is_largest_on_an_axis():
    axes = torch.eye(16)
    assert float(quantization_margin_loss(axes, 0.9)) == pytest.approx(0.9 - 1 / 4)
    assert active_share(axes, 0.9) == 1


def test_quantization_loss_equals_a_slow_loop(code_rows):
    u = code_rows.tanh()
    missing = [max(0.0, 0.9 - float(row.abs().sum() / (row.norm() * 32**0.5))) for row in u]
    assert float(quantization_margin_loss(u, 0.9)) == pytest.approx(sum(missing) / len(missing))
    assert active_share(u, 0.9) == sum(m > 0 for m in missing) / len(missing)


def test_quantization_loss_ignores_norms_and_signs(code_rows):
    before = float(quantization_margin_loss(code_rows, 0.9))
    stretch = torch.linspace(0.1, 30, len(code_rows), dtype=code_rows.dtype)[:, None]
    assert float(quantization_margin_loss(-code_rows * stretch, 0.9)) == pytest.approx(before)


def test_small_margin_is_inactive_on_normal_codes(code_rows):
    assert active_share(code_rows, 0.6) == 0
    assert 0.9 < active_share(code_rows, 0.9) <= 1


def test_quantization_loss_of_zero_row_has_no_gradient():
    u = torch.zeros(2, 8, requires_grad=True)
    loss = quantization_margin_loss(u, 0.9)
    loss.backward()
    assert loss.item() == pytest.approx(0.9)
    assert torch.equal(u.grad, torch.zeros(2, 8))


def test_quantization_loss_refuses_wrong_input(code_rows):
    with pytest.raises(InputError, match="at most 1, got 1.5"):
        quantization_margin_loss(code_rows, 1.5)
    with pytest.raises(InputError, match=r"got \(32,\)"):
        quantization_margin_loss(code_rows[0], 0.9)


@pytest.fixture
def partly_known_batch():
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(5, 8, generator=generator, dtype=torch.float64).tanh()
    v = torch.randn(7, 8, generator=generator, dtype=torch.float64).tanh()
    return u, v, np.random.default_rng(1).choice([-1, 0, 1], (5, 7))


def test_inner_product_loss_equals_a_slow_loop(partly_known_batch):
    u, v, similarity = partly_known_batch
    terms = [
        (similarity[i, j] - float(u[i] @ v[j]) / 8) ** 2
        for i, j in np.ndindex(similarity.shape)
        if similarity[i, j] != 0
    ]
    assert float(inner_product_loss(u, v, similarity)) == pytest.approx(np.mean(terms), rel=1e-12)


def test_on_codes_inner_product_and_cosine_loss_agree(partly_known_batch):
    u, v, similarity = partly_known_batch
    u, v = u.sign(), v.sign()
    expected = float(cosine_margin_loss(u, v, similarity, 1.0))
    assert float(inner_product_loss(u, v, similarity)) == pytest.approx(expected, rel=1e-12)


def test_inner_product_loss_depends_on_norms(partly_known_batch):
    u, v, similarity = partly_known_batch
    assert float(inner_product_loss(u / 2, v, similarity)) != pytest.approx(
        float(inner_product_loss(u, v, similarity))
    )


def test_likelihood_loss_is_the_negative_log_likelihood(partly_known_batch):
    u, v, similarity = partly_known_batch
    log_losses = []
    for i, j in np.ndindex(similarity.shape):
        probability = 1 / (1 + math.exp(-float(u[i] @ v[j]) / 2))  # that i and j are similar
        if similarity[i, j] != 0:
            log_losses.append(-math.log(probability if similarity[i, j] > 0 else 1 - probability))
    loss = pairwise_likelihood_loss(u, v, similarity)
    assert float(loss) == pytest.approx(np.mean(log_losses), rel=1e-12)


def test_likelihood_gradient_is_that_of_the_paper(partly_known_batch):
    u, v, similarity = partly_known_batch
    u.requires_grad_()
    n_known = np.count_nonzero(similarity)
    (pairwise_likelihood_loss(u, v, similarity) * n_known).backward()
    expected = torch.zeros_like(u)
    for i, j in np.argwhere(similarity != 0):
        probability = 1 / (1 + torch.exp(-u[i] @ v[j] / 2))
        expected[i] += 0.5 * (probability.detach() - (similarity[i, j] > 0)) * v[j]
    torch.testing.assert_close(u.grad, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("theta", "kind", "expected"), [(1000, 1, 0), (1000, -1, 1000)])
def test_likelihood_loss_stays_finite(theta, kind, expected, dtype):
    """Θ of +1000, and of -1000 with the other kind, where ln(1 + exp Θ) would overflow."""
    for sign in (1, -1):
        u = torch.full((1, 4), 2 * theta / 4, dtype=dtype, requires_grad=True)
        loss = pairwise_likelihood_loss(u, torch.full((1, 4), sign, dtype=dtype), [[sign * kind]])
        loss.backward()
        assert float(loss.detach()) == pytest.approx(expected)
        assert torch.isfinite(u.grad).all()


@pytest.mark.parametrize("loss", [inner_product_loss, pairwise_likelihood_loss])
def test_balanced_losses_give_both_kinds_the_same_weight(partly_known_batch, loss):
    u, v, similarity = partly_known_batch
    similar = loss(u, v, np.where(similarity > 0, similarity, 0))
    dissimilar = loss(u, v, np.where(similarity < 0, similarity, 0))
    balanced = loss(u, v, similarity, balanced=True)
    assert float(balanced) == pytest.approx(float(similar + dissimilar) / 2, rel=1e-12)


@pytest.mark.parametrize(
    "loss", [inner_product_loss, pairwise_likelihood_loss, partial(contrastive_loss, margin=3.0)]
)
def test_losses_refuse_a_transposed_similarity(partly_known_batch, loss):
    u, v, similarity = partly_known_batch
    with pytest.raises(InputError, match=r"\(5, 7\), got \(7, 5\)"):
        loss(u, v, similarity.T)


@pytest.fixture
def contrastive_batch():
    similarity = np.random.default_rng(3).choice([-1, 0, 1], (6, 8), p=[0.6, 0.2, 0.2])
    return codes(6, seed=1), codes(8, seed=2), similarity


def contrastive_slow_loss(u, v, similarity, margin):
    """The loss, pair by pair."""
    pulled, pushed = [], []
    for i, j in np.ndindex(similarity.shape):
        distance = float(np.sqrt(np.sum((u[i] - v[j]).numpy() ** 2)))
        if similarity[i, j] > 0:
            pulled.append(distance**2)
        elif similarity[i, j] < 0:
            pushed.append(max(0.0, margin - distance) ** 2)
    return 0.5 * np.mean(pulled) + 0.5 * np.mean(pushed)


@pytest.mark.parametrize("margin", [1.0, 3.0, 4.9])
def test_contrastive_loss_equals_a_slow_loop(contrastive_batch, margin):
    loss = contrastive_loss(*contrastive_batch, margin)
    assert float(loss) == pytest.approx(contrastive_slow_loss(*contrastive_batch, margin), rel=1e-8)


def test_contrastive_loss_of_separated_codes_is_zero():
    """Four codes of 16 bits at mutual distance 8, each with an equal code in the other modality."""
    halves = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    codes = halves[:, [0, 1, 0, 1]].repeat_interleave(4, dim=1) * torch.tensor([1.0, -1.0] * 8)
    similarity = 2 * torch.eye(4) - 1
    nearest = torch.cdist(codes, codes)[similarity < 0].min()
    assert float(contrastive_loss(codes, codes, similarity, float(nearest) * 0.999)) == 0
    assert float(contrastive_loss(codes, codes, similarity, float(nearest) * 1.001)) > 0
    assert float(contrastive_loss(codes, 0.99 * codes, similarity, 1.0)) > 0


def test_contrastive_loss_balances_both_kinds(contrastive_batch):
    u, v, similarity = contrastive_batch
    once = contrastive_loss(u, v, similarity, 3.0)
    rest = np.concatenate([similarity, np.minimum(similarity, 0)])  # dissimilar ones twice
    again = contrastive_loss(torch.cat([u, u]), v, rest, 3.0)
    assert float(again) == pytest.approx(float(once), rel=1e-12)


@pytest.mark.parametrize("kind", [-1, 1])
def test_contrastive_loss_of_a_missing_kind_is_zero(contrastive_batch, kind):
    u, v, similarity = contrastive_batch
    alone = np.where(similarity == kind, kind, 0)
    both = sum(
        float(contrastive_loss(u, v, np.where(similarity == one, one, 0), 3.0)) for one in (-1, 1)
    )
    assert 0 < float(contrastive_loss(u, v, alone, 3.0)) < both
    assert both == pytest.approx(float(contrastive_loss(u, v, similarity, 3.0)), rel=1e-12)


def test_contrastive_gradient_equals_finite_differences(contrastive_batch):
    u, v, similarity = contrastive_batch
    u.requires_grad_()
    v.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda u, v: contrastive_loss(u, v, similarity, 3.0), (u, v), atol=1e-7
    )


def test_coinciding_dissimilar_codes_have_finite_gradient(contrastive_batch):
    _, v, similarity = contrastive_batch
    same = v[:6].clone().requires_grad_()
    contrastive_loss(same, v, np.full_like(similarity, -1), 3.0).backward()
    assert torch.isfinite(same.grad).all()


@pytest.mark.parametrize("margin", [0, -1, 6.93, float("nan")])  # 2 √12 is 6.928
def test_contrastive_margin_out_of_range_is_refused(contrastive_batch, margin):
    with pytest.raises(InputError, match=rf"at most 2 √b = 6.928.*got {margin}.*Start with"):
        contrastive_loss(*contrastive_batch, margin)


def slow_counterpart_loss(u, v, similarity, temperature):
    """The mean over directions of the mean over items, in loops."""
    of_directions = []
    for queries, items, judged in ((u, v, similarity), (v, u, similarity.T)):
        terms = []
        for query, row in zip(queries, judged, strict=True):
            known = {"all": 0.0, "similar": 0.0}
            for item, s in zip(items, row, strict=True):
                binary = np.where(item > 0, 1, -1)
                cosine = query @ binary / np.linalg.norm(query) / np.sqrt(len(binary))
                known["all"] += (s != 0) * np.exp(cosine / temperature)
                known["similar"] += (s > 0) * np.exp(cosine / temperature)
            if known["similar"]:
                terms.append(-np.log(known["similar"] / known["all"]))
        of_directions.append(np.mean(terms))
    return np.mean(of_directions)


def test_counterpart_loss_equals_a_slow_loop(partly_known_batch):
    u, v, similarity = partly_known_batch
    expected = slow_counterpart_loss(u.numpy(), v.numpy(), similarity, 0.3)
    assert float(counterpart_loss(u, v, similarity, 0.3)) == pytest.approx(expected)


def test_counterpart_loss_ignores_items_without_counterpart():
    u = torch.tensor([[1.0, 1.0], [1.0, -1.0]], requires_grad=True)
    similarity = torch.tensor([[1.0, -1.0], [-1.0, 0.0]])
    counterpart_loss(u, u, similarity, 0.1).backward()
    alone = torch.tensor([[1.0, 1.0]])
    assert float(counterpart_loss(alone, alone, [[-1.0]], 0.1)) == 0
    assert torch.isfinite(u.grad).all()


def test_counterpart_loss_has_the_gradient_of_the_continuous_codes():
    u = torch.tensor([[0.3, 0.5], [0.2, -0.4]], dtype=torch.double, requires_grad=True)
    v = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.double)
    counterpart_loss(u, v, torch.eye(2).double() * 2 - 1, 0.5).backward()
    assert (u.grad[0] * torch.tensor([-0.5, 0.3])).sum() != 0  # it turns codes, not only scales
    step = u - 0.1 * u.grad
    before, after = (counterpart_loss(x, v, torch.eye(2) * 2 - 1, 0.5) for x in (u, step))
    assert after < before
