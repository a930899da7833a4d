"""Dropout and noise by item: of the right size, and the same in every batch and process."""

import numpy as np
import pytest
import torch

from corrhash.networks.item_keys import item_keys
from corrhash.networks.item_noise import ItemDropout, ItemNoise, drawing_by

ONES = torch.ones(200, 1023)
KEYS = item_keys(range(200), seed=3, epoch=1)
LAYERS = [ItemDropout(0.5), ItemDropout(0.3), ItemNoise(0.7)]


def drawn(layer, features=ONES, keys=KEYS):
    with drawing_by(keys):
        return layer.train()(features)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.75])
def test_dropout_silences_its_share_of_every_item_and_scales_the_rest(share):
    found = drawn(ItemDropout(share))
    silent = found == 0
    assert silent.float().mean().item() == pytest.approx(share, abs=0.005)
    np.testing.assert_allclose(silent.float().mean(dim=0), share, atol=0.2)
    np.testing.assert_allclose(silent.float().mean(dim=1), share, atol=0.1)
    np.testing.assert_allclose(found[~silent], 1 / (1 - share), rtol=1e-6)


def test_noise_is_normal_and_of_its_deviation():
    noise = drawn(ItemNoise(0.7)) - ONES
    assert noise.mean().item() == pytest.approx(0, abs=0.01)
    assert noise.std().item() == pytest.approx(0.7, abs=0.01)
    assert (noise.abs() < 0.7).float().mean().item() == pytest.approx(0.6827, abs=0.01)


@pytest.mark.parametrize("layer", LAYERS)
def test_an_item_draws_the_same_in_any_company_and_whatever_was_drawn_before(layer):
    together = drawn(layer)
    torch.manual_seed(9)
    assert torch.equal(drawn(layer, ONES[[7, 3]], KEYS[[7, 3]]), together[[7, 3]])
    assert drawn(layer, ONES[:0], KEYS[:0]).shape == (0, 1023)


@pytest.mark.parametrize("layer", LAYERS)
def test_items_layers_and_epochs_draw_differently(layer):
    layer.train()
    with drawing_by(KEYS):
        first, second = layer(ONES), layer(ONES)
    other = drawn(layer, keys=item_keys(range(200), seed=3, epoch=2))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("layer", LAYERS)
def test_without_keys_pytorch_draws_and_encoding_draws_nothing(layer):
    layer.train()
    torch.manual_seed(1)
    first = layer(ONES)
    torch.manual_seed(1)
    assert torch.equal(layer(ONES), first)
    assert not torch.equal(layer(ONES), first)
    layer.eval()
    with drawing_by(KEYS):
        assert torch.equal(layer(ONES), ONES)


def test_double_precision_draws_the_same_numbers():
    for layer in LAYERS:
        np.testing.assert_allclose(drawn(layer, ONES.double()), drawn(layer), rtol=1e-6, atol=1e-6)
