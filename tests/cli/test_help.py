"""Every verb has a help page, and the overview lists them in pipeline order."""

import pytest

from tests.cli.commands import run

VERBS = [
    *("demo", "train", "evaluate", "encode", "index", "search", "serve", "info", "export", "copy"),
    *("run", "report", "export-onnx", "methods", "datasets", "engines"),
]


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_fits_80_columns(verb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    help_text = run(verb, "--help").output
    assert "Usage: " in help_text
    assert max(map(len, help_text.splitlines())) <= 80


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_flags_show_no_type(verb):
    help_text = run(*[verb] * (verb is not None), "--help").output
    assert "--help" in help_text
    assert "bool" not in help_text.lower()


def test_help_lists_verbs_in_pipeline_order():
    help_text = run("--help").output
    places = [help_text.index(f"│ {verb} ") for verb in VERBS]
    assert places == sorted(places)
