"""The verb train: supervision, image options, user data, and errors before the work starts."""

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

from corrhash.calibration import DIRECTIONS
from corrhash.cli.train import keep_freed_memory
from corrhash.datasets import DATASETS, ImageFiles, PairedDataset, load_dataset
from corrhash.datasets.splits import draw_split
from corrhash.model import load_model
from corrhash.networks.alexnet import AlexNet
from corrhash.networks.small_cnn import SmallCNN
from tests.cli.commands import fail, run, stderr_of
from tests.cli.image_folder import boats
from tests.datasets.layouts import SMALL, coco
from tests.networks import onnx_folders as tiny

QUICK = ("--bits", "8", "--set", "training.epochs=1", "--set", "networks.width=16")


def test_settings_of_networks_and_training_history(tmp_path):
    settings = ("--set", "training.epochs=2", "--set", "networks.width=16")
    method = ("--method", "chn", "--bits", "8")
    output = run("train", "synthetic", *method, *settings, "--out", tmp_path / "m").output
    assert "Method: chn, 8 bits. Correlation Hashing Network" in output
    assert re.search(r"Trained CHN, 8 bits, in .* s: validation mAP 0\.\d{3}\.", output)
    assert re.search(r"calibration error by direction: image->image 0\.\d{3}, ", output)
    assert {*load_model(tmp_path / "m").calibration.directions} == {*DIRECTIONS}
    hasher = load_model(tmp_path / "m").hasher
    assert (hasher.training.epochs, hasher.networks.width) == (2, 16)
    assert hasher.training.checkpoint is None
    lines = (tmp_path / "m" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
    with Image.open(tmp_path / "m" / "training.png") as image:
        assert image.size[0] > 500
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_pseudo_labels_can_be_edited(tmp_path):
    terms = tmp_path / "model" / "pseudo_labels.txt"
    output = run(
        "train", "synthetic", *QUICK, "--supervision", "pseudo-labels", "--out", terms.parent
    ).output
    assert "pseudo-labels: column 22, column 6, " in output
    assert "Skipped" not in output  # every item has one
    assert f"Pseudo-labels: {terms}" in output
    lines = terms.read_text().splitlines()
    terms.write_text("\n".join(["# the first five only", *lines[2:7]]))
    output = run(
        "train", "synthetic", *QUICK, "--pseudo-labels", terms, "--out", terms.parent
    ).output
    assert "5 pseudo-labels: column 22" in output
    assert terms.read_text().startswith("# the first five only")
    assert load_model(terms.parent).training.supervision == "pseudo-labels"
    assert load_model(terms.parent).calibration.relevance == "pseudo-labels"
    assert "mAP" in run("evaluate", terms.parent, "synthetic").output


def test_train_on_pairs_and_on_judgments(tmp_path):
    model = tmp_path / "model"
    output = run("train", "synthetic", *QUICK, "--supervision", "pairs", "--out", model).output
    assert "an image is similar to its own text and to equal texts only" in output
    assert load_model(model).training.supervision == "pairs"
    keys = load_dataset("synthetic").train.row_keys()
    lines = [f"{a},{b},{1 if a == b else -1}\n" for a in keys[:20] for b in keys[:20]]
    (tmp_path / "clicks.csv").write_text("image,text,similar\n" + "".join(lines))
    clicks = ("--supervision", tmp_path / "clicks.csv")
    output = run("train", "synthetic", *QUICK, *clicks, "--out", model).output
    assert "clicks.csv, 400 judgments about training items" in output
    assert load_model(model).training.supervision == "clicks.csv"


def test_unsupervised_methods_report_unused_supervision(tmp_path):
    output = run(
        *("train", "synthetic", "--method", "cvh", "--bits", "8"),
        *("--supervision", "pseudo-labels", "--out", tmp_path / "m"),
    ).output
    assert "learns from the pairs alone, and ignores 'pseudo-labels'" in output
    assert load_model(tmp_path / "m").training.supervision == "none"
    assert not (tmp_path / "m" / "pseudo_labels.txt").exists()


def test_paper_settings_require_a_method_that_has_them(monkeypatch, capsys, tmp_path):
    epochs = ("--set", "training.epochs=1", "--set", "networks.width=16")
    chn, cvh = (("train", "synthetic", "--paper-settings", "--method", m) for m in ("chn", "cvh"))
    run(*chn, *epochs, "--out", tmp_path / "m")
    assert load_model(tmp_path / "m").hasher.training.optimizer == "sgd"
    assert "CVH has no paper settings" in fail(monkeypatch, capsys, *cvh, "--out", "x")


def test_a_method_can_be_given_by_import_path(tmp_path):
    method = "tests.methods.test_base:Thresholds"
    run("train", "synthetic", "--method", method, "--bits", "8", "--out", tmp_path)
    output = run("evaluate", tmp_path, "synthetic", "--method", method).output
    assert "mAP" in output


def next_line(output):
    return next(line for line in output.splitlines() if line.startswith("Next: corrhash "))


def test_the_next_command_after_training_works(tmp_path):
    folder = tmp_path / "my model"
    method = "tests.methods.test_base:Thresholds"
    output = run("train", "synthetic", "--method", method, "--bits", "8", "--out", folder).output
    command = shlex.split(next_line(output))[2:]
    assert "mAP" in run(*command).output


def load_images(seed=0):
    """A dataset of image files, one of them truncated."""
    folder = Path(os.environ["IMAGES"])
    rng = np.random.default_rng(seed)
    for i in range(60):
        pixels = rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.jpg")
    labels = np.eye(2, dtype=int)[np.arange(60) % 2]
    images = ImageFiles([folder / f"{i}.jpg" for i in range(60)])
    pairs = PairedDataset(images, ["sea boat", "cat"] * 30, labels)
    split = draw_split(pairs, "truncated", seed, n_query=5, n_validation=5, n_train=50)
    row = split.train_rows[20]
    images.paths[row].write_bytes(images.paths[row].read_bytes()[:700])
    return split


@pytest.mark.parametrize("method", ["chn", "cvh"])
def test_unreadable_images_are_reported_and_skipped(method, monkeypatch, capsys, tmp_path):
    (tmp_path / "images").mkdir()
    monkeypatch.setenv("IMAGES", str(tmp_path / "images"))
    monkeypatch.setitem(DATASETS.import_paths, "truncated", "tests.cli.test_train:load_images")
    few_epochs = ("--set", "training.epochs=1") if method == "chn" else ()
    arguments = ("--method", method, "--bits", "2", *few_epochs, "--out", tmp_path / "m")
    output = stderr_of(monkeypatch, capsys, "train", "truncated", *arguments)
    assert "skipping 1 of 60 images (train 1, validation 0, query 0, database 1)" in output
    assert re.search(r"\d+.jpg: image file is truncated", output)


def test_a_moved_folder_is_evaluated_a_changed_one_is_not(monkeypatch, capsys, tmp_path):
    folder = boats(tmp_path / "boats")
    model = tmp_path / "model"
    arguments = ("--method", "cvh", "--bits", "4", "--texts", "stop_words=true", "--out", model)
    output = run("train", folder, "--data", "n_query=6", *arguments).output
    assert "Dataset: boats, " in output
    assert "Fingerprint: data " in output
    assert load_model(model).reader.vocabulary.terms == ("boat", "green", "red", "tree")
    command = shlex.split(next_line(output))[2:]
    assert "Fingerprint" in output
    assert "mAP" in run(*command).output
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    scores = json.loads(run("evaluate", model, moved / "manifest.csv", "--json").stdout)
    assert scores["all"]["text->image"]["n_queries"] in (5, 6)
    (moved / "manifest.csv").write_text((moved / "manifest.csv").read_text() + "\n29.jpg,a sea,")
    output = fail(monkeypatch, capsys, "evaluate", model, moved)
    assert "is not the dataset the model was trained on" in output


def test_the_root_of_a_published_dataset_can_move(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coco(tmp_path / "data")
    sizes = [word for name, n in SMALL.items() for word in ("--data", f"{name}={n}")]
    train = ("--method", "cvh", "--bits", "4", *sizes, "--out", "model")
    run("train", "coco", "--root", "data", *train)
    assert "mAP" in run("evaluate", "model", "coco").output
    (tmp_path / "data").rename(tmp_path / "moved")
    assert "mAP" in run("evaluate", "model", "coco", "--root", "moved").output


def few(seed=0):
    """A dataset of 24 small images."""
    images = np.random.default_rng(seed).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)
    pairs = PairedDataset(images, ["red boat", "green tree"] * 12, np.tile(np.eye(2), (12, 1)))
    return draw_split(pairs, "few", seed, n_query=4, n_validation=4, n_train=16)


@pytest.fixture
def few_images(monkeypatch, tmp_path):
    monkeypatch.setitem(DATASETS.import_paths, "few", f"{__name__}:few")
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    return "few"


def test_image_features_are_cached_across_verbs(few_images, monkeypatch, capsys, tmp_path):
    weights, model = tmp_path / "backbone.safetensors", tmp_path / "model"
    state = AlexNet().state_dict()
    save_file({name: v for name, v in state.items() if name.startswith("features.")}, weights)
    options = ("--image-features", "alexnet-pool5", "--weights", weights)
    output = stderr_of(monkeypatch, capsys, "train", few_images, *options, *QUICK, "--out", model)
    assert "Features of 24 images: 0 from the cache, 24 computed" in output
    assert "Image network: FeatureMLP, from scratch." in output
    output = stderr_of(monkeypatch, capsys, "evaluate", model, few_images)
    assert "Features of 24 images: 24 from the cache, 0 computed" in output
    elsewhere = ("--cache", tmp_path / "elsewhere", "--out", tmp_path / "codes.npz")
    output = stderr_of(monkeypatch, capsys, "encode", model, few_images, *elsewhere)
    assert f"24 computed. Cache: {tmp_path / 'elsewhere'}" in output
    trained = load_model(model)
    raw = few().query.images
    scores = trained.hasher.embed_image(trained.reader.read_images(raw))
    read = trained.load_split(few_images).query.images
    np.testing.assert_array_equal(scores, trained.hasher.embed_image(read))
    weights.unlink()
    output = fail(monkeypatch, capsys, "evaluate", model, few_images)
    assert f"{weights} for its image features. Restore it" in output


def test_image_features_from_a_file(few_images, monkeypatch, capsys, tmp_path):
    features, model = tmp_path / "f.npy", tmp_path / "model"
    rows = np.random.default_rng(0).normal(size=(24, 12))
    np.save(features, rows)
    options = ("--method", "cvh", "--bits", "4", "--image-features", features, "--out", model)
    run("train", few_images, *options)
    assert "mAP" in run("evaluate", model, few_images).output
    np.save(features, rows[:23])
    assert "23 rows, but the dataset has 24 items" in fail(
        monkeypatch, capsys, "train", few_images, *options
    )
    assert "f.npy has changed since the model was trained" in fail(
        monkeypatch, capsys, "evaluate", model, few_images
    )


def test_a_backbone_starts_from_pretrained_weights(few_images, monkeypatch, capsys, tmp_path):
    weights, model = tmp_path / "small.safetensors", tmp_path / "model"
    save_file(SmallCNN().state_dict(), weights)
    options = ("--backbone", "small", "--weights", weights, "--frozen", "--device", "cpu")
    output = stderr_of(monkeypatch, capsys, "train", few_images, *options, *QUICK, "--out", model)
    assert f"Image network: small, 24 parameters from {weights}; from scratch: nothing" in output
    hasher = load_model(model).hasher
    assert (hasher.networks.image_weights, hasher.networks.image_frozen) == (str(weights), True)
    output = run("methods", "chn").output
    assert "--backbone sets networks.image" in output
    assert "Options:" not in run("methods", "cvh").output


def test_an_unwritable_folder_fails_before_training(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    output = fail(monkeypatch, capsys, "train", "synthetic", "--out", tmp_path / "file")
    assert "is a file. Choose a folder" in output
    output = fail(monkeypatch, capsys, "demo", "--out", tmp_path / "file")
    assert "Cannot make the folder" in output


PROGRAM = """
import resource
import numpy as np
from corrhash.cli.train import keep_freed_memory

def faults():
    start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(16_000_000, np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start

before = faults()
print(keep_freed_memory())
np.ones(16_000_000, np.float32)
print(before, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps freed memory")
def test_freed_memory_is_reused():
    supported, counts = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if supported == "False":
        pytest.skip("this C library has no mallopt")
    before, after = map(int, counts.split())
    assert after < before / 4


def test_other_systems_do_not_keep_freed_memory(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False


@pytest.fixture
def photos(tmp_path):
    """Image files with captions beside them."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(30):
        pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
        (folder / f"{i}.txt").write_text(["a red boat", "two tree sky"][i % 2])
    return folder


def test_photos_are_read_by_the_best_encoders(photos, tmp_path, monkeypatch):
    encoders = tmp_path / "encoders"
    tiny.save_image_encoder(encoders / "dinov2")
    tiny.save_sentence_encoder(encoders / "minilm")
    monkeypatch.setenv("CORRHASH_ENCODERS", str(encoders))
    train = ("train", photos, *QUICK, "--supervision", "pairs", "--out", tmp_path / "model")
    output = run(*train).output
    assert "Encoders: onnx:dinov2 and onnx:minilm. Choose others with --image-features." in output
    reader = load_model(tmp_path / "model").reader
    assert reader.image_features.name == f"onnx:{encoders / 'dinov2'}"
    assert reader.text_features.name == f"onnx:{encoders / 'minilm'}"
    run("index", tmp_path / "album", photos, "--model", tmp_path / "model")
    assert "distance" in run("search", tmp_path / "album", "sea").output  # no caption has it
    output = run(*train, "--image-features", "simple").output
    assert "Encoders:" not in output
    assert load_model(tmp_path / "model").reader.text_features is None


def test_photos_have_longer_codes_by_default(photos, tmp_path, monkeypatch):
    tiny.save_image_encoder(tmp_path / "encoders" / "dinov2")
    monkeypatch.setenv("CORRHASH_ENCODERS", str(tmp_path / "encoders"))
    quick = ("--set", "training.epochs=1", "--set", "networks.width=8")
    n_bits = {}
    for name, options in {
        "default": quick,
        "chosen bits": (*quick, "--bits", "8"),
        "chosen features": (*quick, "--image-features", "simple"),
        "not a network": ("--method", "lsh"),
    }.items():
        run("train", photos, *options, "--out", tmp_path / name)
        n_bits[name] = load_model(tmp_path / name).n_bits
    assert n_bits == {"default": 256, "chosen bits": 8, "chosen features": 64, "not a network": 64}


def test_training_from_scratch_is_announced_or_asked_for(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CORRHASH_ENCODERS", str(tmp_path / "none"))
    train = ("train", photos, *QUICK, "--supervision", "pairs", "--set", "networks.image_size=32")
    monkeypatch.setenv("COLUMNS", "400")
    scratch = ("train", photos, *QUICK, "--supervision", "pairs", "--out", tmp_path / "m")
    output = stderr_of(monkeypatch, capsys, *scratch)
    assert "WARNING: no pretrained encoder is available, so a small network is trained" in output
    assert "downloads are disabled" in output
    asked = (*train, "--image-features", "raw", "--backbone", "small", "--out", tmp_path / "m")
    output = stderr_of(monkeypatch, capsys, *asked)
    assert "WARNING" not in output
    linear = ("train", photos, "--method", "cvh", "--bits", "1", "--out", tmp_path / "c")
    assert "so images are described by colours and edges" in stderr_of(monkeypatch, capsys, *linear)
