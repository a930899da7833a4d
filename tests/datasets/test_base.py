"""PairedDataset: what it takes, what it gives back, what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp

from corrhash import InputError
from corrhash.datasets import ImageFiles, PairedDataset, load_dataset
from corrhash.datasets.base import without_words
from corrhash.relevance import Similarity


def test_rows_are_taken_of_everything_at_once():
    pairs = PairedDataset(
        images=np.arange(12.0).reshape(4, 3),
        texts=sp.csr_matrix(np.eye(4)),
        labels=np.eye(4, dtype=int),
        keys=["a", "b", "c", "d"],
        items=[{"n": i} for i in range(4)],
    )
    for rows in ([2, 0], np.array([True, False, True, False])):
        part = pairs.take(rows)
        expected = [2, 0] if isinstance(rows, list) else [0, 2]
        np.testing.assert_array_equal(part.images, pairs.images[expected])
        np.testing.assert_array_equal(part.texts.toarray(), np.eye(4)[expected])
        np.testing.assert_array_equal(part.labels.toarray(), np.eye(4)[expected])
        assert part.row_keys() == [pairs.keys[i] for i in expected]
        assert [item["n"] for item in part.items] == expected


def test_keys_are_row_numbers_where_none_are_given():
    assert PairedDataset(np.ones((2, 1)), ["a", "b"]).row_keys() == ["0", "1"]


def test_pictures_may_be_files_or_arrays():
    for images in (ImageFiles(["a.jpg", "b.jpg"]), np.zeros((2, 4, 4, 3), np.uint8)):
        pairs = PairedDataset(images, ["a", "b"])
        assert len(pairs.take([1])) == 1
        assert "images pictures" in repr(pairs)


def test_judged_pairs_free_images_and_texts_from_alignment():
    similarity = Similarity.from_pairs([(0, 2, 1)], shape=(2, 3))
    pairs = PairedDataset(np.ones((2, 4)), np.ones((3, 5)), similarity=similarity)
    assert not pairs.aligned
    assert (pairs.n_images, pairs.n_texts) == (2, 3)
    assert "2 images and 3 texts" in repr(pairs)
    with pytest.raises(InputError, match="not aligned"):
        pairs.take([0])


def test_partners_stay_aligned_and_are_taken_with_their_rows():
    pairs = PairedDataset(np.ones((3, 4)), ["a", "b", "c"], similarity=Similarity.partners(3))
    assert pairs.aligned
    part = pairs.take([2, 0])
    assert part.texts == ["c", "a"]
    np.testing.assert_array_equal(part.similarity.block(), [[1, -1], [-1, 1]])


def test_texts_without_a_known_word_are_found():
    np.testing.assert_array_equal(without_words(np.array([[0, 1], [0, 0]])), [False, True])
    np.testing.assert_array_equal(without_words(sp.csr_array([[0, 1], [0, 0]])), [False, True])
    np.testing.assert_array_equal(without_words(["a", "  "]), [False, True])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(images=np.ones((2, 1)), texts=["a"]), "Got 2 images and 1 texts"),
        (dict(images=np.ones(2), texts=["a"]), r"images must be .* Got shape \(2,\)"),
        (dict(images=np.ones((1, 4, 4, 3)), texts=["a"]), "of float64"),
        (dict(images=[[np.nan]], texts=["a"]), "images must be finite. Row 0"),
        (dict(images=[[1.0]], texts=[[np.inf]]), "texts must be finite"),
        (dict(images=[[1.0]], texts="a"), "texts must be"),
        (dict(images=[[1.0]], texts=["a"], labels=[[3]]), "labels must be 0 or 1. Got 3"),
        (dict(images=[[1.0]], texts=["a"], labels=[[1], [0]]), "1 rows but 2 labels"),
        (dict(images=[[1.0]], texts=["a"], keys=["a", "b"]), "1 rows but 2 keys"),
        (
            dict(images=[[1.0]], texts=["a"], similarity=Similarity.partners(2)),
            "over 2 images and 2 texts. Got 1 and 1",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        PairedDataset(**arguments)


def test_a_database_without_training_items_is_what_is_left():
    split = load_dataset("synthetic", n=780)
    rest = split.without_trained()
    assert len(rest.database) == len(split.database) - len(split.train)
    assert not rest.train_in_database.any()
