"""What runs without importing PyTorch: help, linear methods, and exported models."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from corrhash.collection.collection import Collection
from corrhash.datasets import PairedDataset, Reader, Vocabulary
from corrhash.methods.chn import CHN, Networks
from corrhash.methods.onnx_export import export_onnx
from corrhash.model import Model
from corrhash.training.config import Training

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


@pytest.mark.parametrize("method", ["CVH", "IMH", "CMSSH", "RaHH", "SCM", "SePH", "ClassifierCode"])
def test_methods_without_networks_do_not_import_pytorch(method):
    code = f"import sys; from corrhash.methods import {method}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_exported_model_searches_without_pytorch(collection, images, tmp_path):
    Image.fromarray(images[3]).save(tmp_path / "query.png")
    searches = (["boat", "sea"], ["--image", tmp_path / "query.png", "--find", "image"])
    before = [Collection.open(collection).search("boat sea")]
    before.append(Collection.open(collection).search(image=images[3]))
    export_onnx(collection / "model")
    for query, expected in zip(searches, before, strict=True):
        output, imported = corrhash("search", collection, *query, "--json")
        found = [(match["key"], match["distance"]) for match in json.loads(output)]
        assert found == [(match.key, match.distance) for match in expected]
        assert "onnxruntime" in imported
        assert not {name for name in imported if name.split(".")[0] == "torch"}
