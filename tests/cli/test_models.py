"""The verbs on models: what they leave behind, and what they say of mistakes."""

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file

from corrhash.codes import load_codes
from corrhash.datasets import DATASETS, ImageFiles, PairedDataset, load_dataset
from corrhash.datasets.splits import draw_split
from corrhash.experiments.trained_model import TrainedModel
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.small import SmallCNN
from tests.cli.commands import fail, run, say
from tests.cli.own_pictures import boats
from tests.datasets.layouts import SMALL, coco


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    arguments = ("--method", "cvh", "--bits", "24", "--set", "eps=0.5", "--out", folder)
    result = run("train", "synthetic", *arguments)
    assert "Trained CVH of 24 bits" in result.output
    assert TrainedModel.load(folder).hasher.eps == 0.5
    return folder


def test_an_exported_model_encodes_without_loading_pytorch(tmp_path):
    small = ("--set", "networks.width=16", "--set", "training.epochs=1", "--data", "n=780")
    model, codes = tmp_path / "model", [tmp_path / "torch.npz", tmp_path / "onnx.npz"]
    run("train", "synthetic", "--bits", 16, *small, "--out", model)
    run("encode", model, "synthetic", "--out", codes[0])
    output = run("export-onnx", model, "--check", "synthetic").output
    assert re.search(r"image-[0-9a-f]{16}.onnx: 0.0 MB", output.replace("\n", ""))
    for side in ("image", "text"):
        assert re.search(rf"740 {side}s: scores differ by at most .*; \d of 11,840 bits", output)
    encode = [sys.executable, "-X", "importtime", "-m", "corrhash", "encode"]
    ran = subprocess.run(
        [*encode, model, "synthetic", "--out", codes[1]], capture_output=True, text=True, check=True
    )
    imported = [line.split("|")[-1].strip() for line in ran.stderr.splitlines()]
    assert "onnxruntime" in imported
    assert not [name for name in imported if name.split(".")[0] == "torch"]
    found = [load_codes(path)[0]["text"].packed for path in codes]
    assert (found[0] == found[1]).mean() > 0.999  # scores of nearly 0 may fall on either side


def test_a_model_is_evaluated_in_both_directions(model):
    output = run("evaluate", model, "synthetic").output
    assert "image → text" in output
    assert "database without training items" in output
    scores = json.loads(run("evaluate", model, "synthetic", "--json").stdout)
    assert set(scores) == {"all", "without_training_items", "dataset"}
    assert scores["dataset"] == {
        "name": "synthetic",
        **dataclasses.asdict(load_dataset("synthetic").fingerprint),
    }
    assert scores["all"]["image->text"]["map"] > 0.36
    parts = ("all", "without_training_items")
    sizes = [scores[which]["text->image"]["n_database"] for which in parts]
    assert sizes == [7400, 4400]
    stable = run("evaluate", model, "synthetic", "--json", "--reading", "hashnet@50").stdout
    assert json.loads(stable)["all"]["text->image"]["ties"] == "stable"
    assert "MAP" in run("evaluate", model, "synthetic", "--ties", "optimistic").output


def test_a_model_is_evaluated_before_its_scores_are_rounded_to_codes(model):
    by_code, by_score = (
        json.loads(run("evaluate", model, "synthetic", "--json", *option).stdout)["all"]
        for option in ((), ("--cosine",))
    )
    assert by_code["image->text"]["ranked_by"] == "hamming"
    assert by_score["image->text"]["ranked_by"] == "cosine"
    assert by_score["image->text"]["map"] > by_code["image->text"]["map"]


def test_a_network_is_trained_with_its_settings_and_leaves_its_history(tmp_path):
    settings = ("--set", "training.epochs=2", "--set", "networks.width=16")
    run("train", "synthetic", "--method", "chn", "--bits", "8", *settings, "--out", tmp_path / "m")
    hasher = TrainedModel.load(tmp_path / "m").hasher
    assert (hasher.training.epochs, hasher.networks.width) == (2, 16)
    assert hasher.training.checkpoint is None
    lines = (tmp_path / "m" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
    with Image.open(tmp_path / "m" / "training.png") as picture:
        assert picture.size[0] > 500
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


QUICK = ("--bits", "8", "--set", "training.epochs=1", "--set", "networks.width=16")


def test_words_teach_and_can_be_edited(tmp_path):
    words = tmp_path / "model" / "words.txt"
    said = run("train", "synthetic", *QUICK, "--supervision", "words", "--out", words.parent).output
    assert "words act as labels: column 22, column 6, " in said
    assert "training items carry none and are left out" in said
    assert f"Words that act as labels: {words}" in said
    lines = words.read_text().splitlines()
    words.write_text("\n".join(["# the first five alone", *lines[2:7]]))
    said = run("train", "synthetic", *QUICK, "--words", words, "--out", words.parent).output
    assert "5 words act as labels: column 22" in said
    assert words.read_text().startswith("# the first five alone")
    assert TrainedModel.load(words.parent).supervision == "words"
    assert "MAP" in run("evaluate", words.parent, "synthetic").output


def test_the_pairing_and_judged_pairs_teach(tmp_path):
    model = tmp_path / "model"
    said = run("train", "synthetic", *QUICK, "--supervision", "pairs", "--out", model).output
    assert "an image is similar to its own text alone" in said
    assert TrainedModel.load(model).supervision == "pairs"
    keys = load_dataset("synthetic").train.row_keys()
    lines = [f"{a},{b},{1 if a == b else -1}\n" for a in keys[:20] for b in keys[:20]]
    (tmp_path / "clicks.csv").write_text("image,text,similar\n" + "".join(lines))
    clicks = ("--supervision", tmp_path / "clicks.csv")
    said = run("train", "synthetic", *QUICK, *clicks, "--out", model).output
    assert "clicks.csv, 400 judged pairs of training items" in said
    assert TrainedModel.load(model).supervision == "clicks.csv"


def test_a_method_that_needs_no_supervision_says_so(tmp_path):
    said = run(
        *("train", "synthetic", "--method", "cvh", "--bits", "8"),
        *("--supervision", "words", "--out", tmp_path / "m"),
    ).output
    assert "learns from the pairs alone, and 'words' plays no part" in said
    assert TrainedModel.load(tmp_path / "m").supervision == "none"
    assert not (tmp_path / "m" / "words.txt").exists()


def load_pictures(seed=0):
    """A dataset of picture files, of which one was cut off."""
    folder = Path(os.environ["PICTURES"])
    rng = np.random.default_rng(seed)
    for i in range(60):
        pixels = rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.jpg")
    labels = np.eye(2, dtype=int)[np.arange(60) % 2]
    images = ImageFiles([folder / f"{i}.jpg" for i in range(60)])
    pairs = PairedDataset(images, ["sea boat", "cat"] * 30, labels)
    split = draw_split(pairs, "pictures", seed, n_query=5, n_validation=5, n_train=50)
    row = split.train_rows[20]
    images.paths[row].write_bytes(images.paths[row].read_bytes()[:700])
    return split


@pytest.mark.parametrize("method", ["chn", "cvh"])
def test_a_picture_that_cannot_be_read_is_named_and_left_out(method, monkeypatch, capsys, tmp_path):
    (tmp_path / "pictures").mkdir()
    monkeypatch.setenv("PICTURES", str(tmp_path / "pictures"))
    monkeypatch.setitem(DATASETS.places, "pictures", "tests.cli.test_models:load_pictures")
    few_epochs = ("--set", "training.epochs=1") if method == "chn" else ()
    arguments = ("--method", method, "--bits", "2", *few_epochs, "--out", tmp_path / "m")
    said = say(monkeypatch, capsys, "train", "pictures", *arguments)
    assert "1 of 60 pictures are left out (train 1, validation 0, query 0, database 1)" in said
    assert re.search(r"\d+.jpg: image file is truncated", said)


def test_ones_own_pictures_are_trained_on_evaluated_moved_and_not_changed(
    monkeypatch, capsys, tmp_path
):
    folder = boats(tmp_path / "boats")
    model = tmp_path / "model"
    arguments = ("--method", "cvh", "--bits", "4", "--texts", "stop_words=true", "--out", model)
    said = run("train", folder, "--data", "n_query=6", *arguments).output
    assert "boats: " in said
    assert "Fingerprint: data " in said
    assert TrainedModel.load(model).reader.vocabulary.words == ("boat", "green", "red", "tree")
    words = shlex.split(said[said.index("Next: corrhash ") :])[2:]
    assert "Fingerprint" in said
    assert "MAP" in run(*words).output
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    scores = json.loads(run("evaluate", model, moved / "manifest.csv", "--json").stdout)
    assert scores["all"]["text->image"]["n_queries"] in (5, 6)
    (moved / "manifest.csv").write_text((moved / "manifest.csv").read_text() + "\n29.jpg,a sea,")
    said = fail(monkeypatch, capsys, "evaluate", model, moved)
    assert "is not what the model was trained on" in said


def test_a_folder_without_labels_and_arrays_without_a_database_are_evaluated(tmp_path):
    folder = boats(tmp_path / "boats")
    (folder / "manifest.csv").unlink()
    for i in range(30):
        (folder / f"{i}.txt").write_text(f"a {'red boat' if i % 2 else 'green tree'} {i % 5}")
    run("train", folder, "--method", "cvh", "--bits", "4", "--out", tmp_path / "m")
    assert "partner among the first 10" in run("evaluate", tmp_path / "m", folder).output
    rng = np.random.default_rng(0)
    rows = {"tr": 40, "te": 10}
    arrays = {f"I_{part}": rng.normal(size=(n, 4)) for part, n in rows.items()}
    arrays |= {f"T_{part}": rng.normal(size=(n, 4)) for part, n in rows.items()}
    arrays |= {f"L_{part}": np.eye(2)[np.arange(n) % 2] for part, n in rows.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    run("train", tmp_path / "a.npz", "--method", "cvh", "--bits", "4", "--out", tmp_path / "n")
    said = run("evaluate", tmp_path / "n", tmp_path / "a.npz").output
    assert "MAP" in said
    assert "without training items" not in said  # nothing would be left


def test_a_published_dataset_is_found_below_its_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coco(tmp_path / "data")
    sizes = [word for name, n in SMALL.items() for word in ("--data", f"{name}={n}")]
    train = ("--method", "cvh", "--bits", "4", *sizes, "--out", "model")
    run("train", "coco", "--root", "data", *train)
    assert "MAP" in run("evaluate", "model", "coco").output
    (tmp_path / "data").rename(tmp_path / "moved")
    assert "MAP" in run("evaluate", "model", "coco", "--root", "moved").output


def test_the_literal_mode_is_for_methods_that_have_one(monkeypatch, capsys, tmp_path):
    epochs = ("--set", "training.epochs=1", "--set", "networks.width=16")
    run("train", "synthetic", "--method", "chn", "--literal", *epochs, "--out", tmp_path / "m")
    assert not TrainedModel.load(tmp_path / "m").hasher.pair_weights
    said = fail(
        monkeypatch, capsys, "train", "synthetic", "--method", "cvh", "--literal", "--out", "x"
    )
    assert "CVH has one mode only" in said


def test_encoded_items_are_those_that_python_encodes(model, tmp_path):
    run("encode", model, "synthetic", "--part", "query", "--out", tmp_path / "codes.npz")
    codes, keys = load_codes(tmp_path / "codes.npz")
    trained = TrainedModel.load(model)
    query = load_dataset("synthetic", reader=trained.reader).query
    np.testing.assert_array_equal(
        codes["text"].packed, trained.hasher.encode_text(query.texts).packed
    )
    assert keys.tolist() == query.row_keys()


def test_a_method_of_ones_own_is_named_by_its_place(tmp_path):
    place = "tests.methods.test_base:Thresholds"
    run("train", "synthetic", "--method", place, "--bits", "8", "--out", tmp_path)
    output = run("evaluate", tmp_path, "synthetic", "--method", place).output
    assert "MAP" in output


def test_the_next_command_that_training_names_works(tmp_path):
    folder = tmp_path / "my model"
    place = "tests.methods.test_base:Thresholds"
    said = run("train", "synthetic", "--method", place, "--bits", "8", "--out", folder).output
    words = shlex.split(said[said.index("Next: corrhash ") :])[2:]
    assert "MAP" in run(*words).output


def few(seed=0):
    """A dataset of 24 pictures, which a large network reads in no time."""
    pictures = np.random.default_rng(seed).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)
    pairs = PairedDataset(pictures, ["red boat", "green tree"] * 12, np.tile(np.eye(2), (12, 1)))
    return draw_split(pairs, "few", seed, n_query=4, n_validation=4, n_train=16)


@pytest.fixture
def few_pictures(monkeypatch, tmp_path):
    monkeypatch.setitem(DATASETS.places, "few", f"{__name__}:few")
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    return "few"


QUICK = ("--bits", "8", "--set", "training.epochs=1", "--set", "networks.width=8")


def test_features_of_a_network_are_computed_once_for_all_verbs(
    few_pictures, monkeypatch, capsys, tmp_path
):
    weights, model = tmp_path / "trunk.safetensors", tmp_path / "model"
    state = AlexNet().state_dict()
    save_file({name: v for name, v in state.items() if name.startswith("features.")}, weights)
    how = ("--image-features", "alexnet-pool5", "--weights", weights)
    said = say(monkeypatch, capsys, "train", few_pictures, *how, *QUICK, "--out", model)
    assert "Features of 24 pictures: 0 from the cache, 24 computed" in said
    assert "Image network: hidden layers on ready features, from scratch." in said
    said = say(monkeypatch, capsys, "evaluate", model, few_pictures)
    assert "Features of 24 pictures: 24 from the cache, 0 computed" in said
    elsewhere = ("--cache", tmp_path / "elsewhere", "--out", tmp_path / "codes.npz")
    said = say(monkeypatch, capsys, "encode", model, few_pictures, *elsewhere)
    assert f"24 computed. The cache is {tmp_path / 'elsewhere'}" in said
    trained = TrainedModel.load(model)
    raw = few().query.images
    scores = trained.hasher.score_image(trained.reader.read_images(raw))
    read = trained.load_split(few_pictures).query.images
    np.testing.assert_array_equal(scores, trained.hasher.score_image(read))
    weights.unlink()
    said = fail(monkeypatch, capsys, "evaluate", model, few_pictures)
    assert f"The model reads pictures with {weights}, which is not there." in said


def test_features_of_a_file_serve_the_items_of_their_dataset(
    few_pictures, monkeypatch, capsys, tmp_path
):
    features, model = tmp_path / "f.npy", tmp_path / "model"
    rows = np.random.default_rng(0).normal(size=(24, 12))
    np.save(features, rows)
    how = ("--method", "cvh", "--bits", "4", "--image-features", features, "--out", model)
    run("train", few_pictures, *how)
    assert "MAP" in run("evaluate", model, few_pictures).output
    np.save(features, rows[:23])
    assert "23 rows, and the dataset 24 items" in fail(
        monkeypatch, capsys, "train", few_pictures, *how
    )
    assert "is not what the model was trained with" in fail(
        monkeypatch, capsys, "evaluate", model, few_pictures
    )


def test_a_backbone_starts_from_weights_and_says_so(few_pictures, monkeypatch, capsys, tmp_path):
    weights, model = tmp_path / "small.safetensors", tmp_path / "model"
    save_file(SmallCNN().state_dict(), weights)
    how = ("--backbone", "small", "--weights", weights, "--frozen", "--device", "cpu")
    said = say(monkeypatch, capsys, "train", few_pictures, *how, *QUICK, "--out", model)
    assert f"Image network: small, 24 parameters from {weights}; from scratch: nothing" in said
    hasher = TrainedModel.load(model).hasher
    assert (hasher.networks.image_weights, hasher.networks.image_frozen) == (str(weights), True)
    assert hasher.training.device == "cpu"
    said = run("methods", "chn").output
    assert "--backbone for networks.image" in said
    assert "In short" not in run("methods", "cvh").output


HASHER = "corrhash.methods:Hasher"
MISTAKES = {
    "no dataset 'cats'": ["train", "cats", "--out", "x"],
    "no method 'best'": ["train", "synthetic", "--method", "best", "--out", "x"],
    "n_bits must be from 1 to 1024. Got 0": ["train", "synthetic", "--bits", "0", "--out", "x"],
    "NAME=VALUE. Got 'eps'": [
        "train",
        "synthetic",
        "--method",
        "cvh",
        "--set",
        "eps",
        "--out",
        "x",
    ],
    "has no parameter 'epz'": [
        "train",
        "synthetic",
        "--method",
        "cvh",
        "--set",
        "epz=1",
        "--out",
        "x",
    ],
    "use --bits": ["train", "synthetic", "--method", "cvh", "--set", "n_bits=8", "--out", "x"],
    "a number above 0. Got 'abc'": [
        "train",
        "synthetic",
        "--method",
        "cvh",
        "--set",
        "eps=abc",
        "--out",
        "x",
    ],
    "no supervision 'label', and no such file": [
        *("train", "synthetic", "--supervision", "label", "--out", "x")
    ],
    "goes with the supervision 'words'. Got 'pairs'": [
        *("train", "synthetic", "--supervision", "pairs", "--words", "w", "--out", "x")
    ],
    "trained on synthetic, and reads its items only. Got scenes": ["evaluate", "MODEL", "scenes"],
    "Hasher is not a method": ["train", "synthetic", "--method", HASHER, "--out", "x"],
    "dumps is not a method": ["train", "synthetic", "--method", "json:dumps", "--out", "x"],
    "no model in nowhere": ["evaluate", "nowhere", "synthetic"],
    "no model in m[bold]x": ["evaluate", "m[bold]x", "synthetic"],
    "no model in [/red]": ["evaluate", "[/red]", "synthetic"],
    "no image features 'sift'": ["train", "scenes", "--image-features", "sift", "--out", "x"],
    "feature vectors already. Leave them out": [
        *("train", "synthetic", "--image-features", "alexnet-fc7", "--out", "x")
    ],
    "image='alexnet' is for a network that reads pictures": [
        *("train", "synthetic", "--backbone", "alexnet", "--out", "x")
    ],
    "--device and --set training.device=cpu decide the same": [
        *("train", "scenes", "--device", "cpu", "--set", "training.device=cpu", "--out", "x")
    ],
    "Write: corrhash datasets": ["datasets", "check"],
    "--texts has no 'tops'": ["train", "synthetic", "--texts", "tops=3", "--out", "x"],
    "no files below a root": ["train", "scenes", "--root", "data", "--out", "x"],
    "no part 'test'": ["encode", "nowhere", "synthetic", "--part", "test", "--out", "x"],
}


def test_a_place_that_cannot_be_written_is_told_before_the_work(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    said = fail(monkeypatch, capsys, "train", "synthetic", "--out", tmp_path / "file")
    assert "is a file. Give a folder" in said
    said = fail(monkeypatch, capsys, "demo", "--out", tmp_path / "file")
    assert "Cannot make the folder" in said


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_answered_by_a_sentence(message, model, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = [model if word == "MODEL" else word for word in MISTAKES[message]]
    said = fail(monkeypatch, capsys, *arguments)
    assert message in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
