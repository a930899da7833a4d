"""MLP: layers as the paper counts them, with dropout in training alone."""

import pytest
import torch
from torch import nn

from corrhash import InputError
from corrhash.networks.item_noise import ItemDropout
from corrhash.networks.mlp import MLP


def test_one_hidden_layer_of_4096_units_unless_told_otherwise():
    network = MLP(20)
    assert [type(layer) for layer in network] == [nn.Linear, nn.ReLU, ItemDropout]
    assert network[0].weight.shape == (4096, 20)
    assert network[2].p == 0.5
    assert network.n_features == 4096


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_depth_counts_hidden_layers(depth):
    network = MLP(20, width=32, depth=depth)
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    assert len(linear) == depth
    assert network(torch.ones(5, 20)).shape == (5, network.n_features)


def test_depth_zero_hands_vectors_on_as_they_are():
    vectors = torch.randn(4, 7)
    assert torch.equal(MLP(7, depth=0)(vectors), vectors)


def test_dropout_is_for_training_only():
    network = MLP(20, width=64)
    vectors = torch.ones(3, 20)
    assert not torch.equal(network(vectors)[0], network(vectors)[1])
    network.eval()
    assert torch.equal(network(vectors)[0], network(vectors)[1])


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"depth": -1}, {"dropout": 1.0}, {"dropout": -0.1}]
)
def test_impossible_layers_are_refused(options):
    (name,) = options
    with pytest.raises(InputError, match=f"{name} {options[name]}"):
        MLP(20, **options)
