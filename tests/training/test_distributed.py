"""Several processes train as one: equal losses, and checkpoints that any number resumes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed

from corrhash import InputError
from corrhash.methods.chn import CHN, Networks
from corrhash.model import load_model
from corrhash.training.distributed import Processes
from corrhash.training.trainer import Trainer
from tests.training import as_processes

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def alone(task, folder, checkpoint=None):
    as_processes.main(task, folder / "alone", checkpoint)
    return read(folder / "alone.0")


def by_two(task, folder, checkpoint=None):
    """Return the result of two processes, which must be the same in both."""
    script = Path(as_processes.__file__)
    arguments = [str(a) for a in (script, task, folder / "two", checkpoint) if a is not None]
    subprocess.run([*TORCHRUN, *arguments], check=True, timeout=300)
    first, second = (read(folder / f"two.{rank}") for rank in (0, 1))
    assert first["processes"] == 2
    assert first == second
    return first


def read(path):
    return json.loads(path.read_text())


def test_two_processes_have_the_losses_of_one(tmp_path):
    one, two = alone("losses", tmp_path), by_two("losses", tmp_path)
    for (name, dtype), n_steps in as_processes.N_STEPS.items():
        pair = one[f"{name} {dtype}"], two[f"{name} {dtype}"]
        assert [len(losses) for losses in pair] == [n_steps, n_steps]
        assert len(set(pair[0])) == n_steps
        tolerance = 1e-8 if dtype == "float64" else 1e-5  # relative: CHN sums over pairs
        np.testing.assert_allclose(pair[1], pair[0], rtol=tolerance, atol=0, err_msg=name)


@pytest.mark.parametrize(
    ("begin", "end"), [(alone, by_two), (by_two, alone)], ids=["one, then two", "two, then one"]
)
def test_another_number_of_processes_resumes(begin, end, tmp_path):
    whole = alone("finished", tmp_path)
    checkpoint = str(tmp_path / "checkpoint")
    assert begin("interrupted", tmp_path, checkpoint)["checkpoint"]["epochs_done"] == 3
    ended = end("finished", tmp_path, checkpoint)
    np.testing.assert_allclose(ended["scores"], whole["scores"], atol=1e-3)
    for name in ("loss", "validation_map"):
        expected, found = (
            [entry[name] for entry in run["history"] if name in entry] for run in (whole, ended)
        )
        assert len(found) == (6 if name == "loss" else 3)
        np.testing.assert_allclose(found, expected, atol=1e-3)


def test_one_of_several_processes_prints_and_saves(tmp_path):
    quick = ["--set", "training.epochs=2", "--set", "networks.width=16", "--data", "n=780"]
    train = ["-m", "corrhash", "train", "synthetic", "--bits", "16", *quick]
    ran = subprocess.run(
        [*TORCHRUN, *train, "--out", tmp_path / "model"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.count("Trained CHNPlus, 16 bits") == 1
    assert load_model(tmp_path / "model").hasher.n_bits == 16
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_shares_of_a_batch_are_in_order_and_complete():
    for n_rows in (0, 1, 5, 64):
        parts = [Processes(rank, 3).share(np.arange(n_rows)) for rank in range(3)]
        np.testing.assert_array_equal(np.concatenate(parts), np.arange(n_rows))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_one_process_passes_everything_through(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    only = Processes.join(torch.device("cpu"))
    codes, network = torch.ones(3, 2), torch.nn.Linear(2, 2)
    assert (only, only.is_first) == (Processes(0, 1), True)
    assert only.gather(codes, 3) is codes
    assert only.data_parallel(network) is network
    assert only.broadcast(codes) is codes


@pytest.fixture
def joined(monkeypatch):
    """Two processes without a network between them: the backend and the GPU that were chosen."""
    chosen = {}
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(distributed, "init_process_group", lambda b: chosen.update(backend=b))
    monkeypatch.setattr(distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: chosen.update(gpu=device))
    return chosen


def test_gpus_talk_by_nccl_and_cpus_by_gloo(joined):
    gpu = torch.device("cuda", 1)
    assert Processes.join(gpu) == Processes(1, 2)
    assert joined == {"backend": "nccl", "gpu": gpu}
    joined.clear()
    assert Processes.join(torch.device("cpu")) == Processes(1, 2)
    assert joined == {"backend": "gloo"}


def test_several_processes_refuse_other_devices(joined):
    with pytest.raises(InputError, match="needs cpu or cuda, got mps. Use --device cpu"):
        Processes.join(torch.device("mps"))


def test_several_processes_refuse_to_train_hub_encoders(monkeypatch):
    monkeypatch.setattr(Processes, "join", lambda device: Processes(0, 2))
    hasher = CHN(16, networks=Networks(text="hf:some/encoder", text_frozen=False))
    with pytest.raises(InputError, match="Fine-tuning hf:some/encoder with several processes"):
        Trainer(hasher, as_processes.pairs_for("chn"), as_processes.pairs_for("chn"))
