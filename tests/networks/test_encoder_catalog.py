"""Encoders on this machine: where they are found, which are the best, what is fetched."""

import json

import pytest

from corrhash import InputError
from corrhash.networks import encoder_catalog
from corrhash.networks.encoder_catalog import best_encoders, default_encoders, find_encoders
from tests.networks import onnx_folders as tiny


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of encoders, with one of each kind."""
    folder = tmp_path / "encoders"
    tiny.save_image_encoder(folder / "dinov2")
    tiny.save_image_network(folder / "mobilenet.onnx")
    tiny.save_sentence_encoder(folder / "MiniLM")
    (folder / "notes").mkdir()
    (folder / "readme.txt").write_text("no encoder")
    monkeypatch.setenv("CORRHASH_ENCODERS", str(folder))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return folder


def snapshot(tmp_path, name):
    """The folder of a model in the cache of Hugging Face."""
    model = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("abc123")
    folder = model / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    return folder


def test_encoders_are_found_with_modality_and_size(folder):
    found = {one.name: one for one in find_encoders()}
    assert [*found] == ["onnx:dinov2", "onnx:MiniLM", "onnx:mobilenet.onnx"]
    assert found["onnx:dinov2"].modalities == ("image",)
    assert found["onnx:MiniLM"].modalities == ("text",)
    assert found["onnx:mobilenet.onnx"].n_bytes == (folder / "mobilenet.onnx").stat().st_size
    assert found["onnx:dinov2"].origin == str(folder)
    assert not any(one.missing for one in found.values())


def test_best_encoders_are_the_default(folder, tmp_path):
    assert default_encoders() == {"image": "onnx:dinov2", "text": "onnx:MiniLM"}
    tiny.save_clip(snapshot(tmp_path, "someone/clip-tiny"))
    aligned = find_encoders()[0]
    assert (aligned.name, aligned.aligned) == ("onnx:someone/clip-tiny", True)
    assert aligned.origin == "Hugging Face cache"
    assert default_encoders() == dict.fromkeys(("image", "text"), "onnx:someone/clip-tiny")
    best = best_encoders(find_encoders()[1:])
    assert {modality: one.name for modality, one in best.items()} == {
        "image": "onnx:dinov2",
        "text": "onnx:MiniLM",
    }


def test_models_of_transformers_are_listed_by_type(folder, tmp_path):
    for name, kind in (("a/clip", "clip"), ("a/dino", "dinov2"), ("a/gpt", "gpt2")):
        model = snapshot(tmp_path, name)
        (model / "config.json").write_text(json.dumps({"model_type": kind}))
        (model / "model.safetensors").write_bytes(b"0" * 100)
    found = {one.name: one.modalities for one in find_encoders()}
    assert found["hf:a/clip"] == ("image", "text")
    assert found["hf:a/dino"] == ("image",)
    assert "hf:a/gpt" not in found


def test_installed_packages_are_searched(folder, tmp_path, monkeypatch):
    package = tmp_path / "site" / "some_package"
    tiny.save_image_network(package / "models" / "tiny_vit.onnx")
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(encoder_catalog, "PACKAGES", {"some_package": ("models/tiny_vit.onnx",)})
    (found,) = [one for one in find_encoders() if "tiny_vit" in one.name]
    assert found.origin == "package some_package"


def test_speed_is_measured(folder):
    speed = find_encoders()[1].measured().speed
    assert [*speed] == ["text"]
    assert speed["text"] > 1


def test_offline_without_encoders_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_ENCODERS", str(tmp_path / "none"))
    assert find_encoders() == []
    with pytest.raises(InputError, match=r"clip-vit-base-patch32 is not on this machine, and down"):
        default_encoders()
