"""Help: every verb explains itself, and all stand in the order of the pipeline."""

import pytest

from tests.cli.commands import run

VERBS = [
    *("demo", "train", "evaluate", "encode", "index", "search", "info", "export", "copy"),
    *("run", "report", "export-onnx", "methods", "datasets", "engines"),
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_within_80_columns(verb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    help_text = run(verb, "--help").output
    assert "Usage: " in help_text
    assert max(map(len, help_text.splitlines())) <= 80


def test_the_help_lists_every_verb_in_the_order_of_the_pipeline():
    help_text = run("--help").output
    places = [help_text.index(f"│ {verb} ") for verb in VERBS]
    assert places == sorted(places)
