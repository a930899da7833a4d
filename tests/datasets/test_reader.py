"""Reader and Vocabulary: the same arrays in training and in search."""

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
from corrhash.datasets.words import WordForm


def test_a_vocabulary_counts_texts_not_repetitions():
    vocabulary = Vocabulary.fit(["sea sea sea", "boat sea", "boat"], min_count=2)
    assert vocabulary.words == ("boat", "sea")
    assert Vocabulary.fit(["sea sea sea", "boat sea", "boat"], min_count=1, top=1).words == (
        "boat",
    )


def test_case_punctuation_and_unicode_forms_make_no_difference():
    vocabulary = Vocabulary(("boat", "café"))
    texts = ["BOAT, Café!", "cafe\u0301", "boat_house"]
    np.testing.assert_array_equal(vocabulary.occurrences(texts).toarray(), [[1, 1], [0, 1], [0, 0]])


def test_a_vocabulary_without_words_is_refused():
    with pytest.raises(InputError, match=r"No word occurs in at least 3 texts \(2 different"):
        Vocabulary.fit(["a b", "a b"], min_count=3)


def test_a_reader_survives_its_file(tmp_path):
    alexnet = ImageFeatures("alexnet-fc7", "/weights.pth", sha256="ab" * 32)
    for features in (None, ImageFeatures("simple"), alexnet):
        form = WordForm("tags", stop_words=True, stem="english")
        reader = Reader(Vocabulary(("boat", "café"), form), features)
        reader.save(tmp_path)
        assert Reader.load(tmp_path) == reader
    Reader().save(tmp_path)
    assert Reader.load(tmp_path) == Reader()
    for damaged in ("[]", (tmp_path / "reader.json").read_text().replace("null", '"simple"')):
        (tmp_path / "reader.json").write_text(damaged)
        with pytest.raises(InputError, match=r"reader.json is damaged"):
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


def test_words_of_queries_do_not_enter_the_vocabulary():
    split = split_of(["boat secret"] * 9, ["boat"] * 9)
    reader = fit_reader(split, "simple")
    assert reader.vocabulary.words == ("boat",)
    read = reader.read_split(split)
    assert read.reader is reader
    assert read.query.images.shape == (9, 704)
    assert read.query.texts.shape == (9, 1)


def test_unknown_image_features_are_refused():
    with pytest.raises(InputError, match=r"no image features 'sift'. Choose one of: simple"):
        fit_reader(split_of(["a"], ["a"]), "sift")


def test_rows_of_a_file_take_the_place_of_pictures_and_of_vectors(tmp_path):
    rows = np.arange(36, dtype=np.float32).reshape(18, 2)
    np.save(tmp_path / "f.npy", rows)
    split = split_of(["boat"] * 9, ["boat"] * 9)
    vectors = replace(split, pairs=replace(split.pairs, images=np.ones((18, 7))))
    for each in (split, vectors):
        read = fit_reader(each, str(tmp_path / "f.npy")).read_split(each)
        np.testing.assert_array_equal(read.query.images, rows[:9])
    with pytest.raises(InputError, match="new pictures have none"):
        read.reader.read_images(np.zeros((1, 8, 8, 3), np.uint8))
    np.testing.assert_array_equal(read.reader.read_images(rows[:1]), rows[:1])


def test_features_of_a_network_are_not_computed_of_vectors():
    split = split_of(["boat"] * 9, ["boat"] * 9)
    vectors = replace(split, name="mine", pairs=replace(split.pairs, images=np.ones((18, 7))))
    message = "computed from pictures, and the images of mine are feature vectors already"
    with pytest.raises(InputError, match=message):
        fit_reader(vectors, "alexnet-fc7")
    assert fit_reader(vectors, "simple").read_split(vectors).pairs.images.shape == (18, 7)


def test_what_strings_become_can_be_chosen():
    split = split_of(["the c++ boats"], ["the c++ boats"] * 9 + ["a tree"] * 4)

    def words(**options):
        return fit_reader(split, None, TextOptions(**options)).vocabulary.words

    assert words() == ("a", "boats", "c", "the", "tree")
    assert words(form="tags", min_count=5) == ("boats", "c++", "the")
    assert words(stop_words=True, stem="english") == ("boat", "c", "tree")
    assert words(top=1) == ("boats",)
    strings = fit_reader(split, None, TextOptions("strings")).read_split(split)
    assert strings.query.texts == ["the c++ boats"]


def test_in_small_collections_rarer_words_count():
    rest = ["sea boat"] * 2 + ["sea"] * 398
    assert fit_reader(split_of(["a"], rest)).vocabulary.words == ("boat", "sea")
    assert fit_reader(split_of(["a"], rest * 3)).vocabulary.words == ("boat", "sea")
    rest = ["sea boat"] * 4 + ["sea"] * 1000
    assert fit_reader(split_of(["a"], rest)).vocabulary.words == ("sea",)


def test_words_that_a_dataset_is_published_with_are_kept_unless_others_are_asked_for():
    published = Reader(Vocabulary(("boat", "never")))
    split = replace(split_of(["boat sea"] * 2, ["boat sea"] * 9), reader=published)
    assert fit_reader(split, "simple") == replace(published, image_features=ImageFeatures("simple"))
    assert fit_reader(split, None, TextOptions()).vocabulary.words == ("boat", "sea")


def test_words_of_vectors_are_not_counted():
    split = split_of(["boat"] * 9, ["boat"] * 9)
    vectors = replace(split, name="mine", pairs=replace(split.pairs, texts=np.ones((18, 7))))
    with pytest.raises(InputError, match="texts of mine are vectors already"):
        fit_reader(vectors, None, TextOptions())
