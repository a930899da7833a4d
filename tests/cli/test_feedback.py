"""The verb judgments."""

import json

import pytest

from corrhash.collection import Collection
from tests.cli.commands import fail, run
from tests.collection.world import World


@pytest.fixture
def collection(tmp_path):
    world = World(tmp_path)
    collection = Collection.create(tmp_path / "c", world.model)
    collection.add(world.records(range(6)))
    return collection


def test_judgments_are_listed_exported_and_imported(collection, tmp_path):
    assert run("judgments", collection.uri).output.startswith("0 judgments")
    collection.judge("boat [bold]", item="scene 1", fits=True)
    collection.judge(key="scene 0", item="scene 2", fits=False)
    shown = run("judgments", collection.uri).output
    assert shown.startswith("2 judgments: 1 fit, 1 do not")
    assert "boat [bold]" in shown
    assert "key scene 0" in shown
    assert "does not fit" in shown
    listed = json.loads(run("judgments", collection.uri, "--json").output)
    assert [one["item"] for one in listed] == ["scene 1", "scene 2"]
    exported = run("judgments", collection.uri, "--export", tmp_path / "j.csv").output
    assert "Exported 1 judgments" in exported
    assert "Skipped 1 whose queries are neither" in exported
    run("judgments", collection.uri, "--export", tmp_path / "j.jsonl")
    collection.judge("boat [bold]", item="scene 1", fits=None)
    with (tmp_path / "j.jsonl").open("a") as file:
        file.write('{"query": "tree", "shown": ["scene 3", "gone"], "clicked": ["gone"]}\n')
    imported = run("judgments", collection.uri, "--import", tmp_path / "j.jsonl").output
    assert "Imported 3 judgments" in imported
    assert "Skipped 1 about items" in imported
    assert len(collection.judgments()) == 3


def test_export_and_import_exclude_each_other(collection, monkeypatch, capsys):
    options = ("--export", "a.csv", "--import", "b.csv")
    assert "cannot be combined" in fail(monkeypatch, capsys, "judgments", collection.uri, *options)
