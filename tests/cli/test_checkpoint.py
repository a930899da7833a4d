"""Interrupted training: checked before any work, resumed, restarted."""

import json

import pytest

from corrhash.cli import train as verb
from corrhash.training import trainer
from tests.cli.commands import fail, run

TRAIN = ("train", "synthetic", "--method", "chn", "--bits", "8", "--set", "networks.width=8")


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """The folder of a model whose training was stopped by Ctrl-C in its third epoch."""
    epoch = trainer.Trainer._epoch

    def stop(self, number):
        if number == 2:
            raise KeyboardInterrupt
        return epoch(self, number)

    folder = tmp_path / "model"
    with monkeypatch.context() as patched:
        patched.setattr(trainer.Trainer, "_epoch", stop)
        output = fail_130(patched, *TRAIN, "--set", "training.epochs=4", "--out", folder)
    return folder, output


def fail_130(monkeypatch, *arguments):
    from typer.testing import CliRunner

    from corrhash.cli import app

    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 130
    return result.output


def test_interrupt_explains_how_to_resume(interrupted):
    _, output = interrupted
    assert "Interrupted: epoch 2 is saved. Run the same command again to resume" in output


def test_same_command_resumes_and_says_so(interrupted):
    folder, _ = interrupted
    output = run(*TRAIN, "--set", "training.epochs=4", "--out", folder).output
    assert "Resuming training, interrupted after epoch 2" in output
    assert output.splitlines()[-1].startswith("To search: corrhash index COLLECTION synthetic")
    assert len((folder / "log.jsonl").read_text().splitlines()) == 4
    assert "Resuming" not in run(*TRAIN, "--set", "training.epochs=1", "--out", folder).output


def test_other_settings_are_refused_before_data_is_read(interrupted, monkeypatch, capsys):
    folder, _ = interrupted
    monkeypatch.setattr("corrhash.datasets.load_dataset", None)  # would fail if called
    changed = (*TRAIN, "--set", "training.epochs=4", "--set", "training.batch_size=32")
    output = fail(monkeypatch, capsys, *changed, "--out", folder)
    assert "contains an interrupted training run with different settings: training was" in output
    assert "add --restart to discard it" in output


def test_restart_discards_the_checkpoint(interrupted):
    folder, _ = interrupted
    output = run(*TRAIN, "--set", "training.epochs=1", "--restart", "--out", folder).output
    assert "Resuming" not in output
    assert len((folder / "log.jsonl").read_text().splitlines()) == 1
    assert not verb._checkpoint_path(folder).exists()


def test_checkpoint_notes_the_settings_of_its_run(interrupted):
    folder, _ = interrupted
    noted = json.loads((verb._checkpoint_path(folder) / "run.json").read_text())
    assert noted["dataset"] == "synthetic"
    assert noted["n_bits"] == 8
