"""HashLayer: scores in [-1, 1] or without bounds, and a start that keeps the scale of features."""

import pytest
import torch

from corrhash.networks.hash_layer import HashLayer


def test_the_hash_layer_gives_scores_between_minus_one_and_one():
    torch.manual_seed(0)
    layer = HashLayer(512, 32)
    assert set(layer.state_dict()) == {"fch.weight", "fch.bias"}
    assert layer.fch.weight.std().item() == pytest.approx(512**-0.5, rel=0.05)
    assert not layer.fch.bias.any()
    features = torch.randn(100, 512)
    scores = layer(features)
    assert scores.shape == (100, 32)
    assert scores.abs().max() <= 1
    assert layer.fch(features).std().item() == pytest.approx(1, rel=0.1)


def test_a_hash_layer_without_bounds_gives_linear_scores():
    layer, features = HashLayer(64, 8), torch.randn(100, 64)
    bounded = layer(features)
    layer.bounded = False
    scores = layer(features)
    assert scores.abs().max() > 1
    torch.testing.assert_close(scores, layer.fch(features))
    torch.testing.assert_close(scores.tanh(), bounded)
