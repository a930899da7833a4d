"""Encoder: records become items and codes, alike alone and in a batch."""

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from corrhash import InputError
from corrhash.datasets import Reader, Vocabulary, make_pairs
from corrhash.encoder import encode_records
from corrhash.methods import METHODS
from corrhash.records import Record
from corrhash.rerank import unpack_scores


@pytest.fixture(scope="module")
def model():
    pairs = make_pairs(200, seed=0)
    hasher = METHODS["cvh"](n_bits=16).fit(pairs)
    n_words = pairs.texts.shape[1]
    return hasher, Reader(Vocabulary(tuple(f"w{i:03}" for i in range(n_words)))), pairs


def test_each_side_has_the_codes_of_its_own_items(model, tmp_path):
    hasher, reader, pairs = model
    Image.new("RGB", (300, 30), "red").save(tmp_path / "a.png")
    words = sp.csr_array(pairs.texts)[[5]]
    records = [
        Record("words", text="w003 w007"),
        Record("vector", pairs.images[4], picture=tmp_path / "a.png"),
        Record("unknown", text="nobody knows"),
        Record("both", pairs.images[5], words=words),
    ]
    encoded = encode_records(records, hasher, reader, keep_scores=True)
    assert [item.key for item in encoded.items] == ["words", "vector", "both"]
    assert encoded.skipped == {"unknown": "The model knows no word of its text."}
    rows, codes = encoded.codes["image"]
    assert rows.tolist() == [1, 2]
    np.testing.assert_array_equal(codes.packed, hasher.encode_image(pairs.images[4:6]).packed)
    rows, codes = encoded.codes["text"]
    assert rows.tolist() == [0, 2]
    expected = hasher.encode_text(reader.read_texts(["w003 w007"]))
    np.testing.assert_array_equal(codes[0].packed, expected.packed)
    assert encoded.items[1].thumbnail
    assert encoded.items[0].image_scores is None
    scores = hasher.score_image(pairs.images[5:6])[0]
    kept = unpack_scores(encoded.items[2].image_scores)
    np.testing.assert_allclose(kept, scores / np.linalg.norm(scores), atol=1e-3)


def test_nothing_gives_nothing(model):
    hasher, reader, _ = model
    encoded = encode_records([], hasher, reader)
    assert (encoded.items, encoded.codes, encoded.skipped) == ([], {}, {})


def test_vectors_of_several_lengths_are_told_by_name(model):
    hasher, reader, pairs = model
    records = [Record("a", pairs.images[0]), Record("b", pairs.images[1][:-1])]
    with pytest.raises(InputError, match="Got 256 numbers for 'a' and 255 for 'b'"):
        encode_records(records, hasher, reader)
