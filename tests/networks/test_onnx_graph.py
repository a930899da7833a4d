"""ONNX graphs: what a runtime makes of them is what PyTorch makes of the layers."""

import hashlib

import numpy as np
import pytest
import torch
from torch import nn

from corrhash import InputError
from corrhash.networks.alexnet import AlexNet, AlexNetTrunk
from corrhash.networks.hash_layer import HashLayer
from corrhash.networks.inputs import VectorInputs
from corrhash.networks.mlp import MLP
from corrhash.networks.onnx import OnnxNetwork
from corrhash.networks.onnx_graph import onnx_file
from corrhash.networks.small import SmallCNN
from corrhash.networks.standardise import Standardise


def check_same(layers, shape, folder):
    """A file of the layers gives what they give, for as many items as one likes."""
    content = onnx_file(layers, shape)
    (folder / "network.onnx").write_bytes(content)
    network = OnnxNetwork(folder / "network.onnx", hashlib.sha256(content).hexdigest())
    values = torch.randn(5, *shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = nn.Sequential(*layers).eval()(values).numpy()
    inputs = VectorInputs(np.zeros((5, 1)))
    inputs.values = values.numpy()
    found = network.outputs(inputs, 5, expected.shape[1])
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("bounded", [True, False])
def test_vectors(depth, bounded, tmp_path):
    torch.manual_seed(0)
    standardise, body = Standardise(6), MLP(6, 8, depth)
    standardise.learn(torch.randn(9, 6) * 5 + 1)
    hash_layer = HashLayer(body.n_features, 4)
    hash_layer.bounded = bounded
    check_same([standardise, body, hash_layer], (6,), tmp_path)


@pytest.mark.parametrize("side", [32, 65])
def test_the_small_network_with_statistics_of_its_training(side, tmp_path):
    torch.manual_seed(0)
    network = SmallCNN().train()
    network(torch.randn(8, 3, 32, 32))
    check_same([network, HashLayer(network.n_features, 4)], (3, side, side), tmp_path)


@pytest.mark.parametrize("side", [64, 100, 224])  # pooled maps of 1, 2 and 6 pixels
def test_alexnet_of_any_size(side, tmp_path):
    torch.manual_seed(0)
    with torch.device("meta"):
        network = AlexNet()  # without its large layers, which would take a while to make
    network.features.to_empty(device="cpu").apply(reset)
    network.classifier = nn.Sequential(
        nn.Linear(256 * 6 * 6, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 8)
    )
    check_same([network, HashLayer(8, 4)], (3, side, side), tmp_path)


def test_the_convolutions_of_alexnet_alone(tmp_path):
    torch.manual_seed(0)
    network = AlexNetTrunk().apply(reset)
    check_same([network, HashLayer(network.n_features, 4)], (3, 100, 100), tmp_path)


def reset(layer):
    if isinstance(layer, nn.Conv2d):
        layer.reset_parameters()


def test_windows_that_overlap_are_averaged_as_pytorch_does(tmp_path):
    check_same([nn.AdaptiveAvgPool2d(6), nn.Flatten()], (2, 9, 13), tmp_path)


def test_a_network_that_cannot_be_written_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="A layer GELU cannot be exported.*Hugging Face"):
        onnx_file([nn.GELU()], (3,))
