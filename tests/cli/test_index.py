"""The verb index with an encoder: search before training."""

import json

import numpy as np
import pytest
from PIL import Image

from corrhash.collection import Collection
from corrhash.model import load_model
from tests.cli.commands import fail, run
from tests.networks import onnx_folders as tiny


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for i in range(40):
        pixels = np.repeat(np.repeat(rng.integers(0, 256, (4, 4, 3)), 8, 0), 8, 1)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    (folder / "bad.png").write_bytes(b"no image")
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return tiny.save_clip(tmp_path_factory.mktemp("encoders") / "clip")


@pytest.mark.parametrize("method", ["itq", "lsh"])
def test_photos_are_searched_without_a_model(photos, clip, tmp_path, method):
    collection, bits = tmp_path / "album", ("--bits", "6", "--method", method)
    command = ("index", collection, photos, "--encoder", f"onnx:{clip}", *bits)
    output = run(*command).output
    assert "40 new; 40 items" in output
    assert "Skipped bad.png: Cannot decode the image" in output
    assert "Next: corrhash search" in output
    assert "--key" not in output  # the file names hold no words, but any word can be searched
    found = json.loads(run("search", collection, "red boat", "--json").output)
    assert len(found) == 10
    opened = Collection.open(collection)
    assert opened.model.method == method.upper()
    expected = opened.search("red boat")
    assert [one["key"] for one in found] == [match.key for match in expected]
    assert "0 new, 40 unchanged; 40 items" in run("index", collection, photos).output
    assert "0 new, 40 unchanged; 40 items" in run(*command).output


def test_scores_are_cosines_in_the_space_of_the_encoder(photos, clip, tmp_path):
    collection = tmp_path / "album"
    run("index", collection, photos, "--encoder", f"onnx:{clip}", "--bits", "6")
    model = load_model(collection / "model")
    assert model.hasher.space == "shared"
    np.testing.assert_array_equal(model.hasher.image_projection_, model.hasher.text_projection_)
    assert model.reader.text_features.name == f"onnx:{clip}"


def test_mistakes_are_named(photos, clip, tmp_path, monkeypatch, capsys):
    album = tmp_path / "album"
    output = fail(monkeypatch, capsys, "index", album, photos)
    assert "pass --model DIR" in output
    assert "or --encoder NAME" in output
    encoder = ("--encoder", f"onnx:{clip}")
    output = fail(monkeypatch, capsys, "index", album, photos, *encoder, "--model", "m")
    assert "--encoder and --model cannot be combined" in output
    assert "--bits applies only with --encoder" in fail(
        monkeypatch, capsys, "index", album, photos, "--bits", 8
    )
    output = fail(monkeypatch, capsys, "index", album, photos, *encoder, "--method", "scm")
    assert "--method must be itq or lsh with an encoder, got 'scm'" in output
    images = tiny.save_image_encoder(tmp_path / "images")
    output = fail(monkeypatch, capsys, "index", album, photos, "--encoder", f"onnx:{images}")
    assert "has no text encoder" in output
    assert not album.exists()
    run("index", album, photos, *encoder, "--bits", "4")
    output = fail(monkeypatch, capsys, "index", album, photos, *encoder, "--bits", "6")
    assert "has codes of 4 bits, got --bits 6" in output
    output = fail(monkeypatch, capsys, "index", album, photos, *encoder, "--method", "lsh")
    assert "was created with the method ITQ, got lsh" in output
    other = tiny.save_clip(tmp_path / "other")
    output = fail(monkeypatch, capsys, "index", album, photos, "--encoder", f"onnx:{other}")
    assert f"was not created with onnx:{other}" in output


def test_offline_refuses_a_download(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CORRHASH_OFFLINE")
    arguments = ("index", tmp_path / "album", photos, "--encoder", "onnx:a/clip", "--offline")
    assert "onnx:a/clip is not on this machine" in fail(monkeypatch, capsys, *arguments)


def test_ready_codes_need_no_model(tmp_path, monkeypatch, capsys):
    table, collection = tmp_path / "hashes.csv", tmp_path / "hashes"
    table.write_text("key,image_code,year\na.jpg,00ff,2015\nb.jpg,01ff,2016\nc.jpg,ff00,2017\n")
    assert "3 new" in run("index", collection, table, "--codes").output
    table.write_text("key,image_code\nd.jpg,03ff\n")
    assert "1 new" in run("index", collection, table).output  # it has no model
    found = json.loads(run("search", collection, "--code", "00FF", "--json").stdout)
    assert [(one["key"], one["distance"]) for one in found[:3]] == [
        ("a.jpg", 0),
        ("b.jpg", 1),
        ("d.jpg", 2),
    ]
    found = run("search", collection, "--key", "c.jpg", "--where", "year < 2017").output
    assert "a.jpg" in found
    assert "1 group of 3 items" in run("duplicates", collection, "--max-distance", 1).output
    message = fail(monkeypatch, capsys, "search", collection, "boat")
    assert "ready codes and no model, so texts" in message
    (tmp_path / "none.csv").write_text("key,text\na,boat\n")
    other = ("index", tmp_path / "other", tmp_path / "none.csv", "--codes")
    message = fail(monkeypatch, capsys, *other)
    assert "No codes found in" in message
    assert "'a' has none" in message
    assert not (tmp_path / "other").exists()
