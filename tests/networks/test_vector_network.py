"""VectorNetwork computes what the PyTorch networks compute, up to rounding errors."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from corrhash.datasets import make_pairs
from corrhash.methods import METHODS
from corrhash.methods.onnx_export import difference
from corrhash.networks.config import Networks
from corrhash.networks.inputs import VectorInputs
from corrhash.networks.layers import MLP, HashLayer
from corrhash.networks.vector_network import VectorNetwork
from corrhash.training.config import Training

N_BITS = 24


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=1)


def train(name, pairs, **networks):
    settings = {"networks": Networks(width=64, **networks), "training": Training(epochs=2)}
    return METHODS[name](N_BITS, **settings).fit(pairs)


def in_pytorch(hasher, modality, values):
    network = getattr(hasher, f"{modality}_network_")
    return hasher._embed(network, VectorInputs(values), values.shape[0])


@pytest.mark.parametrize("name", [name for name in METHODS if name.startswith(("chn", "mmnn"))])
def test_bits_differ_only_within_rounding_of_zero(name, pairs):
    hasher = train(name, pairs)
    for modality in ("image", "text"):
        values = getattr(pairs, f"{modality}s")
        found = getattr(hasher, f"embed_{modality}")(values)
        compared = difference(modality, in_pytorch(hasher, modality, values), found)
        assert compared.n_bits == 400 * N_BITS
        assert compared.largest < 1e-5
        assert compared.n_unexplained == 0


@pytest.mark.parametrize("depth", [0, 1, 3, 11])  # 11 layers: names are not in order of position
def test_hidden_layers_of_any_depth(depth, pairs):
    hasher = train("dcmh", pairs, depth=depth)
    assert not hasher.bounded
    found = hasher.embed_text(pairs.texts)
    expected = in_pytorch(hasher, "text", pairs.texts)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert difference("text", expected, found).n_unexplained == 0


def test_square_roots_of_features(pairs):
    positive = abs(pairs.images)
    hasher = train("chn", replace(pairs, images=positive))
    assert hasher.arrays_["image.body.standardize.takes_sqrt"]
    expected = in_pytorch(hasher, "image", positive)
    np.testing.assert_allclose(hasher.embed_image(positive), expected, atol=1e-5)
    negative = positive - 1  # negative features count as 0, as in PyTorch
    expected = in_pytorch(hasher, "image", negative)
    np.testing.assert_allclose(hasher.embed_image(negative), expected, atol=1e-5)


@pytest.mark.parametrize("modality", ["image", "text"])
def test_a_code_does_not_depend_on_its_batch(modality, pairs):
    embed = getattr(train("chn", pairs), f"embed_{modality}")
    values = getattr(pairs, f"{modality}s")
    together = embed(values)
    for rows in ([0], [7], [399], [63, 64], np.arange(70, 135)):
        np.testing.assert_array_equal(embed(values[rows]), together[rows])


def test_sparse_and_dense_features_give_the_same_codes(pairs):
    hasher = train("chn", pairs)
    few = np.where(abs(pairs.images) > 1, pairs.images, 0)
    found = hasher.embed_image(sp.csr_array(few))
    np.testing.assert_array_equal(found, hasher.embed_image(few))
    dense = pairs.texts.toarray()
    np.testing.assert_array_equal(hasher.embed_text(dense), hasher.embed_text(pairs.texts))


def test_no_vectors_have_no_codes(pairs):
    hasher = train("chn", pairs)
    assert hasher.embed_image(pairs.images[:0]).shape == (0, N_BITS)
    assert hasher.embed_text(pairs.texts[:0]).shape == (0, N_BITS)


def test_a_network_worked_by_hand():
    """Two terms, one hidden layer of two units, one bit."""
    body, layer = MLP(2, 2, 1), HashLayer(2, 1)
    arrays = {f"body.{name}": value.numpy() for name, value in body.state_dict().items()}
    arrays |= {f"hash.{name}": value.numpy() for name, value in layer.state_dict().items()}
    arrays["body.0.weight"][:] = [[1, 2], [-1, 0]]
    arrays["body.0.bias"][:] = [0.5, 0.5]
    arrays["hash.fch.weight"][:] = [[0.1, 1]]
    arrays["hash.fch.bias"][:] = [-0.2]
    network = VectorNetwork(arrays, bounded=True)
    # relu(1 + 2 + 0.5) = 3.5 and relu(-1 + 0.5) = 0, then tanh(0.35 - 0.2)
    np.testing.assert_allclose(network.outputs(np.ones((1, 2))), [[np.tanh(0.15)]], rtol=1e-6)
    with torch.no_grad():
        expected = layer(body.eval()(torch.ones(1, 2)))  # the arrays share memory with the layers
    np.testing.assert_allclose(network.outputs(np.ones((1, 2))), expected, rtol=1e-6)
