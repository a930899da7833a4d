"""The command as a user runs it: what it says when it works, and when it does not."""

import sys

import pytest
from typer.testing import CliRunner

from corrhash.cli import app, main


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def fail(monkeypatch, capsys, *arguments):
    """What the command says of a mistake; it must end with code 2 and without a traceback."""
    monkeypatch.setattr(sys, "argv", ["corrhash", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def say(monkeypatch, capsys, *arguments):
    """What a successful command says beside its output."""
    monkeypatch.setattr(sys, "argv", ["corrhash", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    captured = capsys.readouterr()
    assert stopped.value.code == 0, captured.err
    return captured.err
