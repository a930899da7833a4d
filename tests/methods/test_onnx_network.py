"""Exported networks: the codes of PyTorch to five digits, without importing PyTorch."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods import METHODS, Hasher
from corrhash.methods.cvh import CVH
from corrhash.methods.onnx_export import compare, export_onnx
from corrhash.networks.config import Networks
from corrhash.training.config import Training

QUICK = Training(epochs=1)
SMALL = Networks(image_size=32)


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(300, seed=1)


@pytest.fixture(scope="module")
def images():
    images = np.random.default_rng(0).integers(0, 255, (70, 70, 80, 3), dtype=np.uint8)
    labels = np.eye(2, dtype=int)[np.arange(70) % 2]
    return PairedDataset(images, labels.astype(np.float32), labels)


def train_and_export(name, pairs, folder, networks):
    hasher = METHODS[name](24, networks=networks, training=QUICK).fit(pairs)
    hasher.save(folder)
    export_onnx(folder)
    return hasher


def check_same_codes(folder, images):
    """Compare the codes of ONNX Runtime with those of PyTorch."""
    exported = Hasher.load(folder)
    trained = type(exported).load(folder)
    assert exported._exported is not None
    assert trained._exported is None
    expected, found = trained.embed_image(images), exported.embed_image(images)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, atol=1e-5)
    clear = abs(expected) > 1e-5
    np.testing.assert_array_equal(
        exported.encode_image(images).signs()[clear],
        Codes.from_continuous(expected).signs()[clear],
    )


@pytest.mark.parametrize(("name", "depth"), [("chn", 1), ("mmnn", 2), ("dcmh", 0)])
def test_networks_on_features_give_the_same_codes(name, depth, pairs, tmp_path):
    hasher = train_and_export(name, pairs, tmp_path, Networks(width=64, depth=depth))
    image, text = compare(tmp_path, hasher, pairs)
    assert (image.n_items, image.n_bits) == (300, 300 * 24)
    assert image.small
    assert text.small


def test_square_roots_of_features_are_exported(pairs, tmp_path):
    positive = replace(pairs, images=abs(pairs.images))
    hasher = train_and_export("chn", positive, tmp_path, Networks(width=64))
    assert hasher.image_network_.body.standardize.takes_sqrt
    assert compare(tmp_path, hasher, positive)[0].small


def test_networks_on_features_are_not_run_by_onnx(pairs, tmp_path):
    train_and_export("chn", pairs, tmp_path, Networks(width=64))
    assert Hasher.load(tmp_path)._exported is None


@pytest.mark.parametrize("networks", [Networks(), Networks(image_size=40)])
def test_networks_on_images_give_the_same_codes(networks, images, tmp_path):
    train_and_export("chn", images, tmp_path, networks)
    check_same_codes(tmp_path, images.images)


ENCODE = """
import sys
import numpy as np
from corrhash.methods import Hasher

hasher = Hasher.load(sys.argv[1])
images = np.random.default_rng(0).integers(0, 255, (3, 50, 60, 3), dtype=np.uint8)
np.save(sys.argv[2], np.vstack([hasher.embed_image(images), hasher.embed_text(np.eye(2))]))
assert "torch" not in sys.modules, "torch was imported"
"""


def test_encoding_images_does_not_import_pytorch(images, tmp_path):
    hasher = train_and_export("chn", images, tmp_path / "model", Networks(image_size=32))
    found = tmp_path / "codes.npy"
    subprocess.run([sys.executable, "-c", ENCODE, tmp_path / "model", found], check=True)
    asked = np.random.default_rng(0).integers(0, 255, (3, 50, 60, 3), dtype=np.uint8)
    expected = np.vstack([hasher.embed_image(asked), hasher.embed_text(np.eye(2))])
    np.testing.assert_allclose(np.load(found), expected, atol=1e-5)


@pytest.fixture(scope="module")
def exported_folder(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    train_and_export("chn-b", images, folder, SMALL)
    return folder


@pytest.fixture
def folder(exported_folder, tmp_path):
    """A copy that a test can damage."""
    Hasher.load(exported_folder).save(tmp_path / "model")
    return tmp_path / "model"


def test_saving_a_model_copies_its_exported_networks(folder, exported_folder, images):
    before = {path.name: path.read_bytes() for path in exported_folder.iterdir()}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    Hasher.load(folder).save(folder)  # onto itself
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    check_same_codes(folder, images.images)


def test_fitting_again_drops_the_exported_networks(folder, images):
    hasher = Hasher.load(folder).fit(images)
    assert hasher._exported is None


def test_pytorch_is_used_without_onnx_runtime(folder, monkeypatch):
    monkeypatch.setattr("corrhash.methods.onnx_network.has_runtime", lambda: False)
    assert Hasher.load(folder)._exported is None


def test_networks_of_an_earlier_model_are_ignored(folder, images):
    again = METHODS["chn-b"](24, networks=SMALL, training=replace(QUICK, seed=1)).fit(images)
    again.save(folder)
    assert Hasher.load(folder)._exported is None
    with pytest.raises(InputError, match="no networks exported from this model"):
        compare(folder, again, images)
    export_onnx(folder)
    check_same_codes(folder, images.images)
    assert len(list(folder.glob("*.onnx"))) == 2


def test_damaged_and_missing_files_are_reported(folder, images):
    image = next(folder.glob("image-*.onnx"))
    image.write_bytes(image.read_bytes()[:-1])
    with pytest.raises(InputError, match="its checksum differs. Copy the model again"):
        Hasher.load(folder).encode_image(images.images)
    image.unlink()
    with pytest.raises(InputError, match="is missing. Copy the whole folder"):
        Hasher.load(folder).encode_image(images.images)
    about = json.loads((folder / "onnx.json").read_bytes())
    (folder / "onnx.json").write_text(json.dumps({**about, "format": "another"}))
    with pytest.raises(InputError, match="onnx.json has format 'another'"):
        Hasher.load(folder)


def test_methods_without_networks_cannot_be_exported(pairs, tmp_path):
    CVH(8).fit(pairs).save(tmp_path)
    with pytest.raises(InputError, match="CVH has no networks to export"):
        export_onnx(tmp_path)
