"""Several processes train as one: the same losses step by step, and checkpoints that any can read.

Two processes are started as torchrun starts them; one process is the second opinion.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.experiments.trained_model import TrainedModel
from corrhash.methods.chn import CHN, Networks
from corrhash.methods.processes import Processes
from corrhash.methods.trainer import Trainer
from tests.methods import as_processes

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def alone(task, folder, checkpoint=None):
    as_processes.main(task, folder / "alone", checkpoint)
    return read(folder / "alone.0")


def by_two(task, folder, checkpoint=None):
    """What two processes find, the second of which must find the same."""
    script = Path(as_processes.__file__)
    arguments = [str(a) for a in (script, task, folder / "two", checkpoint) if a is not None]
    subprocess.run([*TORCHRUN, *arguments], check=True, timeout=300)
    first, second = (read(folder / f"two.{rank}") for rank in (0, 1))
    assert first["processes"] == 2
    assert first == second
    return first


def read(path):
    return json.loads(path.read_text())


def test_the_losses_of_two_processes_are_those_of_one(tmp_path):
    one, two = alone("losses", tmp_path), by_two("losses", tmp_path)
    for (name, dtype), n_steps in as_processes.N_STEPS.items():
        pair = one[f"{name} {dtype}"], two[f"{name} {dtype}"]
        assert [len(losses) for losses in pair] == [n_steps, n_steps]
        assert len(set(pair[0])) == n_steps
        tolerance = 1e-8 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(pair[1], pair[0], rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(
    ("begin", "end"), [(alone, by_two), (by_two, alone)], ids=["one, then two", "two, then one"]
)
def test_a_checkpoint_is_continued_by_another_number_of_processes(begin, end, tmp_path):
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


def test_the_command_trains_with_several_processes_and_one_of_them_speaks(tmp_path):
    quick = ["--set", "training.epochs=2", "--set", "networks.width=16", "--data", "n=780"]
    train = ["-m", "corrhash", "train", "synthetic", "--bits", "16", *quick]
    ran = subprocess.run(
        [*TORCHRUN, *train, "--out", tmp_path / "model"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.count("Trained CHN of 16 bits") == 1
    assert TrainedModel.load(tmp_path / "model").hasher.n_bits == 16
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_batch_is_shared_out_in_order_and_to_the_last_row():
    for n_rows in (0, 1, 5, 64):
        parts = [Processes(rank, 3).share(np.arange(n_rows)) for rank in range(3)]
        np.testing.assert_array_equal(np.concatenate(parts), np.arange(n_rows))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_one_process_leaves_everything_as_it_is(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    only = Processes.joined("cpu")
    scores, network = torch.ones(3, 2), torch.nn.Linear(2, 2)
    assert (only, only.first) == (Processes(0, 1), True)
    assert only.gather(scores, 3) is scores
    assert only.together(network) is network
    assert only.agree(scores) is scores


def test_what_several_processes_cannot_do_is_told(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="train on cpu together. Got device 'cuda'"):
        Processes.joined("cuda")
    monkeypatch.setattr(Processes, "joined", lambda device: Processes(0, 2))
    hasher = CHN(16, networks=Networks(text="hf:some/encoder", text_frozen=False))
    with pytest.raises(InputError, match="do not train hf:some/encoder along"):
        Trainer(hasher, as_processes.pairs_for("chn"), as_processes.pairs_for("chn"))
