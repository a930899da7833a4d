"""CHN: the loss and settings of the paper, its variants, and quality."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from corrhash.datasets import make_pairs
from corrhash.losses import cosine_margin_loss, quantization_margin_loss
from corrhash.methods.chn import CHN, CHNI, CHNM, CHNQ
from corrhash.metrics import evaluate
from corrhash.networks.hashing_network import Networks
from corrhash.similarity import Similarity
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
    same = n_images == n_texts
    return Batch(
        u, v, similarity, within_modality={"image": similarity, "text": similarity} if same else {}
    )


def by_hand(batch, cosine_margin, quantization_margin, quantization_weight, *, balanced):
    """O = L + λ Q, as loops over pairs and items."""
    u, v, s = (t.double().numpy() for t in (batch.image_codes, batch.text_codes, batch.similarity))
    p = np.mean(s > 0)
    total = 0.0
    for i in range(len(u)):
        for j in range(len(v)):
            cosine = u[i] @ v[j] / np.linalg.norm(u[i]) / np.linalg.norm(v[j])
            weight = (0.5 / p if s[i, j] > 0 else 0.5 / (1 - p)) if balanced else 1.0
            total += weight * max(0, cosine_margin - s[i, j] * cosine) ** 2 / s.size
    for modality in (u, v):
        for row in modality:
            corner = np.abs(row).sum() / np.linalg.norm(row) / np.sqrt(len(row))
            total += quantization_weight * max(0, quantization_margin - corner) / len(modality)
    return total


@pytest.mark.parametrize("balanced", [True, False])
def test_loss_is_that_of_the_paper(balanced):
    hasher = CHN(
        8,
        cosine_margin=0.6,
        quantization_margin=0.95,
        quantization_weight=0.3,
        pair_weights=balanced,
    )
    batch = random_batch()
    loss, _ = hasher.batch_loss(batch)
    assert float(loss) == pytest.approx(by_hand(batch, 0.6, 0.95, 0.3, balanced=balanced), rel=1e-5)


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
    u = torch.tanh(before_tanh)
    pairs = cosine_margin_loss(u, v, similarity, margin) * n_images * n_texts
    items = quantization_margin_loss(u, margin) * n_images
    (pairs + WEIGHT * items).backward()

    expected = residual_of_paper(before_tanh.detach(), v, similarity, margin)
    assert expected.abs().max() > 0.1
    assert (before_tanh.grad - expected).abs().max() < 1e-10


def test_labels_add_losses_within_modalities():
    batch = random_batch(5, 5)
    u, v = batch.image_codes, batch.text_codes
    between, images, texts = (
        CHN(8, within_modality_weight=0, quantization_weight=0).batch_loss(
            replace(batch, image_codes=a, text_codes=b)
        )[0]
        for a, b in ((u, v), (u, u), (v, v))
    )
    loss, _ = CHN(8, within_modality_weight=0.3, quantization_weight=0).batch_loss(batch)
    assert float(loss) == pytest.approx(float(between + 0.3 * (images + texts)), rel=1e-6)


def test_judgments_add_no_loss_within_modalities():
    batch = random_batch()
    losses = [
        float(CHN(8, within_modality_weight=within).batch_loss(batch)[0]) for within in (0, 1)
    ]
    assert losses[0] == losses[1]


def test_pseudo_labels_add_no_loss_within_modalities(pairs):
    read_off = replace(pairs, pseudo_labels=True)
    codes = [
        CHN(8, within_modality_weight=within, **QUICK).fit(data).encode_text(pairs.texts).packed
        for within, data in ((0.0, pairs), (0.5, read_off), (0.5, pairs))
    ]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert (codes[0] != codes[2]).any()


def test_from_paper_has_the_published_settings():
    hasher = CHN.from_paper(16, margin=0.7, quantization_weight=0.2, epochs=5)
    assert hasher.cosine_margin == hasher.quantization_margin == 0.7
    assert hasher.pair_weights is False
    assert (hasher.within_modality_weight, hasher.networks.sqrt, hasher.networks.noise) == (
        0.0,
        False,
        0.0,
    )
    training = hasher.training
    assert (training.optimizer, training.batch_size, training.weight_decay) == ("sgd", 64, 5e-4)
    assert (training.epochs, training.new_layer_lr_factor) == (5, 10.0)


def test_chn_without_quantization_equals_chn_q(pairs):
    zero = CHN(16, quantization_weight=0.0, **QUICK).fit(pairs)
    variant = CHNQ(16, **QUICK).fit(pairs)
    for modality in ("image", "text"):
        values = getattr(pairs, f"{modality}s")
        first, second = (getattr(h, f"encode_{modality}")(values) for h in (zero, variant))
        np.testing.assert_array_equal(first.packed, second.packed)


def test_chn_m_has_the_squared_cosine_loss():
    batch = random_batch()
    loss, _ = CHNM(8, quantization_weight=0.0, pair_weights=False).batch_loss(batch)
    unit = [torch.nn.functional.normalize(t) for t in (batch.image_codes, batch.text_codes)]
    assert float(loss) == pytest.approx(
        float((batch.similarity - unit[0] @ unit[1].T).square().mean()), rel=1e-5
    )


def test_chn_i_has_the_inner_product_loss():
    batch = random_batch()
    loss, _ = CHNI(8, quantization_weight=0.0, pair_weights=False).batch_loss(batch)
    products = batch.image_codes @ batch.text_codes.T / 8
    assert float(loss) == pytest.approx(
        float((batch.similarity - products).square().mean()), rel=1e-5
    )


@pytest.fixture(scope="module")
def unseen():
    """Training pairs, and a function that returns both mAPs of a model on other pairs."""
    pairs = make_pairs(1900, seed=4)
    query, database = pairs.take(slice(1200, 1500)), pairs.take(slice(1500, None))
    labels = query.labels, database.labels

    def maps(hasher, *, cosine=False):
        image = hasher.embed_image if cosine else hasher.encode_image
        text = hasher.embed_text if cosine else hasher.encode_text
        return np.array(
            [
                evaluate(image(query.images), text(database.texts), *labels).map,
                evaluate(text(query.texts), image(database.images), *labels).map,
            ]
        )

    return pairs.take(slice(0, 1200)), maps, Similarity.from_labels(*labels).share_similar


LONGER = {
    "networks": Networks(width=256),
    "training": Training(epochs=12, learning_rate=3e-3, validate_every=12),
}


def test_bits_and_margins_help_and_binarization_costs(unseen):
    train, maps, _ = unseen
    hasher = CHN(64, **LONGER).fit(train)
    assert np.all(maps(hasher) > maps(CHN(16, **LONGER).fit(train)))
    assert np.all(maps(hasher) > maps(CHNM(64, **LONGER).fit(train)))
    assert np.all(maps(hasher) < maps(hasher, cosine=True))


def test_shuffled_labels_give_chance_level(unseen):
    train, maps, chance = unseen
    order = np.random.default_rng(0).permutation(len(train))
    shuffled = CHN(16, **LONGER).fit(replace(train, labels=train.labels[order]))
    assert np.all(maps(shuffled) < chance + 0.05)
