"""Weights: whole files, trunks, files of other networks, and files that are no weights at all."""

import hashlib
import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from corrhash import InputError
from corrhash.networks import weights
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.small import SmallCNN
from corrhash.networks.weights import WEIGHTS, PublishedWeights, load_weights
from tests.networks.file_server import serve
from tests.networks.test_alexnet import PUBLISHED


class Toy(nn.Module):
    """A trunk, a body that may start from scratch, and no head."""

    trunk = ("conv.",)
    left_out = ("head.",)

    def __init__(self):
        super().__init__()
        self.conv = nn.Linear(3, 4)
        self.body = nn.Linear(4, 5)


TRUNK = ("conv.weight", "conv.bias")
BODY = ("body.weight", "body.bias")


@pytest.fixture
def toy():
    return Toy()


def tensors(**shapes):
    generator = torch.Generator().manual_seed(0)
    whole = {"conv.weight": (4, 3), "conv.bias": (4,), "body.weight": (5, 4), "body.bias": (5,)}
    shapes = {name.replace("_", "."): shape for name, shape in shapes.items()}
    return {n: torch.randn(s, generator=generator) for n, s in (whole | shapes).items() if s}


def trunk_only():
    return tensors(body_weight=None, body_bias=None)


def write(path, content):
    (save_file if path.suffix == ".safetensors" else torch.save)(content, path)
    return path


@pytest.mark.parametrize("name", ["toy.pth", "toy.pt", "toy.safetensors"])
def test_a_whole_file_is_loaded_and_its_head_ignored(toy, tmp_path, name):
    content = tensors(head_weight=(10, 5), head_bias=(10,))
    loaded = load_weights(toy, write(tmp_path / name, content))
    assert loaded.loaded == TRUNK + BODY
    assert loaded.from_scratch == ()
    assert all(torch.equal(value, content[key]) for key, value in toy.state_dict().items())


def test_a_trunk_is_loaded_and_the_rest_starts_from_scratch(toy, tmp_path):
    path = write(tmp_path / "trunk.safetensors", trunk_only())
    body = toy.body.weight.clone()
    loaded = load_weights(toy, str(path))
    assert (loaded.loaded, loaded.from_scratch) == (TRUNK, BODY)
    assert str(loaded) == f"2 parameters from {path}; from scratch: body.weight, body.bias"
    assert torch.equal(toy.body.weight, body)
    assert torch.equal(toy.conv.weight, trunk_only()["conv.weight"])


def test_the_published_layout_of_alexnet_is_loaded(tmp_path):
    layout = PUBLISHED | {"classifier.6.weight": (1000, 4096), "classifier.6.bias": (1000,)}
    # Every tensor repeats one number, so that the file is small.
    content = {name: torch.full((1,), 0.5).expand(shape) for name, shape in layout.items()}
    network = AlexNet()
    loaded = load_weights(network, write(tmp_path / "alexnet.pth", content))
    assert loaded.loaded == tuple(PUBLISHED)
    assert loaded.from_scratch == ()
    assert (network.classifier[4].weight == 0.5).all()


def test_a_network_without_a_trunk_needs_every_parameter(tmp_path):
    content = SmallCNN().state_dict()
    network = SmallCNN()
    loaded = load_weights(network, write(tmp_path / "small.pth", content))
    assert loaded.loaded == tuple(content)
    assert torch.equal(network.features[0].weight, content["features.0.weight"])
    content.pop("features.4.running_var")
    with pytest.raises(InputError, match="lacks 'features.4.running_var', which SmallCNN needs"):
        load_weights(network, write(tmp_path / "part.pth", content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tensors(conv_bias=None), "lacks 'conv.bias', which Toy needs"),
        ({}, "lacks 'conv.weight'"),
        (tensors(conv_weight=(4, 7)), r"'conv.weight' is \(4, 7\) in .*, but \(4, 3\) in Toy"),
        (tensors(body_weight=(2, 2)), r"'body.weight' is \(2, 2\)"),
        (tensors(extra_weight=(2,)), "holds 'extra.weight', which Toy does not have"),
    ],
)
def test_a_file_of_another_network_is_refused_and_changes_nothing(toy, tmp_path, content, message):
    before = {name: value.clone() for name, value in toy.state_dict().items()}
    with pytest.raises(InputError, match=f"{message}.*Give weights of Toy"):
        load_weights(toy, write(tmp_path / "other.pth", content))
    assert all(torch.equal(value, before[name]) for name, value in toy.state_dict().items())


def test_weights_that_are_not_finite_are_refused(toy, tmp_path):
    content = tensors()
    content["body.bias"][2] = torch.nan
    with pytest.raises(InputError, match="'body.bias' in .* is not finite"):
        load_weights(toy, write(tmp_path / "toy.pth", content))


@pytest.mark.parametrize("name", ["toy.pth", "toy.safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.95])
def test_a_truncated_file_is_refused(toy, tmp_path, name, share):
    path = write(tmp_path / name, tensors())
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=f"{name} cannot be read as weights: .*again"):
        load_weights(toy, path)


@pytest.mark.parametrize("name", ["page.pth", "page.safetensors"])
def test_a_web_page_under_the_name_of_weights_is_refused(toy, tmp_path, name):
    (tmp_path / name).write_text("<html>Sign in first</html>")
    with pytest.raises(InputError, match=f"{name} cannot be read as weights"):
        load_weights(toy, tmp_path / name)


class Trap:
    """Unpickling this would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickled_code_is_refused_and_not_run(toy, tmp_path):
    sprung = tmp_path / "sprung"
    torch.save({"conv.weight": Trap(sprung)}, tmp_path / "zipped.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Trap(sprung)))
    for name in ("zipped.pth", "plain.pth"):
        with pytest.raises(
            InputError, match=f"{name} cannot be read as weights.*never run.*state_dict"
        ):
            load_weights(toy, tmp_path / name)
    assert not sprung.exists()


def test_what_is_no_table_of_tensors_is_refused(toy, tmp_path):
    for content in ([1, 2], {"epoch": 3, "state_dict": tensors()}):
        path = write(tmp_path / "run.pth", content)
        with pytest.raises(InputError, match="not a table of tensors.*state_dict"):
            load_weights(toy, path)


def test_what_does_not_exist_is_refused(toy, tmp_path):
    with pytest.raises(InputError, match="no weights 'vgg'.*one of: alexnet-imagenet"):
        load_weights(toy, "vgg")
    (tmp_path / "weights.bin").write_bytes(b"?")
    with pytest.raises(InputError, match=r"end in .pth, .pt or .safetensors. Got .*weights.bin"):
        load_weights(toy, tmp_path / "weights.bin")


def test_published_weights_carry_the_beginning_of_their_checksum():
    assert "alexnet-imagenet" in WEIGHTS
    for published in WEIGHTS.values():
        assert f"-{published.sha256}.pth" in published.url


def test_a_name_is_downloaded_once_and_loaded(toy, tmp_path, monkeypatch):
    path = write(tmp_path / "toy.pth", tensors())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    with serve(path.read_bytes()) as server:
        published = PublishedWeights(f"{server.url}/toy.pth", digest[:8])
        monkeypatch.setitem(weights.WEIGHTS, "toy", published)
        assert load_weights(toy, "toy").loaded == TRUNK + BODY
        assert load_weights(toy, "toy").source == "toy"
        assert len(server.requests) == 1
    assert (tmp_path / "cache" / "toy.pth").exists()
