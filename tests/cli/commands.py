"""Run the command in tests, and return its output or its error message."""

import sys

import pytest
from typer.testing import CliRunner

from corrhash.cli import app, main


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def fail(monkeypatch, capsys, *arguments):
    """Return the error message of a command, which must exit with code 2, without a traceback."""
    monkeypatch.setattr(sys, "argv", ["corrhash", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message


def stderr_of(monkeypatch, capsys, *arguments):
    """Return what a successful command prints to stderr."""
    monkeypatch.setattr(sys, "argv", ["corrhash", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    captured = capsys.readouterr()
    assert stopped.value.code == 0, captured.err
    return captured.err
