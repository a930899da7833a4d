"""The verbs evaluate, encode and export-onnx, and the error messages of all verbs for models."""

import dataclasses
import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from corrhash.codes import load_codes
from corrhash.datasets import load_dataset
from corrhash.model import load_model
from tests.cli.commands import fail, run
from tests.cli.image_folder import boats


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "model"
    arguments = ("--method", "cvh", "--bits", "24", "--set", "ridge=0.5", "--out", folder)
    result = run("train", "synthetic", *arguments)
    assert "Trained CVH, 24 bits, in" in result.output
    assert load_model(folder).hasher.ridge == 0.5
    return folder


def test_evaluate_in_both_directions(model):
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
    stable = run("evaluate", model, "synthetic", "--json", "--map-definition", "hashnet@50").stdout
    assert json.loads(stable)["all"]["text->image"]["ties"] == "stable"
    assert "mAP" in run("evaluate", model, "synthetic", "--ties", "optimistic").output


def test_the_next_command_after_evaluation_works(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = run("evaluate", model, "synthetic").output
    command = shlex.split(output[output.index("Next: corrhash ") :])[2:]
    assert command[:3] == ["index", "synthetic-collection", "synthetic"]
    printed = run(*command).output
    assert (tmp_path / "synthetic-collection").exists()
    command = shlex.split(printed[printed.index("Next: corrhash ") :])[2:]
    assert command == ["search", "synthetic-collection", "--key", "pair 0"]
    assert "pair " in run(*command).output


def test_evaluate_by_cosine_of_continuous_codes(model):
    by_code, by_score = (
        json.loads(run("evaluate", model, "synthetic", "--json", *option).stdout)["all"]
        for option in ((), ("--cosine",))
    )
    assert by_code["image->text"]["ranked_by"] == "hamming"
    assert by_score["image->text"]["ranked_by"] == "cosine"
    assert by_score["image->text"]["map"] > by_code["image->text"]["map"]


def test_evaluate_without_labels_or_without_a_database(tmp_path):
    folder = boats(tmp_path / "boats")
    (folder / "manifest.csv").unlink()
    for i in range(30):
        (folder / f"{i}.txt").write_text(f"a {'red boat' if i % 2 else 'green tree'} {i % 5}")
    run("train", folder, "--method", "cvh", "--bits", "4", "--out", tmp_path / "m")
    assert "Recall@10 of the paired sample" in run("evaluate", tmp_path / "m", folder).output
    rng = np.random.default_rng(0)
    rows = {"tr": 40, "te": 10}
    arrays = {f"I_{part}": rng.normal(size=(n, 4)) for part, n in rows.items()}
    arrays |= {f"T_{part}": rng.normal(size=(n, 4)) for part, n in rows.items()}
    arrays |= {f"L_{part}": np.eye(2)[np.arange(n) % 2] for part, n in rows.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    run("train", tmp_path / "a.npz", "--method", "cvh", "--bits", "4", "--out", tmp_path / "n")
    output = run("evaluate", tmp_path / "n", tmp_path / "a.npz").output
    assert "mAP" in output
    assert "without training items" not in output  # no item would remain


def test_encode_writes_the_codes_of_the_hasher(model, tmp_path):
    run("encode", model, "synthetic", "--part", "query", "--out", tmp_path / "codes.npz")
    codes, keys = load_codes(tmp_path / "codes.npz")
    trained = load_model(model)
    query = load_dataset("synthetic", reader=trained.reader).query
    np.testing.assert_array_equal(
        codes["text"].packed, trained.hasher.encode_text(query.texts).packed
    )
    assert keys.tolist() == query.row_keys()


def test_an_exported_model_encodes_without_pytorch(tmp_path):
    small = ("--set", "networks.width=16", "--set", "training.epochs=1", "--data", "n=780")
    model, codes = tmp_path / "model", [tmp_path / "torch.npz", tmp_path / "onnx.npz"]
    run("train", "synthetic", "--bits", 16, *small, "--out", model)
    run("encode", model, "synthetic", "--out", codes[0])
    output = run("export-onnx", model, "--check", "synthetic").output
    assert re.search(r"image-[0-9a-f]{16}.onnx: 0.0 MB", output.replace("\n", ""))
    for modality in ("image", "text"):
        assert re.search(
            rf"740 {modality}s: continuous codes differ by at most .*; \d of 11,840 bits", output
        )
    encode = [sys.executable, "-X", "importtime", "-m", "corrhash", "encode"]
    ran = subprocess.run(
        [*encode, model, "synthetic", "--out", codes[1]], capture_output=True, text=True, check=True
    )
    imported = [line.split("|")[-1].strip() for line in ran.stderr.splitlines()]
    assert not [name for name in imported if name.split(".")[0] in ("torch", "onnxruntime")]
    for modality in ("image", "text"):
        found = [load_codes(path)[0][modality].packed for path in codes]
        np.testing.assert_array_equal(found[0], found[1])


MISTAKES = {
    "'cats' is neither a dataset": "train cats --out x",
    "Unknown method 'best'": "train synthetic --method best --out x",
    "Error: --bits must be between 1 and 1024, got 0.": "train synthetic --bits 0 --out x",
    "--set must be NAME=VALUE, got 'ridge'": "train synthetic --method cvh --set ridge --out x",
    "has no parameter 'epz'": "train synthetic --method cvh --set epz=1 --out x",
    "use --bits": "train synthetic --method cvh --set n_bits=8 --out x",
    "ridge must be a number > 0, got 'abc'": "train synthetic --method cvh --set ridge=abc --out x",
    "epochs must be an integer >= 1, got 'abc'": (
        "train synthetic --method chn --set training.epochs=abc --out x"
    ),
    "margin must be greater than 0 and at most 1, got 7": (
        "train synthetic --method chn --set margin=7 --out x"
    ),
    "SCM cannot learn from pairs": ("train synthetic --method scm --supervision pairs --out x"),
    "Unknown dataset 'foo'. Datasets: ": "datasets foo",
    "Unknown supervision 'label', and no file": "train synthetic --supervision label --out x",
    "--pseudo-labels requires the supervision 'pseudo-labels', got 'pairs'": (
        "train synthetic --supervision pairs --pseudo-labels w --out x"
    ),
    "was trained on synthetic and cannot be used with scenes": "evaluate MODEL scenes",
    "Hasher is not a hashing method": "train synthetic --method corrhash.methods:Hasher --out x",
    "dumps is not a hashing method": "train synthetic --method json:dumps --out x",
    "No model in nowhere": "evaluate nowhere synthetic",
    "No model in m[bold]x": "evaluate m[bold]x synthetic",
    "No model in [/red]": "evaluate [/red] synthetic",
    "image features 'sift'": "train scenes --image-features sift --out x",
    "--image-features alexnet-fc7 needs images, but synthetic has feature vectors": (
        "train synthetic --image-features alexnet-fc7 --out x"
    ),
    "--backbone applies to images, got 'alexnet' for feature vectors": (
        "train synthetic --backbone alexnet --out x"
    ),
    "--backbone and --set networks.image=small set the same": (
        "train scenes --backbone small --set networks.image=small --out x"
    ),
    "Unknown device 'tpu'": "train scenes --device tpu --out x",
    "corrhash datasets check DATASET": "datasets check",
    "Unknown arguments 'checks scenes'. Usage: corrhash datasets": "datasets checks scenes",
    "--sheet applies to corrhash datasets check DATASET only": "datasets scenes --sheet x.png",
    "Error: n must be an integer, got 'abc'": "datasets check synthetic --data n=abc",
    "Error: n must be at least 12, got 10": "datasets check scenes --data n=10",
    "Error: --root applies to published datasets": "datasets check scenes --root x",
    "The name of a contact sheet must end in .jpg, .jpeg or .png, got 'x.txt'": (
        "datasets check scenes --sheet x.txt"
    ),
    "Unknown text option 'tops'": "train synthetic --texts tops=3 --out x",
    "--root applies to published datasets only": "train scenes --root data --out x",
    "--part must be one of train, validation, query, database, got 'test'": (
        "encode MODEL synthetic --part test --out x.npz"
    ),
    "The name of a file of codes must end in .npz, got 'codes.txt'": (
        "encode MODEL synthetic --out codes.txt"
    ),
    "The name of a file of codes must end in .npz, got 'x'": "encode MODEL synthetic --out x",
    "--frozen needs pretrained weights, but the backbone small": (
        "train scenes --data n=60 --frozen --out x"
    ),
    "networks.image_frozen needs pretrained weights": (
        "train scenes --data n=60 --set networks.image_frozen=true --out x"
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_print_an_error_message(message, model, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = [model if word == "MODEL" else word for word in MISTAKES[message].split()]
    assert message in fail(monkeypatch, capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_score_codes_of_a_model_as_evaluate_does(model, tmp_path):
    files = [tmp_path / f"{part}.npz" for part in ("query", "database")]
    for path in files:
        run("encode", model, "synthetic", "--part", path.stem, "--out", path)
    found = json.loads(run("score", *files, "--dataset", "synthetic", "--json").stdout)
    expected = json.loads(run("evaluate", model, "synthetic", "--json").stdout)
    for direction in ("image->text", "text->image"):
        assert found[direction] == expected["all"][direction]
    assert found["dataset"] == expected["dataset"]
    table = run("score", *files, "--dataset", "synthetic", "--map-definition", "trec@50").output
    assert "mAP definition: trec@50, ties: stable" in table
    assert "synthetic: data" in table


def test_score_one_file_with_labels(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (60, 3))
    codes = np.sign(labels @ rng.normal(size=(3, 16)) + rng.normal(size=(60, 16)))
    np.savez(
        tmp_path / "codes.npz",
        query_image=codes[:20],
        database_text=codes[20:],
        query_labels=labels[:20],
        database_labels=labels[20:],
    )
    output = run("score", tmp_path / "codes.npz").output
    assert "image → text" in output
    assert "text → image" not in output
    scores = json.loads(run("score", tmp_path / "codes.npz", "--json").stdout)
    assert set(scores) == {"image->text"}
    assert scores["image->text"]["n_queries"] == 20


def test_score_refuses_several_files_without_a_dataset(tmp_path, monkeypatch, capsys):
    message = fail(monkeypatch, capsys, "score", tmp_path / "a.npz", tmp_path / "b.npz")
    assert "Without --dataset, exactly one file of codes is accepted, got 2." in message
    message = fail(monkeypatch, capsys, "score", tmp_path / "a.npz")
    assert "File not found" in message
