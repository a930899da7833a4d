"""The verb demo: its output, its files, and the commands it prints."""

import shlex
import sys

from PIL import Image

from corrhash.cli import demo
from tests.cli.commands import run


def test_the_commands_that_the_demo_prints_work(tmp_path, monkeypatch):
    folder = tmp_path / "demo"
    result = run("demo", "--images", 600, "--epochs", 1, "--out", folder)
    assert "random" in result.output
    for name in ("curves.png", "results.png"):
        with Image.open(folder / name) as image:
            assert image.size[0] > 900
    assert "“lighthouse night”, without cats" in result.output
    first, second, third = (shlex.split(line)[2:] for line in result.output.splitlines()[-3:])
    assert "mAP" in run(*first).output
    monkeypatch.chdir(tmp_path)
    assert "Contact sheet: boats.jpg" in run(*second).output
    served = []
    monkeypatch.setattr("corrhash.service.server.serve", lambda it, *how, **more: served.append(it))
    run(*third)
    assert served[0].uri == str(folder / "collection")


def test_the_program_is_named_by_path_if_not_on_the_path(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["some where/bin/corrhash", "demo"])
    monkeypatch.setattr(demo.shutil, "which", lambda name: None)
    assert demo._command() == "'some where/bin/corrhash'"
    monkeypatch.setattr(demo.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert demo._command() == "corrhash"
