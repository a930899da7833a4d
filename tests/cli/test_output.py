"""Progress: bars on a terminal, else a line from time to time."""

import io

import pytest
from rich.console import Console

from corrhash._progress import report
from corrhash.cli import output


def output_while_training(monkeypatch, *, is_terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=100)
    monkeypatch.setattr(output, "err", console)
    with output.progress_bars():
        report("Training", 1, 40, loss=0.5)
        report("Training", 2, 40, loss=0.25, validation_map=0.625, seconds=3.0)
    return file.getvalue()


def test_without_a_terminal_progress_is_printed_in_lines(monkeypatch):
    monkeypatch.setattr(output, "SECONDS_BETWEEN_LINES", 0.0)
    assert output_while_training(monkeypatch, is_terminal=False).splitlines() == [
        "Training 1 of 40, loss 0.5",
        "Training 2 of 40, loss 0.25, validation mAP 0.625",
    ]


def test_without_a_terminal_short_work_prints_nothing(monkeypatch):
    assert output_while_training(monkeypatch, is_terminal=False) == ""


@pytest.mark.parametrize("text", ["Training", "loss 0.25", "validation mAP 0.625", "2/40"])
def test_a_terminal_shows_a_bar_and_the_last_metrics(monkeypatch, text):
    assert text in output_while_training(monkeypatch, is_terminal=True)
