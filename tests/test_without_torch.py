"""What starts without PyTorch: help, and searches whose model was exported."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from corrhash.collection import Collection
from corrhash.datasets import PairedDataset, Reader, Vocabulary
from corrhash.methods.chn import CHN, Networks
from corrhash.methods.onnx_export import export_onnx
from corrhash.methods.training import Training

TEXTS = ["a boat at sea", "trees on a hill"] * 20


def corrhash(*arguments):
    """What the command prints, and the modules that it imported."""
    command = [sys.executable, "-X", "importtime", "-m", "corrhash", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    told = (line for line in ran.stderr.splitlines() if line.startswith("import time:"))
    return ran.stdout, {line.rpartition("|")[2].strip() for line in told}


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(0).integers(0, 255, (40, 40, 40, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def collection(pictures, tmp_path_factory):
    """A collection in a folder, and with networks of PyTorch until its model is exported."""
    reader = Reader(Vocabulary.fit(TEXTS))
    pairs = PairedDataset(pictures, TEXTS, np.eye(2, dtype=int)[np.arange(40) % 2])
    hasher = CHN(16, networks=Networks(image_size=32, width=16), training=Training(epochs=1))
    folder = tmp_path_factory.mktemp("without") / "collection"
    filled = Collection.create(folder, hasher.fit(reader.read(pairs)), reader)
    filled.add(
        {"key": f"item {i}", "image": picture, "text": text}
        for i, (picture, text) in enumerate(zip(pictures, TEXTS, strict=True))
    )
    return folder


def test_help_imports_neither_pytorch_nor_other_heavy_libraries():
    said, imported = corrhash("--help")
    assert "export-onnx" in said
    assert "corrhash.cli" in imported
    heavy = {"torch", "numba", "scipy", "matplotlib", "lancedb", "pyarrow", "pymilvus"}
    assert not imported & {*heavy, "onnxruntime"}


def test_searches_through_exported_networks_answer_alike_without_pytorch(
    collection, pictures, tmp_path
):
    Image.fromarray(pictures[3]).save(tmp_path / "asked.png")
    searches = (["boat", "sea"], ["--image", tmp_path / "asked.png", "--find", "image"])
    before = [Collection.open(collection).search_text("boat sea")]
    before.append(Collection.open(collection).search_image(pictures[3], find="image"))
    export_onnx(collection / "model")
    for asked, expected in zip(searches, before, strict=True):
        said, imported = corrhash("search", collection, *asked, "--json")
        found = [(match["key"], match["distance"]) for match in json.loads(said)]
        assert found == [(match.key, match.distance) for match in expected]
        assert "onnxruntime" in imported
        assert not {name for name in imported if name.split(".")[0] == "torch"}
