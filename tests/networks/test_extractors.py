"""Features are the outputs of the network for each image alone, under descriptive names."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from corrhash import InputError
from corrhash._progress import listening
from corrhash.networks import weights
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.device import use_device
from corrhash.networks.extractors import AlexNetFeatures, HubFeatures, open_backbone
from corrhash.networks.transformers import HubImageEncoder
from corrhash.networks.weights import PublishedWeights
from tests.networks.file_server import serve
from tests.networks.test_alexnet import PUBLISHED
from tests.networks.test_transformers import MAKERS, save_bert


@pytest.fixture(scope="module")
def convolutions():
    """Random weights of the convolutions, of the real sizes."""
    torch.manual_seed(0)
    return {name: v for name, v in AlexNet().state_dict().items() if name.startswith("features.")}


@pytest.fixture(scope="module")
def backbone_file(convolutions, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "backbone.safetensors"
    save_file(convolutions, path)
    return path


@pytest.fixture(scope="module")
def whole_file(convolutions, tmp_path_factory):
    """The published layout; fc6 and fc7 repeat one number, so that the file is small."""
    shapes = PUBLISHED | {"classifier.6.weight": (1000, 4096), "classifier.6.bias": (1000,)}
    numbers = {"classifier.1.weight": 1e-3, "classifier.4.weight": 1e-4}
    content = {
        name: torch.full((1,), numbers.get(name, 0.0)).expand(shape)
        for name, shape in shapes.items()
    }
    path = tmp_path_factory.mktemp("weights") / "alexnet.pth"
    torch.save(content | convolutions, path)
    return path


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (19, 70, 90, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def pool5(backbone_file):
    return open_backbone("alexnet-pool5", str(backbone_file))


def test_features_do_not_depend_on_the_batch(pool5, images):
    together = pool5.compute(images)
    assert together.shape == (19, 9216)
    assert together.dtype == np.float32
    np.testing.assert_array_equal(pool5.compute(images[17:18])[0], together[17])
    np.testing.assert_array_equal(pool5.compute(list(images[3:6])), together[3:6])


@torch.no_grad()
def test_features_are_the_output_of_the_stage(pool5, images, convolutions):
    network = AlexNet().eval()
    network.load_state_dict(convolutions, strict=False)
    plan = AlexNet.preprocessing
    expected = network(torch.from_numpy(plan.plain(plan.read(images[:3]))), stage="pool5")
    np.testing.assert_allclose(pool5.compute(images[:3]), expected, rtol=1e-4, atol=1e-5)


def test_no_images_give_no_features(pool5, images):
    assert pool5.compute(images[:0]).shape == (0, 9216)


def test_progress_counts_images_done_before(pool5, images):
    steps = []
    with listening(steps.append):
        pool5.compute(images, done=100, total=200)
    assert [(s.done, s.total) for s in steps] == [(116, 200), (119, 200)]


@pytest.mark.parametrize(("stage", "layer"), [("fc6", "classifier.1"), ("fc7", "classifier.1")])
def test_stages_missing_from_the_weights_are_refused(backbone_file, images, stage, layer):
    features = open_backbone(f"alexnet-{stage}", str(backbone_file))
    message = f"lacks '{layer}.weight', which alexnet-{stage} needs. Use alexnet-pool5"
    with pytest.raises(InputError, match=message):
        features.compute(images[:1])


def test_published_weights_are_downloaded_once(whole_file, images, tmp_path, monkeypatch):
    monkeypatch.delenv("CORRHASH_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path))
    content = whole_file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    with serve(content) as server:
        published = PublishedWeights(f"{server.url}/alexnet.pth", digest[:8])
        monkeypatch.setitem(weights.WEIGHTS, "alexnet-imagenet", published)
        fc7 = open_backbone("alexnet-fc7", "alexnet-imagenet")
        features = fc7.compute(images[:2])
        assert len(server.requests) == 1
    assert fc7.sha256 == digest
    # fc6 is 1e-3 times the sum of pool5 in all its units, fc7 1e-4 times the sum of those.
    pool5 = open_backbone("alexnet-pool5", str(whole_file)).compute(images[:2])
    sums = 1e-4 * 4096 * 1e-3 * pool5.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(features, np.repeat(sums, 4096, axis=1), rtol=1e-3)


def test_the_key_depends_on_layer_weights_and_preprocessing(
    pool5, backbone_file, convolutions, tmp_path
):
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(backbone_file.read_bytes())
    other = tmp_path / "other.safetensors"
    save_file(convolutions | {"features.0.bias": torch.ones(64)}, other)
    assert pool5.key.startswith("alexnet-pool5-")
    assert AlexNetFeatures("pool5", str(copy)).key == pool5.key
    keys = {
        AlexNetFeatures("pool5", str(other)).key,
        AlexNetFeatures("fc6", str(copy)).key,
        pool5.key,
    }

    class Larger(AlexNetFeatures):
        preprocessing = replace(AlexNet.preprocessing, resize=300)

    assert len(keys | {Larger("pool5", str(copy)).key}) == 4


def test_the_global_random_state_is_unchanged(backbone_file, images):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    open_backbone("alexnet-pool5", str(backbone_file)).compute(images[:1])
    torch.testing.assert_close(torch.rand(3), expected)


def test_the_device_is_checked_before_weights_are_read(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with use_device("cuda"), pytest.raises(InputError, match="'cuda' is not available"):
        open_backbone("alexnet-fc7", "nowhere.pth")


@torch.no_grad()
def test_hub_features_are_the_pooled_output(vit_folder, images):
    features = open_backbone(f"hf:{vit_folder}", None)
    encoder = HubImageEncoder(vit_folder)
    plan = encoder.preprocessing
    expected = encoder(torch.from_numpy(plan.plain(plan.read(images))))
    together = features.compute(images)
    np.testing.assert_allclose(together, expected, atol=1e-5)
    np.testing.assert_array_equal(features.compute(images[17:18])[0], together[17])
    assert features.key.startswith(f"hf-{vit_folder.name}-")


def test_the_checksum_of_an_encoder_follows_its_files(library, tmp_path):
    def names():
        features = HubFeatures(str(tmp_path))
        return features.sha256, features.key

    MAKERS["vit"](library, tmp_path)
    before = names()
    (tmp_path / "tokenizer.json").write_text("{}")  # not used for images
    assert names() == before
    processor = json.loads((tmp_path / "preprocessor_config.json").read_text())
    processor["image_mean"] = [0.1, 0.2, 0.3]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    prepared = names()
    MAKERS["vit"](library, tmp_path)  # with other random weights
    trained = names()
    for kind in range(2):
        assert len({before[kind], prepared[kind], trained[kind]}) == 3


def test_sharded_weights_have_one_checksum(library, tmp_path):
    model = library.ViTModel(library.ViTConfig(hidden_size=16, num_hidden_layers=1, image_size=32))
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    before = HubFeatures(str(tmp_path)).sha256
    last = max(tmp_path.glob("model-*.safetensors"))
    last.write_bytes(last.read_bytes()[:-1] + b"?")
    assert HubFeatures(str(tmp_path)).sha256 != before


def test_a_folder_without_an_image_encoder_is_refused(library, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=r"has no weights \(model.safetensors or pytorch_model"):
        _ = HubFeatures(str(tmp_path)).sha256
    save_bert(library, tmp_path)
    with pytest.raises(InputError, match="Cannot load .* with AutoImageProcessor"):
        _ = HubFeatures(str(tmp_path)).key
