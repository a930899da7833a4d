"""TagMLP, FeaturesMLP and HashLayer: layers as the paper counts them, starts that keep scale."""

import pytest
import torch
from torch import nn

from corrhash import InputError
from corrhash.networks.features_mlp import FeaturesMLP
from corrhash.networks.hash_layer import HashLayer
from corrhash.networks.text import TagMLP


@pytest.mark.parametrize("kind", [TagMLP, FeaturesMLP])
def test_one_hidden_layer_of_4096_units_unless_told_otherwise(kind):
    network = kind(20)
    assert [type(layer) for layer in network.layers] == [nn.Linear, nn.ReLU, nn.Dropout]
    assert network.layers[0].weight.shape == (4096, 20)
    assert network.layers[2].p == 0.5
    assert network.n_features == 4096


@pytest.mark.parametrize("kind", [TagMLP, FeaturesMLP])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_depth_counts_hidden_layers(kind, depth):
    network = kind(20, width=32, depth=depth)
    linear = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
    assert len(linear) == depth
    assert network(torch.ones(5, 20)).shape == (5, network.n_features)


def test_depth_zero_hands_features_on_as_they_are():
    features = torch.randn(4, 7)
    assert torch.equal(FeaturesMLP(7, depth=0)(features), features)


def test_dropout_is_for_training_only():
    network = FeaturesMLP(20, width=64)
    features = torch.ones(3, 20)
    assert not torch.equal(network(features)[0], network(features)[1])
    network.eval()
    assert torch.equal(network(features)[0], network(features)[1])


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"depth": -1}, {"dropout": 1.0}, {"dropout": -0.1}]
)
def test_impossible_layers_are_refused(options):
    (name,) = options
    with pytest.raises(InputError, match=f"{name} {options[name]}"):
        TagMLP(20, **options)


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
