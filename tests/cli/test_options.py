"""Options that several verbs share."""

import os

import pytest
import typer.main

from corrhash.cli import app
from corrhash.networks.device import VARIABLE
from tests.cli.commands import run

COMPUTING = ("train", "evaluate", "encode", "index", "search", "serve", "run")


@pytest.mark.parametrize("verb", COMPUTING)
def test_verbs_that_compute_take_a_device(verb):
    commands = typer.main.get_command(app).commands
    (option,) = (param for param in commands[verb].params if param.name == "device")
    assert (option.opts, option.envvar) == (["--device"], VARIABLE)


def test_the_device_is_chosen_for_one_command_only(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    run("train", "synthetic", "--method", "cvh", "--device", "cpu", "--out", tmp_path / "model")
    assert VARIABLE not in os.environ
