"""What runs without importing heavy libraries: help, searches by text, exported networks."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from corrhash.collection.collection import Collection
from corrhash.datasets import PairedDataset, Reader, TextFeatures, Vocabulary
from corrhash.methods import METHODS
from corrhash.methods.chn import CHN, Networks
from corrhash.methods.onnx_export import export_onnx
from corrhash.model import Model
from corrhash.training.config import Training
from tests.networks import onnx_folders as tiny

TEXTS = ["a boat at sea", "trees on a hill"] * 20


def corrhash(*arguments):
    """Return the output of a command and the modules that it imported."""
    command = [sys.executable, "-X", "importtime", "-m", "corrhash", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line for line in ran.stderr.splitlines() if line.startswith("import time:"))
    return ran.stdout, {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 255, (40, 40, 40, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def collection(images, tmp_path_factory):
    """A collection in a folder, whose model has PyTorch networks until it is exported."""
    reader = Reader(Vocabulary.fit(TEXTS))
    pairs = PairedDataset(images, TEXTS, np.eye(2, dtype=int)[np.arange(40) % 2])
    hasher = CHN(16, networks=Networks(image_size=32, width=16), training=Training(epochs=1))
    folder = tmp_path_factory.mktemp("without") / "collection"
    filled = Collection.create(folder, Model(hasher.fit(reader.read(pairs)), reader))
    filled.add(
        {"key": f"item {i}", "image": image, "text": text}
        for i, (image, text) in enumerate(zip(images, TEXTS, strict=True))
    )
    return folder


def test_help_imports_no_heavy_library():
    output, imported = corrhash("--help")
    assert "export-onnx" in output
    assert "corrhash.cli" in imported
    heavy = {"torch", "numba", "scipy", "matplotlib", "sqlite3", "pyarrow", "pymilvus"}
    assert not imported & {*heavy, "onnxruntime"}


HEAVY = {"torch", "sklearn", "numba", "joblib", "onnxruntime", "scipy.stats", "scipy.linalg"}


def heavy(imported):
    return {name for name in imported if name in HEAVY or name.split(".")[0] in HEAVY}


SETTINGS = {
    **{name: {"refine_neighbours": 3} for name in METHODS if name.startswith("chn-plus")},
    "rahh": {"n_rounds": 2},
}


@pytest.mark.parametrize("name", METHODS)
def test_text_search_imports_no_heavy_library(name, tmp_path):
    """Of any method, in a small collection; chn-plus with query refinement."""
    texts = [
        f"{subject} {place}" for subject in ["boat", "cat", "dog", "tree"] for place in TEXTS[:9]
    ]
    labels = np.eye(4, dtype=int)[np.arange(36) // 9]
    features = labels @ np.random.default_rng(0).random((4, 12)) + 0.1 * np.eye(36)[:, :12]
    reader = Reader(Vocabulary.fit(texts, min_count=1))
    settings = dict(SETTINGS.get(name, {}))
    if "networks" in METHODS[name]().get_params():
        settings |= {"networks": Networks(width=8), "training": Training(epochs=1)}
    hasher = METHODS[name](4, **settings).fit(reader.read(PairedDataset(features, texts, labels)))
    collection = Collection.create(tmp_path / "collection", Model(hasher, reader))
    collection.add({"key": f"item {i}", "text": text} for i, text in enumerate(texts))
    expected = collection.search("boat sea", find="text")
    search = ("search", tmp_path / "collection", "boat", "sea", "--find", "text", "--json")
    output, imported = corrhash(*search)
    found = [(match["key"], match["distance"]) for match in json.loads(output)]
    assert found == [(match.key, match.distance) for match in expected]
    assert "corrhash.methods" in imported
    assert not heavy(imported)


def test_model_on_pixels_searches_by_text_without_pytorch(collection):
    expected = Collection.open(collection).search("boat sea")
    output, imported = corrhash("search", collection, "boat", "sea", "--json")
    assert [match["key"] for match in json.loads(output)] == [match.key for match in expected]
    assert not heavy(imported)


def test_exported_model_searches_by_image_without_pytorch(collection, images, tmp_path):
    Image.fromarray(images[3]).save(tmp_path / "query.png")
    expected = Collection.open(collection).search(image=images[3])
    export_onnx(collection / "model")
    output, imported = corrhash(
        "search", collection, "--image", tmp_path / "query.png", "--find", "image", "--json"
    )
    found = [(match["key"], match["distance"]) for match in json.loads(output)]
    assert found == [(match.key, match.distance) for match in expected]
    assert "onnxruntime" in imported
    assert "torch" not in imported


def test_sentence_encoder_searches_without_pytorch(tmp_path):
    encoder = tiny.save_sentence_encoder(tmp_path / "mini")
    reader = Reader(text_features=TextFeatures(f"onnx:{encoder}").pinned())
    texts = ["a red boat", "two tree sky", "red sea", "a tree", "boat sea", "two sky"] * 4
    features = np.random.default_rng(0).normal(size=(24, 6))
    hasher = METHODS["cvh"](4).fit(reader.read(PairedDataset(features, texts)))
    collection = Collection.create(tmp_path / "collection", Model(hasher, reader))
    collection.add({"key": f"item {i}", "text": text} for i, text in enumerate(texts))
    expected = collection.search("red tree", find="text")
    search = ("search", tmp_path / "collection", "red", "tree", "--find", "text", "--json")
    output, imported = corrhash(*search)
    assert [match["key"] for match in json.loads(output)] == [match.key for match in expected]
    assert {"onnxruntime", "tokenizers"} <= imported
    assert heavy(imported) == {name for name in imported if name.startswith("onnxruntime")}
