"""Downloads of weights, and loading them into networks."""

import hashlib
import pickle
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from corrhash import InputError
from corrhash._progress import listening
from corrhash.networks import weights
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.small_cnn import SmallCNN
from corrhash.networks.weights import WEIGHTS, PublishedWeights, download, load_weights
from tests.networks.file_server import serve
from tests.networks.test_alexnet import PUBLISHED

CONTENT = np.random.default_rng(0).bytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _no_proxy_and_short_timeout(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("CORRHASH_OFFLINE")
    monkeypatch.setattr(weights, "TIMEOUT", 5.0)


def test_downloads_are_announced_and_can_be_refused(tmp_path, monkeypatch, caplog):
    with serve(CONTENT) as server:
        download(f"{server.url}/weights.pth", SHA256, tmp_path)
        assert f"Downloading {server.url}/weights.pth: 3 MB." in caplog.text
        monkeypatch.setenv("CORRHASH_OFFLINE", "1")
        download(f"{server.url}/weights.pth", SHA256, tmp_path)
        with pytest.raises(InputError, match=r"other.pth is not on this machine, and downloads"):
            download(f"{server.url}/other.pth", SHA256, tmp_path)


@pytest.mark.parametrize("digits", [8, 64])
def test_a_file_is_downloaded_once(tmp_path, digits):
    with serve(CONTENT) as server:
        for _ in range(2):
            path = download(f"{server.url}/w.pth", SHA256[:digits], tmp_path / "new")
        assert len(server.requests) == 1
    assert path == tmp_path / "new" / "w.pth"
    assert path.read_bytes() == CONTENT
    assert not (tmp_path / "new" / ".w.pth.part").exists()


def test_downloads_report_megabytes(tmp_path):
    steps = []
    with serve(CONTENT) as server, listening(steps.append):
        download(f"{server.url}/w.pth", SHA256, tmp_path)
    assert steps[0].task == "Downloading w.pth (MB)"
    assert (steps[-1].done, steps[-1].total) == (3, 3)
    assert len(steps) >= 3


def test_a_broken_download_is_resumed(tmp_path):
    with serve(CONTENT, breaks_after=1_200_000) as server:
        with pytest.raises(InputError, match=r"broke after 1,200,000 of 3,000,000.*to resume"):
            download(f"{server.url}/w.pth", SHA256, tmp_path)
        assert not (tmp_path / "w.pth").exists()
        server.breaks_after = None
        assert download(f"{server.url}/w.pth", SHA256, tmp_path).read_bytes() == CONTENT
        assert server.requests == [None, "bytes=1200000-"]


def test_a_server_that_cannot_resume_starts_over(tmp_path):
    (tmp_path / ".w.pth.part").write_bytes(CONTENT[:1000])
    with serve(CONTENT, resumes=False) as server:
        assert download(f"{server.url}/w.pth", SHA256, tmp_path).read_bytes() == CONTENT


def test_a_complete_partial_file_is_used(tmp_path):
    (tmp_path / ".w.pth.part").write_bytes(CONTENT)
    with serve(CONTENT) as server:
        assert download(f"{server.url}/w.pth", SHA256, tmp_path).read_bytes() == CONTENT


def test_a_damaged_cached_file_is_downloaded_again(tmp_path):
    (tmp_path / "w.pth").write_bytes(CONTENT[:-1])
    with serve(CONTENT) as server:
        assert download(f"{server.url}/w.pth", SHA256, tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_and_removed(tmp_path):
    other = hashlib.sha256(b"other").hexdigest()
    message = f"starts with {SHA256[:8]}, not with {other[:8]}. It was removed"
    with serve(CONTENT) as server, pytest.raises(InputError, match=message):
        download(f"{server.url}/w.pth", other[:8], tmp_path)
    assert not list(tmp_path.glob("*w.pth"))
    assert not list(tmp_path.glob(".w.pth.part"))


def test_concurrent_calls_share_one_download(tmp_path):
    with serve(CONTENT) as server, ThreadPoolExecutor(4) as threads:
        asked = [
            threads.submit(download, f"{server.url}/w.pth", SHA256, tmp_path) for _ in range(4)
        ]
        assert all(each.result().read_bytes() == CONTENT for each in asked)
        assert len(server.requests) == 1


def test_a_missing_url_is_refused(tmp_path):
    message = r"Cannot download http.*w.pth into .*: Not Found. Try again"
    with serve(b"", status=404) as server, pytest.raises(InputError, match=message):
        download(f"{server.url}/w.pth", SHA256, tmp_path)


def test_an_unreachable_server_is_refused(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/w.pth"
        with pytest.raises(InputError, match=r"Cannot download .*refused.*pass its path"):
            download(url, SHA256, tmp_path)


def test_a_silent_server_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/w.pth"
        with pytest.raises(InputError, match="timed out.*pass its path"):
            download(url, SHA256, tmp_path)


def test_a_folder_that_cannot_be_created_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"Cannot download .* into .*file/cache"):
        download("http://127.0.0.1:9/w.pth", SHA256, tmp_path / "file" / "cache")


class Toy(nn.Module):
    """A backbone, a body that may start from scratch, and no head."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Linear(3, 4)
        self.body = nn.Linear(4, 5)


PREFIXES = {"required": ("conv.",), "ignored": ("head.",)}
BACKBONE = ("conv.weight", "conv.bias")
BODY = ("body.weight", "body.bias")


@pytest.fixture
def toy():
    return Toy()


def tensors(**shapes):
    generator = torch.Generator().manual_seed(0)
    whole = {"conv.weight": (4, 3), "conv.bias": (4,), "body.weight": (5, 4), "body.bias": (5,)}
    shapes = {name.replace("_", "."): shape for name, shape in shapes.items()}
    return {n: torch.randn(s, generator=generator) for n, s in (whole | shapes).items() if s}


def backbone_only():
    return tensors(body_weight=None, body_bias=None)


def write(path, content):
    (save_file if path.suffix == ".safetensors" else torch.save)(content, path)
    return path


@pytest.mark.parametrize("name", ["toy.pth", "toy.pt", "toy.safetensors"])
def test_a_complete_file_is_loaded_without_its_head(toy, tmp_path, name):
    content = tensors(head_weight=(10, 5), head_bias=(10,))
    loaded = load_weights(toy, write(tmp_path / name, content), **PREFIXES)
    assert loaded.loaded == BACKBONE + BODY
    assert loaded.from_scratch == ()
    assert all(torch.equal(value, content[key]) for key, value in toy.state_dict().items())


def test_missing_optional_parameters_start_from_scratch(toy, tmp_path):
    path = write(tmp_path / "backbone.safetensors", backbone_only())
    body = toy.body.weight.clone()
    loaded = load_weights(toy, str(path), **PREFIXES)
    assert (loaded.loaded, loaded.from_scratch) == (BACKBONE, BODY)
    assert str(loaded) == f"2 parameters from {path}; from scratch: body.weight, body.bias"
    assert torch.equal(toy.body.weight, body)
    assert torch.equal(toy.conv.weight, backbone_only()["conv.weight"])


def test_torchvision_alexnet_weights_are_loaded(tmp_path):
    layout = PUBLISHED | {"classifier.6.weight": (1000, 4096), "classifier.6.bias": (1000,)}
    # Every tensor repeats one number, so that the file is small.
    content = {name: torch.full((1,), 0.5).expand(shape) for name, shape in layout.items()}
    network = AlexNet()
    loaded = network.load_weights(write(tmp_path / "alexnet.pth", content))
    assert loaded.loaded == tuple(PUBLISHED)
    assert loaded.from_scratch == ()
    assert (network.classifier[4].weight == 0.5).all()


def test_all_parameters_are_required_by_default(tmp_path):
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
        (
            tensors(conv_weight=(4, 7)),
            r"'conv.weight' has shape \(4, 7\) in .*, but \(4, 3\) in Toy",
        ),
        (tensors(body_weight=(2, 2)), r"'body.weight' has shape \(2, 2\)"),
        (tensors(extra_weight=(2,)), "contains 'extra.weight', which Toy does not have"),
    ],
)
def test_weights_of_another_network_change_nothing(toy, tmp_path, content, message):
    before = {name: value.clone() for name, value in toy.state_dict().items()}
    with pytest.raises(InputError, match=f"{message}.*Pass weights of Toy"):
        load_weights(toy, write(tmp_path / "other.pth", content), **PREFIXES)
    assert all(torch.equal(value, before[name]) for name, value in toy.state_dict().items())


def test_weights_must_be_finite(toy, tmp_path):
    content = tensors()
    content["body.bias"][2] = torch.nan
    with pytest.raises(InputError, match="'body.bias' in .* is not finite"):
        load_weights(toy, write(tmp_path / "toy.pth", content), **PREFIXES)


@pytest.mark.parametrize("name", ["toy.pth", "toy.safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.95])
def test_a_truncated_file_is_refused(toy, tmp_path, name, share):
    path = write(tmp_path / name, tensors())
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=f"Cannot read weights from .*{name}: .*again"):
        load_weights(toy, path, **PREFIXES)


@pytest.mark.parametrize("name", ["page.pth", "page.safetensors"])
def test_a_web_page_named_like_weights_is_refused(toy, tmp_path, name):
    (tmp_path / name).write_text("<html>Sign in first</html>")
    with pytest.raises(InputError, match=f"Cannot read weights from .*{name}"):
        load_weights(toy, tmp_path / name, **PREFIXES)


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
            InputError, match=f"Cannot read weights from .*{name}.*not run.*state_dict"
        ):
            load_weights(toy, tmp_path / name, **PREFIXES)
    assert not sprung.exists()


def test_files_without_a_dictionary_of_tensors_are_refused(toy, tmp_path):
    for content in ([1, 2], {"epoch": 3, "state_dict": tensors()}):
        path = write(tmp_path / "run.pth", content)
        with pytest.raises(InputError, match="not a dictionary of tensors.*state_dict"):
            load_weights(toy, path, **PREFIXES)


def test_missing_and_unknown_files_are_refused(toy, tmp_path):
    with pytest.raises(InputError, match="Weights 'vgg' not found.*one of: alexnet-imagenet"):
        load_weights(toy, "vgg", **PREFIXES)
    (tmp_path / "weights.bin").write_bytes(b"?")
    with pytest.raises(InputError, match=r"end in .pth, .pt or .safetensors, got .*weights.bin"):
        load_weights(toy, tmp_path / "weights.bin", **PREFIXES)


def test_published_urls_contain_their_checksum():
    assert "alexnet-imagenet" in WEIGHTS
    for published in WEIGHTS.values():
        assert f"-{published.sha256}.pth" in published.url


def test_weights_by_name_are_downloaded_once(toy, tmp_path, monkeypatch):
    path = write(tmp_path / "toy.pth", tensors())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    with serve(path.read_bytes()) as server:
        published = PublishedWeights(f"{server.url}/toy.pth", digest[:8])
        monkeypatch.setitem(weights.WEIGHTS, "toy", published)
        assert load_weights(toy, "toy", **PREFIXES).loaded == BACKBONE + BODY
        assert load_weights(toy, "toy", **PREFIXES).source == "toy"
        assert len(server.requests) == 1
    assert (tmp_path / "cache" / "toy.pth").exists()
