"""Text features: computed once per text, stored with a model, alike in training and search."""

from typing import ClassVar

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import PairedDataset, Reader, RetrievalSplit, TextFeatures, text_features
from corrhash.datasets.pseudo_labels import choose_pseudo_labels
from corrhash.datasets.reader import fit_reader


class Letters:
    """In place of a network: the frequencies of a, b and c, minus a half."""

    computed: ClassVar[list[str]] = []
    sha256 = "ab" * 32
    key = source = "letters"
    n_features = 3

    def compute(self, texts, *, done=0, total=None):
        Letters.computed += texts
        rows = [[text.count(letter) - 0.5 for letter in "abc"] for text in texts]
        return np.array(rows, np.float32).reshape(-1, 3)


def open_letters(source):
    return Letters()


@pytest.fixture(autouse=True)
def letters(tmp_path, monkeypatch):
    monkeypatch.setattr(text_features, "OPEN_ONNX", f"{__name__}:open_letters")
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    Letters.computed = []


TEXTS = ["abba", "", "cab", "abba", "  "]
EXPECTED = [[1.5, 1.5, -0.5], [0, 0, 0], [0.5, 0.5, 0.5], [1.5, 1.5, -0.5], [0, 0, 0]]


def test_texts_are_computed_once_and_empty_ones_are_zero():
    features = TextFeatures("onnx:letters")
    for _ in range(2):
        np.testing.assert_array_equal(features.of_dataset(TEXTS), EXPECTED)
    assert Letters.computed == ["abba", "cab"]
    np.testing.assert_array_equal(features.of_texts(TEXTS), EXPECTED)
    assert features.of_texts(["", ""]).tolist() == [[0, 0, 0]] * 2


def test_unknown_names_are_rejected():
    for name in ("words", "onnx:", "all-MiniLM"):
        with pytest.raises(InputError, match=r"Unknown text features .*onnx:<file or folder>"):
            TextFeatures(name)


def test_reader_stores_the_checksum_and_detects_a_change(tmp_path, monkeypatch):
    reader = Reader(text_features=TextFeatures("onnx:letters").pinned())
    reader.save(tmp_path)
    again = Reader.load(tmp_path)
    assert again == reader
    assert again.text_features.sha256 == Letters.sha256
    np.testing.assert_array_equal(again.read_texts(["cab"]), [[0.5, 0.5, 0.5]])
    monkeypatch.setattr(Letters, "sha256", "cd" * 32)
    with pytest.raises(InputError, match=r"onnx:letters has changed since the model was trained"):
        Reader.load(tmp_path).read_texts(["cab"])


def test_missing_folder_is_named(tmp_path):
    gone = f"onnx:{tmp_path}/gone"
    with pytest.raises(InputError, match=r"Text features not found: .*gone"):
        TextFeatures(gone).pinned()
    with pytest.raises(InputError, match=r"The model needs .*gone for its text features"):
        TextFeatures(gone, sha256="ab").of_texts(["a"])


def split_of(texts):
    pairs = PairedDataset(np.zeros((len(texts), 2)), texts)
    rows = np.arange(len(texts))
    return RetrievalSplit(pairs, rows, rows[:0], rows[:0], rows)


def test_pseudo_labels_come_from_the_strings():
    split = split_of(["a boat", "a tree", "sky", "sea", "hill", "sun"] * 20)
    reader = fit_reader(split, text_features="onnx:letters")
    read = reader.read_split(split)
    assert read.pairs.texts.shape == (120, 3)
    assert choose_pseudo_labels(read).names == ["boat", "hill", "sea", "sky", "sun", "tree"]


def test_vectors_cannot_be_encoded():
    pairs = PairedDataset(np.zeros((2, 2)), np.ones((2, 3)))
    rows = np.arange(2)
    split = RetrievalSplit(pairs, rows, rows, rows, rows)
    with pytest.raises(InputError, match="text_features onnx:letters needs strings"):
        fit_reader(split, text_features="onnx:letters")
