"""Encoding records: codes per modality, thumbnails and skipped records."""

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from corrhash import InputError
from corrhash.collection.encoding import encode_records
from corrhash.collection.search import unpack_continuous
from corrhash.datasets import Reader, Vocabulary, make_pairs
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
    assert encoded.skipped == {"unknown": "No term of its text is in the model's vocabulary."}
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
