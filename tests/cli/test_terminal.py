"""How far work is: bars on a terminal, lines now and then elsewhere."""

import io

import pytest
from rich.console import Console

from corrhash.cli import terminal
from corrhash.progress import report


def said_while_training(monkeypatch, *, is_terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=100)
    monkeypatch.setattr(terminal, "err", console)
    with terminal.progress_bars():
        report("Training", 1, 40, loss=0.5)
        report("Training", 2, 40, loss=0.25, validation_map=0.625, seconds=3.0)
    return file.getvalue()


def test_where_there_is_no_terminal_a_line_tells_how_far_long_work_is(monkeypatch):
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 0.0)
    assert said_while_training(monkeypatch, is_terminal=False).splitlines() == [
        "Training 1 of 40, loss 0.5",
        "Training 2 of 40, loss 0.25, validation map 0.625",
    ]


def test_short_work_says_nothing_where_there_is_no_terminal(monkeypatch):
    assert said_while_training(monkeypatch, is_terminal=False) == ""


@pytest.mark.parametrize("words", ["Training", "loss 0.25", "validation map 0.625", "2/40"])
def test_a_terminal_shows_a_bar_and_the_last_numbers(monkeypatch, words):
    assert words in said_while_training(monkeypatch, is_terminal=True)
