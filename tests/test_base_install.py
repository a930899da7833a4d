"""What works without optional packages: linear models, evaluation and search."""

import subprocess
import sys

import pytest

from corrhash.errors import EXTRAS

MISSING = sorted(set(EXTRAS) - {"pydantic"})  # Typer depends on Pydantic
RUN = f"""
import sys
from importlib.machinery import PathFinder

class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        missing = name.partition(".")[0] in {MISSING}
        return None if missing else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
from corrhash.cli import main
main()
"""


def corrhash(folder, *arguments):
    """Run a command as in an environment without any extra."""
    command = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    ran = corrhash(
        folder, "train", "synthetic", "--method", "cvh", "--bits", "16", "--out", "model"
    )
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["methods"],
        ["evaluate", "model", "synthetic"],
        ["index", "collection", "synthetic", "--model", "model"],
        ["encode", "model", "synthetic", "--out", "codes.npz"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_command_works_without_extras(folder, arguments):
    ran = corrhash(folder, *arguments)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["train", "synthetic", "--method", "chn", "--out", "other"], "train"),
        (["report", "results", "--out", "report"], "study"),
        (["serve", "collection"], "serve"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_error_names_the_missing_extra(folder, arguments, extra):
    ran = corrhash(folder, *arguments)
    assert ran.returncode == 2
    assert f"pip install 'corrhash[{extra}]'" in ran.stderr
