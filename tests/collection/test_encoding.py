"""Encoding records: codes per modality, thumbnails and skipped records."""

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from corrhash import InputError
from corrhash.collection.encoding import encode_records
from corrhash.collection.search import unpack_continuous
from corrhash.datasets import (
    ImageFiles,
    PairedDataset,
    Reader,
    Vocabulary,
    image_features,
    make_pairs,
)
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.records import Record
from corrhash.methods import METHODS
from corrhash.model import Model


@pytest.fixture(scope="module")
def model():
    pairs = make_pairs(200, seed=0)
    hasher = METHODS["cvh"](n_bits=16).fit(pairs)
    n_words = pairs.texts.shape[1]
    reader = Reader(Vocabulary(tuple(f"w{i:03}" for i in range(n_words))))
    return Model(hasher, reader), pairs


class Corners:
    """In place of a network: the corner pixels of images. Counts the images it computes."""

    key, sha256 = "corners", "0"
    computed = 0

    def compute(self, images, *, done=0, total=None):
        Corners.computed += len(images)
        rows = [np.asarray(image)[[0, 0, -1, -1], [0, -1, 0, -1]].ravel() for image in images]
        return np.array(rows, dtype=np.float32)


def test_cached_features_are_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(image_features, "OPEN_BACKBONE", f"{__name__}:open_corners")
    pixels = np.random.default_rng(0).integers(0, 256, (40, 9, 9, 3), dtype=np.uint8)
    records = [Record(f"{row}", tmp_path / f"{row}.png") for row in range(40)]
    for record, image in zip(records, pixels, strict=True):
        Image.fromarray(image).save(record.image)
    contents = [record.content() for record in records]
    reader = Reader(None, ImageFeatures("hf:corners"))
    features = Corners().compute(pixels)
    model = Model(METHODS["cvh"](n_bits=8).fit(PairedDataset(features, features)), reader)
    before = encode_records(records, model, store_continuous=True)  # without checksums, no cache
    reader.read(PairedDataset(ImageFiles([r.image for r in records[10:]]), features[10:]))
    Corners.computed = 0
    after = encode_records(records, model, store_continuous=True, contents=contents)
    assert Corners.computed == 10
    assert sorted(after.items, key=lambda i: int(i.key)) == before.items
    rows, codes = after.codes["image"]
    order = np.argsort(rows)
    np.testing.assert_array_equal(rows[order], np.arange(40))
    np.testing.assert_array_equal(codes.packed[order], before.codes["image"][1].packed)
    for row in (3, 20):  # one of them is cached
        records[row].image.unlink()
    Corners.computed = 0
    lost = encode_records(records, model, contents=contents)
    assert {*lost.skipped} == {"3", "20"}
    assert "Image not found" in lost.skipped["20"]
    assert len(lost.items) == 38
    assert Corners.computed == 0  # encoding has added the ten others to the cache


def open_corners(name, weights, *, local_only):
    return Corners()


def test_codes_belong_to_the_rows_of_their_modality(model, tmp_path):
    model, pairs = model
    hasher, reader = model.hasher, model.reader
    Image.new("RGB", (300, 30), "red").save(tmp_path / "a.png")
    words = sp.csr_array(pairs.texts)[[5]]
    records = [
        Record("words", text="w003 w007"),
        Record("vector", pairs.images[4], preview=tmp_path / "a.png"),
        Record("unknown", text="nobody knows"),
        Record("both", pairs.images[5], term_vector=words),
    ]
    encoded = encode_records(records, model, store_continuous=True)
    assert [item.key for item in encoded.items] == ["words", "vector", "both"]
    assert encoded.skipped == {
        "unknown": "None of the terms in its text are in the model's vocabulary."
    }
    rows, codes = encoded.codes["image"]
    assert rows.tolist() == [1, 2]
    np.testing.assert_array_equal(codes.packed, hasher.encode_image(pairs.images[4:6]).packed)
    rows, codes = encoded.codes["text"]
    assert rows.tolist() == [0, 2]
    expected = hasher.encode_text(reader.read_texts(["w003 w007"]))
    np.testing.assert_array_equal(codes[0].packed, expected.packed)
    assert encoded.items[1].thumbnail
    assert encoded.items[0].image_continuous is None
    scores = hasher.embed_image(pairs.images[5:6])[0]
    kept = unpack_continuous(encoded.items[2].image_continuous)
    np.testing.assert_allclose(kept, scores / np.linalg.norm(scores), atol=1e-3)


def test_no_records_give_no_codes(model):
    model, _ = model
    encoded = encode_records([], model)
    assert (encoded.items, encoded.codes, encoded.skipped) == ([], {}, {})


def test_vectors_of_different_lengths_raise(model):
    model, pairs = model
    records = [Record("a", pairs.images[0]), Record("b", pairs.images[1][:-1])]
    with pytest.raises(InputError, match="got 256 numbers for 'a' and 255 for 'b'"):
        encode_records(records, model)
