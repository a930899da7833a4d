"""Options that several verbs share."""

import os
import re

import pytest
import typer.main

from corrhash.cli import app
from corrhash.cli.options import FORMATS
from corrhash.datasets.formats import FILE_FORMATS
from corrhash.networks.device import VARIABLE
from tests.cli.commands import run

COMPUTING = ("train", "evaluate", "encode", "index", "search", "serve", "run")


@pytest.mark.parametrize("verb", COMPUTING)
def test_verbs_that_compute_take_a_device(verb):
    commands = typer.main.get_command(app).commands
    (option,) = (param for param in commands[verb].params if param.name == "device")
    assert (option.opts, option.envvar) == (["--device"], VARIABLE)


def test_help_lists_every_file_format():
    listed = set(re.findall(r"\.[a-z.]+\b", FORMATS))
    suffixes = {suffix for of_format in FILE_FORMATS.values() for suffix in of_format}
    assert listed == suffixes - {".npy"}  # one array of a folder
    assert FORMATS in run("datasets").output.replace("\n", " ")


def test_the_device_is_chosen_for_one_command_only(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    run("train", "synthetic", "--method", "cvh", "--device", "cpu", "--out", tmp_path / "model")
    assert VARIABLE not in os.environ
