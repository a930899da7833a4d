"""The verb ``demo``: everything once, and what to do next."""

import shlex
import sys

from PIL import Image

from corrhash.cli import demo
from tests.cli.commands import run


def test_a_demo_prints_a_table_and_ends_with_a_collection(tmp_path, monkeypatch):
    folder = tmp_path / "demo"
    result = run("demo", "--pictures", 600, "--epochs", 1, "--out", folder)
    assert "random" in result.output
    for name in ("curves.png", "answers.png"):
        with Image.open(folder / name) as picture:
            assert picture.size[0] > 900
    assert "“lighthouse night”, without cats" in result.output
    first, second, third = (shlex.split(line)[2:] for line in result.output.splitlines()[-3:])
    assert "MAP" in run(*first).output
    monkeypatch.chdir(tmp_path)
    assert "Sheet: boats.jpg" in run(*second).output
    served = []
    monkeypatch.setattr("corrhash.service.run.serve", lambda it, *how, **more: served.append(it))
    run(*third)
    assert served[0].uri == str(folder / "collection")


def test_the_demo_names_the_program_by_a_way_that_leads_to_it(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["some where/bin/corrhash", "demo"])
    monkeypatch.setattr(demo.shutil, "which", lambda name: None)
    assert demo._called_as() == "'some where/bin/corrhash'"
    monkeypatch.setattr(demo.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert demo._called_as() == "corrhash"
