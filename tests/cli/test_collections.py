"""Commands for collections: index, search, info, export, copy, serve, and their errors."""

import io
import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from corrhash.cli import matches
from corrhash.collection.collection import Collection
from corrhash.datasets import PairedDataset, load_dataset
from corrhash.methods import METHODS
from corrhash.model import Model, TrainingRun
from tests.cli.commands import fail, run
from tests.collection.world import World
from tests.engine_uris import new_milvus_uri


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def model(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    replace(world.model, training=TrainingRun("scenes")).save(folder)
    return folder


@pytest.fixture(scope="module")
def listed(world):
    """A .jsonl file with images, texts, labels and metadata."""
    path = world.paths[0].parent / "items.jsonl"
    lines = []
    for row in range(30):
        record = world.record(row)
        fields = {"text": record["text"], "labels": record["labels"], "year": 2000 + row}
        lines.append(json.dumps({"image": world.paths[row].name, **fields, "place": None}))
    path.write_text("\n".join(lines) + "\n\n")
    return path


@pytest.fixture(scope="module")
def collection(listed, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("collection") / "my pictures"
    printed = run("index", folder, listed, "--model", model).output
    assert f"30 new; 30 items in {folder}" in printed
    words = shlex.split(printed[printed.index("Next: corrhash") :])
    assert words[1:4] == ["corrhash", "search", str(folder)]
    assert "distance" in run(*words[2:]).output
    return folder


def test_index_a_folder_of_images(world, model, tmp_path, monkeypatch, capsys):
    (tmp_path / "photos" / "deep").mkdir(parents=True)
    for row, name in enumerate(["1.png", "deep/2.PNG", "notes.txt"]):
        (tmp_path / "photos" / name).write_bytes(world.paths[row].read_bytes())
    (tmp_path / "photos" / "cut.png").write_bytes(world.paths[0].read_bytes()[:99])
    printed = run("index", tmp_path / "c", tmp_path / "photos", "--model", model).output
    assert "2 new; 2 items" in printed
    assert "Skipped cut.png: Cannot decode the image" in printed
    printed = run("index", tmp_path / "c", tmp_path / "photos").output
    assert "0 new, 2 unchanged; 2 items" in printed
    found = run("search", tmp_path / "c", "--image", world.paths[1]).output
    assert "deep/2.PNG" in found
    printed = fail(monkeypatch, capsys, "search", tmp_path / "c", "sea", "--find", "text")
    assert "No item in" in printed
    assert "--find image" in printed


def test_preview_size_of_new_and_changed_images(model, tmp_path):
    def stored():
        items = Collection.open(tmp_path / "c").index.get([0, 1], ["thumbnail"])
        return [max(Image.open(io.BytesIO(item.thumbnail)).size) for item in items if item]

    (tmp_path / "photos").mkdir()
    Image.new("RGB", (900, 600)).save(tmp_path / "photos" / "1.png")
    run("index", tmp_path / "c", tmp_path / "photos", "--model", model)
    assert stored() == [640]
    Image.new("RGB", (901, 600)).save(tmp_path / "photos" / "2.png")
    run("index", tmp_path / "c", tmp_path / "photos", "--preview-size", 300)
    assert sorted(stored()) == [300, 640]


def test_index_a_dataset(tmp_path):
    split = load_dataset("synthetic")
    hasher = METHODS["cvh"](n_bits=16).fit(split.train)
    Model(hasher, training=TrainingRun("synthetic")).save(tmp_path / "model")
    printed = run("index", tmp_path / "c", "synthetic", "--model", tmp_path / "model").output
    assert "7,400 new; 7,400 items" in printed
    printed = run(
        *("index", tmp_path / "c", "synthetic", "--model", tmp_path / "model"),
        *("--part", "query", "--batch", 100),
    ).output
    assert "400 new; 7,800 items" in printed


@pytest.fixture
def of_seed_3(tmp_path):
    """A collection of generated items, which another seed or size would make others of."""
    split = load_dataset("synthetic", seed=3, n=780)
    hasher = METHODS["cvh"](n_bits=16).fit(split.train)
    Model(hasher, training=TrainingRun("synthetic", 3, {"n": 780})).save(tmp_path / "model")
    printed = run("index", tmp_path / "c", "synthetic", "--model", tmp_path / "model").output
    assert f"{len(split.database)} new" in printed
    return tmp_path / "c"


def test_index_splits_a_dataset_as_in_training(of_seed_3, tmp_path):
    n = len(Collection.open(of_seed_3))
    assert f"0 new, {n} unchanged" in run("index", of_seed_3, "synthetic").output
    run("copy", of_seed_3, tmp_path / "copy")
    assert f"0 new, {n} unchanged" in run("index", tmp_path / "copy", "synthetic").output
    kept = ("--model", of_seed_3 / "model")
    assert f"{n} new" in run("index", tmp_path / "d", "synthetic", *kept).output


def test_index_needs_the_split_of_a_dataset(of_seed_3, monkeypatch, capsys):
    (of_seed_3 / "model" / "training.json").unlink()
    printed = fail(monkeypatch, capsys, "index", of_seed_3, "synthetic")
    assert "the seed used to split synthetic is unknown" in printed
    kept = ("--model", of_seed_3.parent / "model")
    assert "0 new" in run("index", of_seed_3, "synthetic", *kept).output


def test_dataset_options_apply_however_a_path_is_written(tmp_path, world, monkeypatch):
    pairs = zip(world.paths, world.scenes.captions, strict=True)
    lines = [f"{path}\t{words}" for path, words in pairs]
    (tmp_path / "items.tsv").write_text("\n".join(["picture\twords", *lines]))
    columns = ("--data", "image=picture", "--data", "text=words")
    monkeypatch.chdir(tmp_path)
    train = ("train", "items.tsv", "--method", "cvh", "--bits", 8, "--seed", 5, *columns)
    run(*train, "--image-features", "simple", "--out", "m")
    assert "90 new; 90 items" in run("index", "c", "items.tsv", "--model", "m").output
    for typed in (tmp_path / "items.tsv", "./items.tsv"):
        assert "0 new, 90 unchanged" in run("index", "c", typed).output
        assert "0 new, 90 unchanged" in run("index", "c", typed, "--model", "m").output


def test_matches_fit_80_columns(collection, world, monkeypatch):
    monkeypatch.setattr(matches, "out", Console(file=(file := io.StringIO()), width=80))
    run("search", collection, "two", "balloons", "in", "the", "desert", "-k", 7)
    lines = file.getvalue().splitlines()
    assert lines[0].strip() == "two balloons in the desert"
    assert lines[1].split() == ["distance", "score", "key", "text", "labels"]
    assert [line.split()[0] for line in lines[2:] if line[:2].strip()] == list("1234567")
    assert max(map(len, lines)) <= 80


def test_json_matches_equal_those_of_python(collection, world):
    opened = Collection.open(collection)
    for how, options in (
        ({}, ()),
        ({"find": "text"}, ("--find", "text")),
        ({"k": 3, "offset": 2}, ("-k", 3, "--offset", 2)),
        ({"where": "year > 2010"}, ("--where", "year > 2010")),
        ({"radius": 9, "rerank": False}, ("--radius", 9, "--no-rerank")),
    ):
        found = json.loads(run("search", collection, "a blue boat", "--json", *options).stdout)
        expected = opened.search("a blue boat", **how)
        assert [(m["key"], m["distance"]) for m in found] == [(m.key, m.distance) for m in expected]
    found = json.loads(run("search", collection, "--image", world.paths[3], "--json").stdout)
    assert [m["key"] for m in found] == [m.key for m in opened.search(image=world.paths[3])]
    key = world.paths[3].name
    found = json.loads(run("search", collection, "--key", key, "--json").stdout)
    assert [m["key"] for m in found] == [m.key for m in opened.search(key=key)]
    assert set(found[0]) == {
        *("id", "distance", "score", "probability"),
        *("key", "text", "labels", "metadata", "path"),
    }


def test_matches_become_a_contact_sheet(collection, world, tmp_path):
    run("search", collection, "sea", "--sheet", tmp_path / "sea.jpg")
    with Image.open(tmp_path / "sea.jpg") as sheet:
        assert sheet.size[0] == 5 * 152 + 8
        assert len(np.unique(np.asarray(sheet).reshape(-1, 3), axis=0)) > 100
    picture = ("--image", world.paths[3], "--sheet", tmp_path / "like.png", "-k", 4)
    assert "Contact sheet: " in run("search", collection, *picture).output
    printed = run("search", collection, "sea", "--where", "year > 3000", "--radius", 9).output
    assert "No matches. Use a broader --where or a larger --radius." in printed
    assert (
        "No matches. Use a smaller --offset."
        in run("search", collection, "sea", "--offset", 99).output
    )


def test_info(collection):
    printed = run("info", collection).output
    for line in (
        "items 30",
        "bits 24",
        "method CVH",
        "continuous codes not stored",
        "engine SQLiteIndex",
    ):
        assert line in [" ".join(words.split()) for words in printed.splitlines()]


def test_info_verifies_on_request(collection, model, tmp_path, monkeypatch, capsys):
    assert "integrity" not in run("info", collection).output
    assert "verified" in run("info", collection, "--verify").output
    copy = tmp_path / "copy"
    run("copy", collection, copy)
    path = copy / "collection.db"
    content = path.read_bytes()
    path.write_bytes(content[:8192] + bytes(len(content) - 8192))
    message = fail(monkeypatch, capsys, "info", copy, "--verify")
    assert "damaged" in message
    assert "Restore it from a backup" in message


def test_export(collection, world, tmp_path):
    assert "Exported 30 items" in run("export", collection, "--out", tmp_path / "all.jsonl").output
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [line["key"] for line in lines] == [path.name for path in world.paths[:30]]
    codes = [bytes.fromhex(line["image_code"]) for line in lines]
    assert codes == [code.tobytes() for code in world.codes("image")[:30].packed]
    assert lines[4]["metadata"] == {"year": 2004}


def test_export_is_indexed_with_another_model(collection, world, tmp_path):
    another = METHODS["cvh"](n_bits=8).fit(
        world.reader.read(PairedDataset(world.scenes.images, world.scenes.captions))
    )
    Model(another, world.reader, TrainingRun("scenes")).save(tmp_path / "another")
    exported = tmp_path / "elsewhere" / "all.jsonl"
    exported.parent.mkdir()
    run("export", collection, "--out", exported)
    printed = run("index", tmp_path / "again", exported, "--model", tmp_path / "another").output
    assert "30 new; 30 items" in printed
    before, after = Collection.open(collection), Collection.open(tmp_path / "again")
    assert after.n_bits == 8
    for new, old in zip(after.first_items(30), before.first_items(30), strict=True):
        assert after.file_of(new) == before.file_of(old)
        assert replace(new, path="", stamp="") == replace(old, path="", stamp="")
    (number,) = after.ids_of([world.paths[4].name]).values()
    expected = another.encode_image(world.reader.read_images(world.scenes.images[4:5]))
    found = after.codes_of([number], "image")[number]
    np.testing.assert_array_equal(found.packed, expected.packed)


def test_copy_is_verified(collection, model, tmp_path):
    assert "Copied and verified 30 items" in run("copy", collection, tmp_path / "copy").output
    answers = [run("search", c, "sea", "--json").stdout for c in (collection, tmp_path / "copy")]
    assert answers[0] == answers[1]


def test_copy_to_milvus_and_back(collection, model, tmp_path, monkeypatch, capsys):
    with new_milvus_uri() as address:
        run("copy", collection, address)
        assert "does not contain its model" in fail(monkeypatch, capsys, "search", address, "sea")
        there = run("search", address, "sea", "--json", "--model", model).stdout
        assert there == run("search", collection, "sea", "--json").stdout
        assert "MilvusIndex" in run("info", address).output
        run("copy", address, tmp_path / "back", "--model", model)
        assert run("search", tmp_path / "back", "sea", "--json").stdout == there


def test_engines():
    printed = run("engines").output
    for words in ("memory:", "a folder", "milvus://"):
        assert words in printed


def test_unreadable_source_creates_no_collection(model, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    printed = fail(monkeypatch, capsys, "index", "new", "none.jsonl", "--model", model)
    assert "'none.jsonl' is neither a dataset" in printed
    assert not (tmp_path / "new").exists()


MISTAKES = {
    "No collection at nowhere. Create one": ["search", "nowhere", "sea"],
    "No collection at nowhere": ["info", "nowhere"],
    "To create one, pass --model DIR": ["index", "nowhere", "scenes"],
    "No model in there": ["index", "nowhere", "scenes", "--model", "there"],
    "--image FILE, --key KEY and --code HEX, got none of them": ["search", "COLLECTION"],
    "--code HEX, got TEXT and --image": ["search", "COLLECTION", "sea", "--image", "x.jpg"],
    "--k must be a positive integer, got 0": ["search", "COLLECTION", "sea", "-k", "0"],
    "--radius must be a non-negative integer": ["search", "COLLECTION", "x", "--radius", "-1"],
    "Unknown field 'yearr'. Did you mean 'year'? Valid fields: key, text, path, labels, year": [
        *("search", "COLLECTION", "sea", "--where", "yearr > 2000"),
    ],
    "must end in .jsonl, got 'all.csv'": ["export", "COLLECTION", "--out", "all.csv"],
    "must end in .jsonl, got 'all'": ["export", "COLLECTION", "--out", "all"],
    "lost when the command ends": ["copy", "COLLECTION", "memory:"],
    "A collection at 'memory:' would be lost": ["index", "memory:", "scenes", "--model", "x"],
    "--shard must be I/N with I < N, such as 0/4, got '4/4'": [
        *("index", "COLLECTION", "scenes", "--shard", "4/4"),
    ],
    "Cannot parse the filter 'year >'": ["search", "COLLECTION", "sea", "--where", "year >"],
    "'xyzzy' is not in this collection's vocabulary": ["search", "COLLECTION", "xyzzy"],
    "Error: --find must be 'image' or 'text', got 'sound'": [
        "search",
        "COLLECTION",
        "sea",
        "--find",
        "sound",
    ],
    "Image not found: x.jpg": ["search", "COLLECTION", "--image", "x.jpg"],
    "The name of a contact sheet must end in .jpg, .jpeg or .png, got 'x.txt'": [
        "search",
        "COLLECTION",
        "sea",
        "--sheet",
        "x.txt",
    ],
    "'scene' is neither a dataset nor an existing file or folder. Did you mean 'scenes'": [
        "index",
        "COLLECTION",
        "scene",
    ],
    "Error: --part must be one of train, validation, query, database, got 'test'": [
        "index",
        "COLLECTION",
        "synthetic",
        "--part",
        "test",
    ],
    "No engine for the URI 'redis://x'": ["copy", "COLLECTION", "redis://x"],
    "'none.jsonl' is neither a dataset nor an existing file": ["index", "COLLECTION", "none.jsonl"],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_explained(message, collection, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = [collection if word == "COLLECTION" else word for word in MISTAKES[message]]
    assert message in fail(monkeypatch, capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_unreadable_lines_are_skipped(model, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"key": "a", "text": "sea"}\n[1]\n')
    printed = run("index", tmp_path / "c", tmp_path / "bad.jsonl", "--model", model).output
    assert "1 new; 1 items" in printed
    assert "Skipped line 2 of bad.jsonl: Expected a JSON object" in printed


def test_features_from_a_file(tmp_path, world):
    split = load_dataset("synthetic")
    hasher = METHODS["cvh"](n_bits=16).fit(split.train)
    Model(hasher, training=TrainingRun("synthetic")).save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", split.query.images[:3])
    lines = [json.dumps({"image": str(world.paths[row])}) for row in range(3)]
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    options = ("--model", tmp_path / "model", "--features", tmp_path / "rows.npy")
    assert "3 new" in run("index", tmp_path / "c", tmp_path / "items.jsonl", *options).output
    item = Collection.open(tmp_path / "c").get(str(world.paths[1]), ["thumbnail", "path"])
    assert item.thumbnail
    assert item.path == str(world.paths[1])
