"""The device is a choice of each run: an argument, a variable, or the best available."""

import json

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash._model_files import CHECKSUM, write_json
from corrhash.datasets import make_pairs
from corrhash.methods.base import Hasher
from corrhash.methods.chn import CHN
from corrhash.networks.config import Networks
from corrhash.networks.device import VARIABLE, default_device, training_threads, use_device
from corrhash.training.config import Training


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


@pytest.fixture
def machine(monkeypatch):
    """Pretend that the machine has other devices."""

    def pretend(n_gpus=0, mps=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("n_gpus", "mps", "best"), [(2, True, "cuda"), (0, True, "mps"), (0, False, "cpu")]
)
def test_the_best_available_device_is_the_default(machine, n_gpus, mps, best):
    machine(n_gpus, mps)
    assert default_device() == torch.device(best)


def test_an_argument_overrides_the_variable(machine, monkeypatch):
    machine(n_gpus=2)
    monkeypatch.setenv(VARIABLE, "cuda:1")
    assert default_device() == torch.device("cuda:1")
    with use_device("cpu"):
        assert default_device() == torch.device("cpu")
        with use_device(None):
            assert default_device() == torch.device("cpu")
    assert default_device() == torch.device("cuda:1")


@pytest.mark.parametrize("name", ["tpu", "cuda:x", "cpu:0 ", "CUDA"])
def test_unknown_devices_are_refused(name, monkeypatch):
    with pytest.raises(InputError, match=f"Unknown device '{name}'. Choose cpu"), use_device(name):
        pass
    monkeypatch.setenv(VARIABLE, name)
    with pytest.raises(InputError, match=f"Unknown device '{name}'"):
        default_device()


@pytest.mark.parametrize(("name", "n_gpus"), [("cuda", 0), ("cuda:2", 2), ("mps", 2)])
def test_devices_the_machine_lacks_are_refused(machine, name, n_gpus):
    machine(n_gpus)
    with use_device(name), pytest.raises(InputError, match=f"'{name}' is not available on this"):
        default_device()


def test_each_process_gets_the_gpu_of_its_local_rank(machine, monkeypatch):
    machine(n_gpus=2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert default_device() == torch.device("cuda:1")
    with use_device("cuda:0"):
        assert default_device() == torch.device("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(InputError, match="2 GPUs, too few for the process with local rank 2"):
        default_device()


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(60)


@pytest.fixture
def hasher(pairs):
    return CHN(8, networks=Networks(width=8), training=Training(epochs=1)).fit(pairs)


def test_a_model_does_not_store_its_device(hasher, tmp_path):
    hasher.save(tmp_path)
    assert "device" not in (tmp_path / "hasher.json").read_text()


def test_a_model_with_a_stored_device_is_refused(hasher, tmp_path):
    hasher.save(tmp_path)
    path = tmp_path / "hasher.json"
    description = json.loads(path.read_text())
    description["params"]["training"]["device"] = "cuda"
    content = {name: v for name, v in description.items() if name not in ("format", CHECKSUM)}
    write_json(tmp_path, path.name, description["format"], content)
    with pytest.raises(InputError, match="parameters of another version .*'device'"):
        Hasher.load(tmp_path)


def test_training_and_encoding_use_the_chosen_device(hasher, pairs, machine):
    machine(n_gpus=0)
    pixels = np.zeros((4, 32, 32, 3), np.uint8)
    settings = {"networks": Networks(width=8), "training": Training(epochs=1)}
    on_pixels = CHN(8, **settings).fit(pixels, np.eye(4, 8), np.eye(4, dtype=int))
    with use_device("cuda"):
        for compute in (lambda: hasher.fit(pairs), lambda: on_pixels.encode_image(pixels)):
            with pytest.raises(InputError, match="'cuda' is not available"):
                compute()
        assert len(hasher.encode_image(pairs.images)) == len(pairs)  # vectors use NumPy
    assert len(on_pixels.encode_image(pixels)) == 4


def test_small_networks_are_trained_on_one_thread(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with training_threads(torch.nn.Linear(10, 10)):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        monkeypatch.setattr("corrhash.networks.device.SMALL", 100)
        with training_threads(torch.nn.Linear(10, 10)):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
