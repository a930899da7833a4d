"""Snippets of README.md and docs/ run, and print what the documents show.

The ```python and ```console blocks of a document run in order, in one folder. The output of a
command follows it in the block. The output of Python code is a ```text block right after it.
Shown decimals are compared with a tolerance, and "..." stands for any text.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corrhash.cli import app, output

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(
    r"^```(?P<language>python|console)\n(?P<code>.*?)^```\n(?:\n?```text\n(?P<output>.*?)^```)?",
    flags=re.DOTALL | re.MULTILINE,
)
TOLERANCE = 0.03
"""Largest difference of shown decimals, because other CPUs round differently."""


def with_snippets():
    documents = [path for path in DOCUMENTS if BLOCK.search(path.read_text())]
    return {"argvalues": documents, "ids": [str(path.relative_to(ROOT)) for path in documents]}


@pytest.mark.parametrize("path", **with_snippets())
def test_snippets_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.out, "_width", 90)
    names = {}
    for block in BLOCK.finditer(path.read_text()):
        if block["language"] == "console":
            run_commands(block["code"])
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], str(path), "exec"), names)
        if block["output"] is not None:
            check_output(block["output"], printed.getvalue())


def run_commands(code):
    """Run the lines that start with a prompt; the lines after each are its output."""
    assert code.startswith("$ ")
    for session in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, shown = session.replace("\\\n", "").partition("\n")
        program, *arguments = shlex.split(command, comments=True)
        assert program == "corrhash"
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        if shown.strip():
            check_output(shown, result.stdout)


def check_output(shown, printed):
    """Compare output with that of a document, up to whitespace and small differences."""
    decimal = r"\d+\.\d+"
    pattern = re.escape(" ".join(shown.split())).replace(r"\.\.\.", ".*?").replace(r"\ ", " ")
    pattern = re.sub(r"\d+\\\.\d+", lambda _: f"({decimal})", pattern)
    found = re.fullmatch(pattern, " ".join(printed.split()), flags=re.DOTALL)
    assert found, f"The document shows:\n{shown}\nThe snippet prints:\n{printed}"
    expected = [float(number) for number in re.findall(decimal, shown)]
    assert [float(number) for number in found.groups()] == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("shown", ["mAP 0.53 in 4 s", "mAP 0.51 ... s", "mAP  0.53\nin ...\n"])
def test_output_is_compared_with_a_tolerance(shown):
    check_output(shown, "mAP 0.52 in 4 s\n")


@pytest.mark.parametrize("shown", ["mAP 0.42 in 4 s", "mAP 0.52 in 5 s", "mAP 0.52"])
def test_other_output_is_rejected(shown):
    with pytest.raises(AssertionError):
        check_output(shown, "mAP 0.52 in 4 s\n")


@pytest.mark.parametrize(
    "name", ["docs/explanation/architecture.md", "docs/guides/extend.md", "CONTRIBUTING.md"]
)
def test_files_that_a_document_names_exist(name):
    named = set(re.findall(r"`([\w./]+/[\w.]*|\w+\.(?:py|md|toml))`", (ROOT / name).read_text()))
    named = {path for path in named if not re.search(r"\b(test_)?x\.(py|md)$", path)}
    homes = (ROOT, ROOT / "src", ROOT / "src" / "corrhash")
    missing = sorted(path for path in named if not any((home / path).exists() for home in homes))
    assert not missing
