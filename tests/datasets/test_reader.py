"""Reader: the same arrays in training and in search."""

from dataclasses import replace

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import (
    ImageFeatures,
    PairedDataset,
    Reader,
    RetrievalSplit,
    TextOptions,
    Vocabulary,
)
from corrhash.datasets.reader import fit_reader
from corrhash.datasets.vocabulary import Tokenizer


def test_a_reader_is_saved_and_loaded(tmp_path):
    alexnet = ImageFeatures("alexnet-fc7", "/weights.pth", sha256="ab" * 32)
    for features in (None, ImageFeatures("simple"), alexnet):
        form = Tokenizer("tags", stop_words=True, stem="english")
        reader = Reader(Vocabulary(("boat", "café"), form), features)
        reader.save(tmp_path)
        assert Reader.load(tmp_path) == reader
    Reader().save(tmp_path)
    assert Reader.load(tmp_path) == Reader()
    for damaged in ("[]", (tmp_path / "reader.json").read_text().replace("null", '"simple"')):
        (tmp_path / "reader.json").write_text(damaged)
        with pytest.raises(InputError, match=r"reader.json (has format|is damaged or was edited)"):
            Reader.load(tmp_path)
    with pytest.raises(InputError, match="is not a model"):
        Reader.load(tmp_path / "nowhere")


def test_arrays_pass_through_a_reader_unchanged():
    reader = Reader(Vocabulary(("boat",)), ImageFeatures("simple"))
    features = np.ones((2, 3))
    assert reader.read_images(features) is features
    assert reader.read_texts(features) is features


def split_of(query, rest):
    texts = query + rest
    pairs = PairedDataset(np.zeros((len(texts), 8, 8, 3), np.uint8), texts)
    asked, others = np.split(np.arange(len(texts)), [len(query)])
    return RetrievalSplit(pairs, others, others, asked, others)


def test_queries_do_not_enter_the_vocabulary():
    split = split_of(["boat secret"] * 9, ["boat"] * 9)
    reader = fit_reader(split, "simple")
    assert reader.vocabulary.terms == ("boat",)
    read = reader.read_split(split)
    assert read.reader is reader
    assert read.query.images.shape == (9, 704)
    assert read.query.texts.shape == (9, 1)


def test_unknown_image_features_are_refused():
    with pytest.raises(InputError, match=r"Unknown image features 'sift'. Valid: simple"):
        fit_reader(split_of(["a"], ["a"]), "sift")


def test_a_feature_file_replaces_images_and_vectors(tmp_path):
    rows = np.arange(36, dtype=np.float32).reshape(18, 2)
    np.save(tmp_path / "f.npy", rows)
    split = split_of(["boat"] * 9, ["boat"] * 9)
    vectors = replace(split, pairs=replace(split.pairs, images=np.ones((18, 7))))
    for each in (split, vectors):
        read = fit_reader(each, str(tmp_path / "f.npy")).read_split(each)
        np.testing.assert_array_equal(read.query.images, rows[:9])
    with pytest.raises(InputError, match="has no features of new images"):
        read.reader.read_images(np.zeros((1, 8, 8, 3), np.uint8))
    np.testing.assert_array_equal(read.reader.read_images(rows[:1]), rows[:1])


def test_network_features_need_images():
    split = split_of(["boat"] * 9, ["boat"] * 9)
    vectors = replace(split, name="mine", pairs=replace(split.pairs, images=np.ones((18, 7))))
    message = "image_features alexnet-fc7 needs images, but mine has feature vectors"
    with pytest.raises(InputError, match=message):
        fit_reader(vectors, "alexnet-fc7")
    assert fit_reader(vectors, "simple").read_split(vectors).pairs.images.shape == (18, 7)


def test_text_options_are_applied():
    split = split_of(["the c++ boats"], ["the c++ boats"] * 9 + ["a tree"] * 4)

    def words(**options):
        return fit_reader(split, None, TextOptions(**options)).vocabulary.terms

    assert words() == ("a", "boats", "c", "the", "tree")
    assert words(form="tags", min_count=5) == ("boats", "c++", "the")
    assert words(stop_words=True, stem="english") == ("boat", "c", "tree")
    assert words(top=1) == ("boats",)
    strings = fit_reader(split, None, TextOptions("strings")).read_split(split)
    assert strings.query.texts == ["the c++ boats"]


def test_min_count_is_lower_in_small_datasets():
    rest = ["sea boat"] * 2 + ["sea"] * 398
    assert fit_reader(split_of(["a"], rest)).vocabulary.terms == ("boat", "sea")
    assert fit_reader(split_of(["a"], rest * 3)).vocabulary.terms == ("boat", "sea")
    rest = ["sea boat"] * 4 + ["sea"] * 1000
    assert fit_reader(split_of(["a"], rest)).vocabulary.terms == ("sea",)


def test_a_published_vocabulary_is_the_default():
    published = Reader(Vocabulary(("boat", "never")))
    split = replace(split_of(["boat sea"] * 2, ["boat sea"] * 9), reader=published)
    assert fit_reader(split, "simple") == replace(published, image_features=ImageFeatures("simple"))
    assert fit_reader(split, None, TextOptions()).vocabulary.terms == ("boat", "sea")


def test_text_options_need_strings():
    split = split_of(["boat"] * 9, ["boat"] * 9)
    vectors = replace(split, name="mine", pairs=replace(split.pairs, texts=np.ones((18, 7))))
    with pytest.raises(InputError, match="texts applies to strings, but the texts of mine are"):
        fit_reader(vectors, None, TextOptions())
