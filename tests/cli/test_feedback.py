"""The verbs judgments and improve."""

import json

import pytest

from corrhash.collection import Collection
from tests.cli.commands import fail, run
from tests.collection.photos import Photos
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
    assert "Exported 1 judgment:" in exported
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


@pytest.fixture(scope="module")
def photos():
    return Photos()


def test_improve_reports_and_restores(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("corrhash.collection.improving._validate", lambda *_: (0.5, 0.625))
    collection = photos.collection(tmp_path / "c")
    photos.judge(collection)
    shown = run("improve", collection.uri, "synthetic").output
    assert "Trained on 120 judgments of 12 queries" in shown
    assert "50.0% before, 62.5% after" in shown
    assert "Switched to generation 1" in shown
    assert "--restore" in shown
    assert "verified" in run("info", collection.uri, "--verify").output
    assert "generation 2" in run("improve", collection.uri, "synthetic", "--restore").output
    monkeypatch.setattr("corrhash.collection.improving._validate", lambda *_: (0.5, 0.5))
    assert "is not better" in run("improve", collection.uri, "synthetic").output


def test_improve_without_enough_judgments(collection, monkeypatch, capsys):
    message = fail(monkeypatch, capsys, "improve", collection.uri)
    assert "This model (CVH) cannot be fine-tuned" in message
    message = fail(monkeypatch, capsys, "improve", collection.uri, "--features", "a.npy")
    assert "--features needs SOURCE" in message
    message = fail(monkeypatch, capsys, "improve", collection.uri, "--restore")
    assert "no previous model to restore" in message
