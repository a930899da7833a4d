"""Hashing networks: pretrained weights, frozen parts, heads on backbones."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from corrhash import InputError
from corrhash.datasets import PairedDataset
from corrhash.methods import Hasher
from corrhash.methods.chn import CHN
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.config import Networks
from corrhash.networks.hashing_network import (
    load_image_weights,
    make_image_network,
    outputs,
    split_pretrained,
    to_device,
)
from corrhash.networks.inputs import VectorInputs
from corrhash.networks.small_cnn import SmallCNN
from corrhash.training.config import Training


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


def test_feature_noise_is_active_in_training_only():
    features = torch.ones(4, 6)
    network = make_image_network(Networks(width=8, dropout=0.0, noise=0.5), 6, n_bits=4)
    network.train()
    assert not torch.equal(network(features), network(features))
    network.eval()
    assert torch.equal(network(features), network(features))
    clear = make_image_network(Networks(width=8, dropout=0.0, noise=0.0), 6, n_bits=4).train()
    assert torch.equal(clear(features), clear(features))


def test_another_image_size_is_trained_and_encoded(pairs, tmp_path):
    networks = Networks(width=8, image_size=32)
    hasher = CHN(8, networks=networks, training=Training(epochs=1)).fit(pairs)
    assert hasher.image_network_.body.preprocessing.crop == 32
    assert SmallCNN.preprocessing.crop == 64
    hasher.save(tmp_path)
    codes = [h.encode_image(pairs.images).packed for h in (hasher, Hasher.load(tmp_path))]
    np.testing.assert_array_equal(*codes)
    with pytest.raises(InputError, match="has a fixed image size, got image_size=96"):
        make_image_network(Networks(image="hf:some/vit", image_size=96), None, n_bits=8)


def test_training_logs_the_origin_of_the_image_network(pairs, small_file, caplog):
    caplog.set_level("INFO", "corrhash")
    for weights in (None, small_file):
        networks = Networks(width=8, image_weights=weights)
        CHN(8, networks=networks, training=Training(epochs=1)).fit(pairs)
    loaded = f"24 parameters from {small_file}; from scratch: nothing; the hash layer is new"
    assert caplog.messages[0] == "Image network: SmallCNN, from scratch."
    assert f"Image network: small, {loaded}." in caplog.messages


def test_a_trained_model_does_not_need_its_weights_file(pairs, small_file, tmp_path):
    networks = Networks(width=8, image_weights=small_file)
    hasher = CHN(8, networks=networks, training=Training(epochs=1)).fit(pairs)
    hasher.save(tmp_path / "model")
    (tmp_path / "small.safetensors").unlink()
    again = Hasher.load(tmp_path / "model")
    continuous = again.embed_image(pairs.images)
    np.testing.assert_array_equal(continuous, hasher.embed_image(pairs.images))


@pytest.fixture
def backbone_file(tmp_path):
    state = AlexNet().state_dict()
    path = tmp_path / "backbone.safetensors"
    save_file({name: v for name, v in state.items() if name.startswith("features.")}, path)
    return str(path)


def test_layers_missing_from_the_file_are_new(backbone_file):
    networks = Networks("alexnet", image_weights=backbone_file)
    network = make_image_network(networks, None, 8)
    message = load_image_weights(network, networks)
    assert message.startswith(
        f"alexnet, 10 parameters from {backbone_file}; from scratch: classifier.1"
    )
    old, new = split_pretrained([network])
    assert len(old) == 10
    assert len(new) == 4 + 2  # fc6, fc7 and the hash layer


def test_frozen_networks_train_layers_missing_from_the_file(backbone_file):
    networks = Networks("alexnet", image_weights=backbone_file, image_frozen=True)
    network = make_image_network(networks, None, 8)
    load_image_weights(network, networks)
    old, new = split_pretrained([network])
    assert (len(old), len(new)) == (0, 4 + 2)  # fc6, fc7 and the hash layer
    network.train()
    assert network.body.classifier[0].training  # their dropout too
    network(torch.rand(2, 3, 64, 64)).sum().backward()
    assert network.body.classifier[1].weight.grad is not None
    assert network.body.features[0].weight.grad is None


def test_a_fully_frozen_body_stays_in_evaluation_mode(small_file):
    networks = Networks(image_weights=small_file, image_frozen=True)
    network = make_image_network(networks, None, 8)
    load_image_weights(network, networks)
    network.train()
    assert not any(layer.training for layer in network.body.modules())
    assert [parameter.requires_grad for parameter in network.body.parameters()].count(True) == 0


HIDDEN = {"width": 8, "depth": 2, "noise": 0.0, "image_size": 64}


def test_the_head_on_a_backbone_is_new(backbone_file):
    networks = Networks("alexnet-pool5", image_weights=backbone_file, **HIDDEN)
    network = make_image_network(networks, None, 8)
    message = load_image_weights(network, networks)
    assert message.startswith(
        f"alexnet-pool5, 10 parameters from {backbone_file}; from scratch: head."
    )
    assert message.endswith("the hash layer is new")
    old, new = split_pretrained([network])
    assert (len(old), len(new)) == (10, 4 + 2)


def test_a_frozen_backbone_is_standardized_and_unchanged(pairs, backbone_file, tmp_path):
    networks = Networks("alexnet-pool5", image_weights=backbone_file, image_frozen=True, **HIDDEN)
    hasher = CHN(8, networks=networks, training=Training(epochs=1)).fit(pairs, validation=pairs)
    body = hasher.image_network_.body
    pixels = body.preprocessing.plain(body.preprocessing.read(pairs.images))
    with torch.no_grad():
        features = body.backbone(torch.from_numpy(pixels))
    torch.testing.assert_close(body.head.standardize.mean, features.mean(dim=0))
    start = load_file(backbone_file)["features.0.weight"]
    assert torch.equal(body.backbone.features[0].weight, start)
    hasher.save(tmp_path / "model")
    again = Hasher.load(tmp_path / "model").embed_image(pairs.images)
    np.testing.assert_array_equal(again, hasher.embed_image(pairs.images))


@pytest.mark.parametrize(
    "networks",
    [Networks("alexnet"), Networks(image_weights="a.pth"), Networks(image_frozen=True)],
)
def test_backbone_settings_are_refused_for_feature_vectors(networks):
    with pytest.raises(InputError, match=r"^networks\.image\w* applies to images, got "):
        make_image_network(networks, 12, 8)


def test_frozen_networks_need_weights():
    with pytest.raises(InputError, match="networks.image_frozen needs pretrained weights"):
        make_image_network(Networks(image_frozen=True), None, 8)


def test_arrays_and_tensors_are_moved_to_a_device():
    meta = torch.device("meta")  # a device without memory, which every machine has
    tensor = torch.ones(2)
    assert to_device(tensor, meta).device == meta
    assert to_device(np.ones(2), meta).device == meta
    assert to_device({"a": tensor}, meta)["a"].device == meta


CPU = torch.device("cpu")


@pytest.mark.parametrize("n", [0, 1, 4, 5, 9])
def test_outputs_come_from_batches_of_one_size(n):
    sizes = []

    def double(batch):
        sizes.append(len(batch))
        return 2 * batch

    values = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    found = outputs(double, VectorInputs(values), n, 3, size=4, device=CPU)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, 2 * values)
    assert sizes == [4] * -(-n // 4)


def test_progress_is_told_after_each_batch():
    reported = []
    inputs = VectorInputs(np.ones((5, 1)))
    outputs(lambda batch: batch, inputs, 5, 1, size=2, device=CPU, progress=reported.append)
    assert reported == [2, 4, 5]
