"""ONNX files compute what the PyTorch networks compute."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from corrhash import InputError
from corrhash.methods.onnx_export import _check_exportable, compare, difference, onnx_file
from corrhash.methods.onnx_network import ExportedNetwork, OnnxNetwork
from corrhash.networks.alexnet import AlexNet, AlexNetConvolutions
from corrhash.networks.config import Networks
from corrhash.networks.inputs import VectorInputs
from corrhash.networks.layers import MLP, HashLayer, Standardize
from corrhash.networks.small_cnn import SmallCNN


def check_same_outputs(layers, shape, folder):
    """Compare the outputs of ONNX Runtime and PyTorch for a batch of another size."""
    network = nn.Sequential(*layers)
    content = onnx_file(network, shape)
    (folder / "network.onnx").write_bytes(content)
    checksum = hashlib.sha256(content).hexdigest()
    exported = OnnxNetwork(folder, ExportedNetwork("network.onnx", checksum, None, None))
    values = torch.randn(5, *shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = network.eval()(values).numpy()
    inputs = VectorInputs(np.zeros((5, 1)))
    inputs.values = values.numpy()
    found = exported.outputs(inputs, 5, expected.shape[1])
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("depth", "bounded"), [(0, True), (1, False), (2, True)])
def test_networks_on_features(depth, bounded, tmp_path):
    torch.manual_seed(0)
    standardize, body = Standardize(6), MLP(6, 8, depth)
    standardize.learn(torch.randn(9, 6) * 5 + 1)
    hash_layer = HashLayer(body.n_features, 4)
    hash_layer.bounded = bounded
    check_same_outputs([standardize, body, hash_layer], (6,), tmp_path)


@pytest.mark.parametrize("pixels", [32, 65])
def test_small_network_with_trained_batch_norm(pixels, tmp_path):
    torch.manual_seed(0)
    network = SmallCNN().train()
    network(torch.randn(8, 3, 32, 32))
    layers = [network, HashLayer(network.n_features, 4)]
    check_same_outputs(layers, (3, pixels, pixels), tmp_path)


@pytest.mark.parametrize("pixels", [64, 100, 224])  # pooled maps of 1, 2 and 6 pixels
def test_alexnet_of_several_sizes(pixels, tmp_path):
    torch.manual_seed(0)
    with torch.device("meta"):
        network = AlexNet()  # its large layers, slow to initialize, are replaced
    network.features.to_empty(device="cpu").apply(reset)
    network.classifier = nn.Sequential(
        nn.Linear(256 * 6 * 6, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 8)
    )
    check_same_outputs([network, HashLayer(8, 4)], (3, pixels, pixels), tmp_path)


def test_convolutions_of_alexnet(tmp_path):
    torch.manual_seed(0)
    network = AlexNetConvolutions().apply(reset)
    check_same_outputs([network, HashLayer(network.n_features, 4)], (3, 100, 100), tmp_path)


def reset(layer):
    if isinstance(layer, nn.Conv2d):
        layer.reset_parameters()


def test_files_are_reproducible_and_contain_no_paths():
    torch.manual_seed(0)
    first, second = (onnx_file(network, (6,)) for network in [HashLayer(6, 4)] * 2)
    assert first == second
    assert b"site-packages" not in first
    assert __file__.encode() not in first


def test_encoders_of_hugging_face_are_refused():
    networks = Networks(image="hf:some/vit")
    hasher = SimpleNamespace(networks=networks, inputs_={"image": None, "text": 8})
    with pytest.raises(InputError, match="hf:some/vit cannot be exported.*Hugging Face"):
        _check_exportable(hasher)
    hasher.inputs_["image"] = 256  # features, which the encoder does not read
    _check_exportable(hasher)


def test_bits_can_differ_only_near_zero():
    expected = np.array([[1e-6, 0.5, -0.2], [0.3, -0.1, 0.4]])
    found = expected.copy()
    assert difference("text", expected, found).small
    found[0, 0] = -1e-6
    close = difference("text", expected, found)
    assert (close.n_differing, close.n_unexplained, close.small) == (1, 0, True)
    found[1, 2] = -0.4
    far = difference("text", expected, found)
    assert (far.n_differing, far.n_unexplained, far.small) == (2, 1, False)
    assert str(far) == "2 texts: continuous codes differ by at most 8.0e-01; 2 of 6 bits differ"


def test_large_differences_count_without_a_changed_bit():
    expected = np.array([[0.5]])
    assert not difference("image", expected, expected + 2e-5).small


def test_comparing_needs_onnx_runtime(tmp_path, monkeypatch):
    monkeypatch.setattr("corrhash.methods.onnx_export.has_runtime", lambda: False)
    with pytest.raises(InputError, match="needs ONNX Runtime"):
        compare(tmp_path, None, None)
