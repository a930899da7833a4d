"""Every Python snippet of the documents runs, and every command they name works."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corrhash.cli import app

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path, language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE
    )


def named(documents):
    return {"argvalues": documents, "ids": [str(d.relative_to(ROOT)) for d in documents]}


@pytest.mark.parametrize("path", **named([d for d in DOCUMENTS if blocks(d, "python")]))
def test_the_python_snippets_of_a_document_run_in_order(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for block in blocks(path, "python"):
            exec(compile(block, str(path), "exec"), names)


@pytest.mark.parametrize("path", **named([d for d in DOCUMENTS if blocks(d, "console")]))
def test_the_commands_of_a_document_work_in_order(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks(path, "console"):
        for line in block.splitlines():
            words = shlex.split(line.removeprefix("$ "))
            assert words[0] == "corrhash"
            result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
            assert result.exit_code == 0, result.output
