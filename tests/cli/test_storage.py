"""The commands info --verify and repair: damage is listed, and what is whole is salvaged."""

import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from corrhash.cli import app
from corrhash.collection import Collection
from tests.cli.commands import fail, run
from tests.collection.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("images"))


@pytest.fixture
def folder(world, tmp_path):
    collection = Collection.create(tmp_path / "c", world.model)
    collection.add(world.records(range(9)))
    collection.index.close()
    return tmp_path / "c"


def change(folder, statement):
    with closing(sqlite3.connect(folder / "collection.db")) as connection, connection:
        connection.execute(statement)


def test_info_lists_all_damaged_rows(folder, monkeypatch, capsys):
    assert "integrity         verified" in run("info", folder, "--verify").output
    change(folder, "UPDATE items SET text = 'x' WHERE id IN (2, 5)")
    message = fail(monkeypatch, capsys, "info", folder, "--verify")
    for number in (2, 5):
        assert f"item {number} is damaged: its row is damaged" in message
    assert "copy the undamaged items with corrhash repair" in message


def test_info_verifies_the_model(folder, monkeypatch, capsys):
    path = next((folder / "model").glob("arrays-*.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert "items" in run("info", folder).output
    assert "its checksum differs" in fail(monkeypatch, capsys, "info", folder, "--verify")


def test_info_notices_another_model(folder, world, monkeypatch, capsys):
    from corrhash.datasets import PairedDataset
    from corrhash.methods import METHODS
    from corrhash.model import Model

    raw = PairedDataset(world.scenes.images[:60], world.scenes.captions[:60])
    other = Model(METHODS["cvh"](n_bits=24).fit(world.reader.read(raw)), world.reader)
    other.save(folder / "model")
    message = fail(monkeypatch, capsys, "info", folder, "--verify")
    assert "is not the one that encoded the collection" in message


def test_repair_salvages_and_lists(folder, tmp_path):
    assert "Salvaged 9 items" in run("repair", folder, tmp_path / "whole").output
    change(folder, "UPDATE codes SET image = x'000000' WHERE id = 4")
    words = ["repair", str(folder), str(tmp_path / "some")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 1
    assert "Item 4: its code is damaged." in result.output
    assert "Salvaged 8 items" in result.output
    assert "integrity         verified" in run("info", tmp_path / "some", "--verify").output


def test_repair_needs_a_folder(tmp_path, monkeypatch, capsys):
    message = fail(monkeypatch, capsys, "repair", tmp_path / "none", tmp_path / "new")
    assert "No collection at" in message
