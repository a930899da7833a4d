"""Saved models: written wholly, and known by a fingerprint."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from corrhash.datasets import Reader, Vocabulary, make_pairs
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.words import WordForm
from corrhash.methods import METHODS
from corrhash.methods.exported import ExportedHasher
from corrhash.methods.onnx_export import export_onnx
from corrhash.methods.training import Training
from corrhash.methods.two_networks import Networks
from corrhash.saved_model import fingerprint, load_model, save_model


@pytest.fixture(scope="module")
def hasher():
    return METHODS["cvh"](n_bits=8).fit(make_pairs(200, seed=0))


def test_a_model_keeps_its_fingerprint_wherever_it_is_saved(hasher, tmp_path):
    reader = Reader(Vocabulary(("boat", "sea")), ImageFeatures("simple"))
    for name in ("a", "b", "a"):
        save_model(tmp_path / name, hasher, reader)
        assert fingerprint(*load_model(tmp_path / name)) == fingerprint(hasher, reader)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_whatever_changes_codes_changes_the_fingerprint(hasher):
    other = METHODS["cvh"](n_bits=8).fit(make_pairs(200, seed=1))
    words, simple = Vocabulary(("boat", "sea")), ImageFeatures("simple")
    models = [
        *((hasher, Reader()), (other, Reader()), (hasher, Reader(words))),
        *((hasher, Reader(Vocabulary(("sea", "boat")))), (hasher, Reader(words, simple))),
    ]
    assert len({fingerprint(*model) for model in models}) == len(models)
    assert len(fingerprint(hasher, Reader())) == 32


def test_the_form_of_words_and_the_layer_of_features_change_the_fingerprint(hasher):
    words = ("boat", "sea")
    forms = [WordForm(), WordForm("tags"), WordForm(stop_words=True), WordForm(stem="english")]
    weights = {"weights": "/here/w.pth", "sha256": "ab" * 32}
    readers = [
        *(Reader(Vocabulary(words, form)) for form in forms),
        *(Reader(None, ImageFeatures(f"alexnet-{layer}", **weights)) for layer in ("fc6", "fc7")),
        Reader(None, ImageFeatures("hf:vit", sha256="ab" * 32)),
        Reader(None, ImageFeatures("f.npy", sha256="ab" * 32)),
    ]
    assert len({fingerprint(hasher, reader) for reader in readers}) == len(readers)


def test_settings_that_scores_depend_on_change_the_fingerprint():
    voting = METHODS["rahh"](n_bits=8, n_rounds=2).fit(make_pairs(120, seed=0))
    other = copy.copy(voting)
    other.n_voters = 2
    texts = make_pairs(40, seed=1).texts
    assert not np.array_equal(other.score_text(texts), voting.score_text(texts))
    assert fingerprint(other, Reader()) != fingerprint(voting, Reader())


def test_networks_keep_their_fingerprint_when_they_are_saved_and_exported(tmp_path):
    networks = Networks(width=8)
    hasher = METHODS["chn"](8, networks=networks, training=Training(epochs=1))
    hasher.fit(make_pairs(60, seed=0))
    own = fingerprint(hasher, Reader())
    save_model(tmp_path / "m", hasher, Reader())
    assert fingerprint(*load_model(tmp_path / "m")) == own
    export_onnx(tmp_path / "m")
    exported, reader = load_model(tmp_path / "m")
    assert isinstance(exported, ExportedHasher)
    assert fingerprint(exported, reader) == own
    elsewhere = replace(networks, image_weights="/there/weights.pth")
    hasher.training, hasher.networks = Training(epochs=7, checkpoint="c"), elsewhere
    assert fingerprint(hasher, Reader()) == own


def test_the_place_of_weights_plays_no_part(hasher):
    tied = {"sha256": "ab" * 32}
    for features in (
        [ImageFeatures("alexnet-fc7", f"/{place}/w.pth", **tied) for place in ("here", "there")],
        [ImageFeatures(f"hf:/{place}/vit", **tied) for place in ("here", "there")],
        [ImageFeatures(f"/{place}/f.npy", **tied) for place in ("here", "there")],
    ):
        one, two = (fingerprint(hasher, Reader(None, each)) for each in features)
        assert one == two
    assert np.isfinite(hasher.score_image(make_pairs(3, seed=0).images)).all()
