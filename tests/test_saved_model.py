"""Saved models: written wholly, and known by a fingerprint."""

import numpy as np
import pytest

from corrhash.datasets import Reader, Vocabulary, make_pairs
from corrhash.datasets.image_features import ImageFeatures
from corrhash.methods import METHODS
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


def test_the_place_of_weights_plays_no_part(hasher):
    one, two = (
        Reader(None, ImageFeatures("alexnet-fc7", weights, sha256="ab" * 32))
        for weights in ("/here/w.pth", "/there/w.pth")
    )
    assert fingerprint(hasher, one) == fingerprint(hasher, two)
    assert np.isfinite(hasher.score_image(make_pairs(3, seed=0).images)).all()
