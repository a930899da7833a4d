"""The two networks: what they start from, what is trained how fast, and what says nothing here."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from corrhash import InputError
from corrhash.datasets import PairedDataset
from corrhash.methods import Hasher
from corrhash.methods.chn import CHN
from corrhash.methods.training import Training
from corrhash.methods.two_networks import (
    Networks,
    load_image_weights,
    make_image_network,
    parameters_by_origin,
)
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.small import SmallCNN


@pytest.fixture
def small_file(tmp_path):
    torch.manual_seed(1)
    save_file(SmallCNN().state_dict(), tmp_path / "small.safetensors")
    return str(tmp_path / "small.safetensors")


@pytest.fixture
def pairs():
    images = np.random.default_rng(0).integers(0, 255, (30, 40, 40, 3), dtype=np.uint8)
    labels = np.eye(2, dtype=int)[np.arange(30) % 2]
    return PairedDataset(images, labels.astype(np.float32), labels)


def test_ready_features_are_blurred_in_training_alone():
    features = torch.ones(4, 6)
    network = make_image_network(Networks(width=8, dropout=0.0, noise=0.5), 6, n_bits=4)
    network.train()
    assert not torch.equal(network(features), network(features))
    network.eval()
    assert torch.equal(network(features), network(features))
    clear = make_image_network(Networks(width=8, dropout=0.0, noise=0.0), 6, n_bits=4).train()
    assert torch.equal(clear(features), clear(features))


def test_pictures_of_another_size_are_trained_and_encoded(pairs, tmp_path):
    networks = Networks(width=8, image_size=32)
    hasher = CHN(8, networks=networks, training=Training(epochs=1)).fit(pairs)
    assert hasher.image_network_.body.preprocessing.crop == 32
    assert SmallCNN.preprocessing.crop == 64
    hasher.save(tmp_path)
    codes = [h.encode_image(pairs.images).packed for h in (hasher, Hasher.load(tmp_path))]
    np.testing.assert_array_equal(*codes)
    with pytest.raises(InputError, match="brings the size of its pictures with it"):
        make_image_network(Networks(image="hf:some/vit", image_size=96), None, n_bits=8)


def test_a_training_says_what_its_image_network_starts_from(pairs, small_file, caplog):
    caplog.set_level("INFO", "corrhash")
    for weights in (None, small_file):
        networks = Networks(width=8, image_weights=weights)
        CHN(8, networks=networks, training=Training(epochs=1)).fit(pairs)
    loaded = f"24 parameters from {small_file}; from scratch: nothing; the hash layer is new"
    assert caplog.messages[0] == "Image network: small, from scratch."
    assert f"Image network: small, {loaded}." in caplog.messages


def test_a_trained_model_needs_its_weight_file_no_more(pairs, small_file, tmp_path):
    networks = Networks(width=8, image_weights=small_file)
    hasher = CHN(8, networks=networks, training=Training(epochs=1)).fit(pairs)
    hasher.save(tmp_path / "model")
    (tmp_path / "small.safetensors").unlink()
    again = Hasher.load(tmp_path / "model")
    scores = again.score_image(pairs.images)
    np.testing.assert_array_equal(scores, hasher.score_image(pairs.images))


@pytest.fixture
def trunk_file(tmp_path):
    state = AlexNet().state_dict()
    path = tmp_path / "trunk.safetensors"
    save_file({name: v for name, v in state.items() if name.startswith("features.")}, path)
    return str(path)


def test_layers_that_a_file_lacks_are_new(trunk_file):
    networks = Networks("alexnet", image_weights=trunk_file)
    network = make_image_network(networks, None, 8)
    said = load_image_weights(network, networks)
    assert said.startswith(f"alexnet, 10 parameters from {trunk_file}; from scratch: classifier.1")
    old, new = parameters_by_origin([network])
    assert len(old) == 10
    assert len(new) == 4 + 2  # fc6, fc7 and the hash layer


def test_a_frozen_network_still_trains_the_layers_that_its_file_lacks(trunk_file):
    networks = Networks("alexnet", image_weights=trunk_file, image_frozen=True)
    network = make_image_network(networks, None, 8)
    load_image_weights(network, networks)
    old, new = parameters_by_origin([network])
    assert (len(old), len(new)) == (0, 4 + 2)  # fc6, fc7 and the hash layer
    network.train()
    assert network.body.classifier[0].training  # their dropout too
    network(torch.rand(2, 3, 64, 64)).sum().backward()
    assert network.body.classifier[1].weight.grad is not None
    assert network.body.features[0].weight.grad is None


def test_a_network_that_is_frozen_as_a_whole_stays_out_of_training_mode(small_file):
    networks = Networks(image_weights=small_file, image_frozen=True)
    network = make_image_network(networks, None, 8)
    load_image_weights(network, networks)
    network.train()
    assert not any(layer.training for layer in network.body.modules())
    assert [parameter.requires_grad for parameter in network.body.parameters()].count(True) == 0


HIDDEN = {"width": 8, "depth": 2, "noise": 0.0, "image_size": 64}


def test_hidden_layers_on_convolutions_are_new(trunk_file):
    networks = Networks("alexnet-pool5", image_weights=trunk_file, **HIDDEN)
    network = make_image_network(networks, None, 8)
    said = load_image_weights(network, networks)
    assert said.startswith(f"alexnet-pool5, 10 parameters from {trunk_file}; from scratch: nothing")
    assert said.endswith("hidden layers and the hash layer are new")
    old, new = parameters_by_origin([network])
    assert (len(old), len(new)) == (10, 4 + 2)


def test_hidden_layers_on_frozen_convolutions_learn_as_they_do_on_their_features(
    pairs, trunk_file, tmp_path
):
    networks = Networks("alexnet-pool5", image_weights=trunk_file, image_frozen=True, **HIDDEN)
    hasher = CHN(8, networks=networks, training=Training(epochs=1)).fit(pairs, pairs)
    body = hasher.image_network_.body
    pixels = body.preprocessing.plain(body.preprocessing.read(pairs.images))
    with torch.no_grad():
        features = body.trunk(torch.from_numpy(pixels))
    torch.testing.assert_close(body.hidden.standardise.mean, features.mean(dim=0))
    start = load_file(trunk_file)["features.0.weight"]
    assert torch.equal(body.trunk.features[0].weight, start)
    hasher.save(tmp_path / "model")
    again = Hasher.load(tmp_path / "model").score_image(pairs.images)
    np.testing.assert_array_equal(again, hasher.score_image(pairs.images))


@pytest.mark.parametrize(
    "networks",
    [Networks("alexnet"), Networks(image_weights="a.pth"), Networks(image_frozen=True)],
)
def test_settings_of_a_picture_network_are_refused_for_vectors(networks):
    with pytest.raises(InputError, match="is for a network that reads pictures, and these images"):
        make_image_network(networks, 12, 8)
