"""Errors of every verb name options and arguments as the user writes them."""

import pytest

from tests.cli.commands import fail

INVALID = {
    "train scenes --out x --bits 0": "--bits must be between 1 and 1024, got 0.",
    "train scenes --out x --bits abc": "--bits must be an integer, got 'abc'.",
    "train scenes --out x --bits 1.5": "--bits must be an integer, got '1.5'.",
    "train scenes --out x --seed -1": "--seed must be at least 0, got -1.",
    "train scenes --out x --data n": "--data must be NAME=VALUE, got 'n'.",
    "train scenes --out x --set =1": "--set must be NAME=VALUE, got '=1'.",
    "train scenes --out x --texts n": "--texts must be NAME=VALUE, got 'n'.",
    "search photos sea -k x": "--k must be an integer, got 'x'.",
    "serve photos --port 70000": "--port must be at most 65535, got 70000.",
    "serve photos --rate x": "--rate must be a number, got 'x'.",
    "demo --images 3": "--images must be at least 600, got 3.",
    "run plan.toml --out x --bits 8 --bits x": "--bits must be an integer, got 'x'.",
    "run plan.toml --out x --data n": "--data must be NAME=LOCATION, got 'n'.",
    "engines x": "Unexpected argument 'x'. Quote values that contain spaces, or see",
}


@pytest.mark.parametrize("command", INVALID)
def test_invalid_values_name_the_option(command, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    message = fail(monkeypatch, capsys, *command.split())
    assert message.startswith(f"Error: {INVALID[command]}")
    assert len(message.splitlines()) == 1


EMPTY = {
    ("train", "", "--out", "x"): "DATASET",
    ("train", "scenes", "--out="): "--out",
    ("train", "scenes", "--out", "x", "--set", "a=1", "--set", ""): "--set",
    ("search", "photos", "sea", ""): "TEXT",
    ("search", "photos", "--image", ""): "--image",
    ("copy", "photos", ""): "TO",
    ("datasets", "check", ""): "DATASET",
}


@pytest.mark.parametrize("arguments", EMPTY)
def test_empty_arguments_are_refused(arguments, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    message = fail(monkeypatch, capsys, *arguments)
    assert message == f"Error: {EMPTY[arguments]} must not be empty.\n"


def test_words_of_the_user_are_not_replaced(monkeypatch, capsys):
    message = fail(monkeypatch, capsys, "search", "photos", "sea", "--find", "k", "-k", "find")
    assert message == "Error: --k must be an integer, got 'find'.\n"
    message = fail(monkeypatch, capsys, "train", "n_bits", "--bits", "8", "--out", "x")
    assert message.startswith("Error: 'n_bits' is neither a dataset")


def test_parameters_without_an_option_keep_their_name(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(
        'datasets = ["synthetic"]\nmethods = ["cvh"]\nn_bits = [0]\ntune = false\n'
    )
    message = fail(monkeypatch, capsys, "run", "plan.toml", "--out", "x")
    assert "n_bits must be between 1 and 1024, got 0." in message
    message = fail(monkeypatch, capsys, "run", "plan.toml", "--out", "x", "--bits", "0")
    assert "--bits must be between 1 and 1024, got 0." in message
    message = fail(monkeypatch, capsys, "run", "plan.toml", "--out", "x", "--data", "a=b")
    assert "--data: the plan has no dataset 'a'. Datasets: synthetic." in message
