"""Exported models: the codes of PyTorch to five digits, without importing PyTorch."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods import METHODS, Hasher
from corrhash.methods.cvh import CVH
from corrhash.methods.onnx_export import export_onnx
from corrhash.methods.onnx_hasher import ExportedHasher
from corrhash.networks.hashing_network import Networks
from corrhash.training.config import Training

QUICK = Training(epochs=1)


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


def check_same_codes(hasher, exported, pairs):
    assert isinstance(exported, ExportedHasher)
    for modality in ("image", "text"):
        values = getattr(pairs, f"{modality}s")
        expected = getattr(hasher, f"embed_{modality}")(values)
        found = getattr(exported, f"embed_{modality}")(values)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, atol=1e-5)
        clear = abs(expected) > 1e-5
        codes = getattr(exported, f"encode_{modality}")(values)
        np.testing.assert_array_equal(
            codes.signs()[clear], Codes.from_continuous(expected).signs()[clear]
        )


@pytest.mark.parametrize(("name", "depth"), [("chn", 1), ("mmnn", 2), ("dcmh", 0)])
def test_networks_on_features_give_the_same_codes(name, depth, pairs, tmp_path):
    hasher = train_and_export(name, pairs, tmp_path, Networks(width=64, depth=depth))
    check_same_codes(hasher, Hasher.load(tmp_path), pairs)


def test_square_roots_of_features_are_exported(pairs, tmp_path):
    positive = replace(pairs, images=abs(pairs.images))
    hasher = train_and_export("chn", positive, tmp_path, Networks(width=64))
    assert hasher.image_network_.body.standardize.takes_sqrt
    check_same_codes(hasher, Hasher.load(tmp_path), positive)


@pytest.mark.parametrize(
    "networks",
    [Networks(), Networks(image_size=40), Networks("alexnet-pool5", image_size=64, width=8)],
)
def test_networks_on_images_give_the_same_codes(networks, images, tmp_path):
    hasher = METHODS["chn"](24, networks=networks, training=QUICK)
    hasher._build({"image": None, "text": 2})
    hasher.history_ = []
    hasher.save(tmp_path)
    export_onnx(tmp_path)
    check_same_codes(hasher, Hasher.load(tmp_path), images)


def test_batch_norm_statistics_are_exported(images, tmp_path):
    hasher = train_and_export("chn", images, tmp_path, Networks(image_size=32))
    check_same_codes(hasher, Hasher.load(tmp_path), images)


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
def exported_folder(pairs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    train_and_export("chn-b", pairs, folder, Networks(width=32))
    return folder


@pytest.fixture
def folder(exported_folder, tmp_path):
    """A copy that a test can damage."""
    Hasher.load(exported_folder).save(tmp_path / "model")
    return tmp_path / "model"


def test_exported_model_keeps_method_and_parameters(folder):
    exported, trained = Hasher.load(folder), METHODS["chn-b"].load(folder)
    assert type(trained) is METHODS["chn-b"]
    assert exported.import_path == trained.import_path
    assert (exported.n_bits, exported.ranked_by) == (24, "cosine")
    assert exported.get_params()["networks"]["width"] == 32
    for name, array in trained.learned().items():
        np.testing.assert_array_equal(exported.learned()[name], array)


def test_exported_model_cannot_be_fitted(folder, pairs):
    with pytest.raises(InputError, match=r"cannot be fitted.*corrhash.methods.chn:CHNB"):
        Hasher.load(folder).fit(pairs)


def test_wrong_kind_of_input_is_refused(folder, pairs, images):
    exported = Hasher.load(folder)
    with pytest.raises(InputError, match="trained on 256 columns of images. Got 255"):
        exported.encode_image(pairs.images[:, 1:])
    with pytest.raises(InputError, match="trained on feature vectors, got images"):
        exported.encode_image(images.images)


def test_pytorch_is_used_without_onnx_runtime(folder, monkeypatch):
    monkeypatch.setattr("corrhash.methods.onnx_hasher.has_runtime", lambda: False)
    assert type(Hasher.load(folder)) is METHODS["chn-b"]


def test_networks_of_an_earlier_model_are_ignored(folder, pairs):
    again = METHODS["chn-b"](24, networks=Networks(width=16), training=QUICK).fit(pairs)
    again.save(folder)
    assert type(Hasher.load(folder)) is METHODS["chn-b"]
    export_onnx(folder)
    check_same_codes(again, Hasher.load(folder), pairs)
    assert len(list(folder.glob("*.onnx"))) == 2


def test_damaged_and_missing_files_are_reported(folder, pairs):
    image = next(folder.glob("image-*.onnx"))
    image.write_bytes(image.read_bytes()[:-1])
    with pytest.raises(InputError, match="its checksum differs. Export the model again"):
        Hasher.load(folder).encode_image(pairs.images)
    image.unlink()
    with pytest.raises(InputError, match="is missing. Copy the whole folder"):
        Hasher.load(folder).encode_image(pairs.images)
    about = json.loads((folder / "onnx.json").read_bytes())
    (folder / "onnx.json").write_text(json.dumps({**about, "format": "another"}))
    with pytest.raises(InputError, match="onnx.json is damaged .format 'another'"):
        Hasher.load(folder)


def test_methods_without_networks_cannot_be_exported(pairs, tmp_path):
    CVH(8).fit(pairs).save(tmp_path)
    with pytest.raises(InputError, match="CVH has no networks to export"):
        export_onnx(tmp_path)


def test_interrupted_copy_of_a_model_is_invalid(pairs, tmp_path, monkeypatch):
    train_and_export("chn", pairs, tmp_path / "m", Networks(width=64))
    exported = Hasher.load(tmp_path / "m")
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    exported.save(tmp_path / "m")  # onto itself
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
    exported.save(tmp_path / "copy")
    copied = Hasher.load(tmp_path / "copy").embed_image(pairs.images)
    np.testing.assert_array_equal(copied, exported.embed_image(pairs.images))

    def cut(source, target):
        if "hasher.json" in source.name:
            target.write(source.read(9))
            raise KeyboardInterrupt
        target.write(source.read())

    monkeypatch.setattr(shutil, "copyfileobj", cut)
    with pytest.raises(KeyboardInterrupt):
        exported.save(tmp_path / "cut")
    with pytest.raises(InputError, match="no model in"):
        Hasher.load(tmp_path / "cut")
