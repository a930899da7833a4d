"""PairedDataset: what it takes, what it gives back, what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp

from corrhash import InputError
from corrhash.datasets import ImageFiles, PairedDataset, load_dataset
from corrhash.datasets.base import is_empty_text
from corrhash.similarity import Similarity


def test_take_selects_rows_of_every_field():
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


def test_keys_default_to_row_numbers():
    assert PairedDataset(np.ones((2, 1)), ["a", "b"]).row_keys() == ["0", "1"]


def test_images_can_be_files_or_arrays():
    for images in (ImageFiles(["a.jpg", "b.jpg"]), np.zeros((2, 4, 4, 3), np.uint8)):
        pairs = PairedDataset(images, ["a", "b"])
        assert len(pairs.take([1])) == 1
        assert "images raw" in repr(pairs)


def test_judgments_do_not_need_aligned_pairs():
    similarity = Similarity.from_judgments([(0, 2, 1)], shape=(2, 3))
    pairs = PairedDataset(np.ones((2, 4)), np.ones((3, 5)), similarity=similarity)
    assert not pairs.aligned
    assert (pairs.n_images, pairs.n_texts) == (2, 3)
    assert "2 images and 3 texts" in repr(pairs)
    with pytest.raises(InputError, match="not aligned"):
        pairs.take([0])


def test_take_keeps_a_paired_similarity():
    pairs = PairedDataset(np.ones((3, 4)), ["a", "b", "c"], similarity=Similarity.paired(3))
    assert pairs.aligned
    part = pairs.take([2, 0])
    assert part.texts == ["c", "a"]
    np.testing.assert_array_equal(part.similarity.block(), [[1, -1], [-1, 1]])


def test_empty_texts_are_found():
    np.testing.assert_array_equal(is_empty_text(np.array([[0, 1], [0, 0]])), [False, True])
    np.testing.assert_array_equal(is_empty_text(sp.csr_array([[0, 1], [0, 0]])), [False, True])
    np.testing.assert_array_equal(is_empty_text(["a", "  "]), [False, True])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(images=np.ones((2, 1)), texts=["a"]), "same number of rows, got 2 and 1"),
        (dict(images=np.ones(2), texts=["a"]), r"images must be .* got shape \(2,\)"),
        (dict(images=np.ones((1, 4, 4, 3)), texts=["a"]), "of float64"),
        (dict(images=[[np.nan]], texts=["a"]), "images must be finite, but row 0"),
        (dict(images=[[1.0]], texts=[[np.inf]]), "texts must be finite"),
        (dict(images=[[1.0]], texts="a"), "texts must be"),
        (dict(images=[[1.0]], texts=["a"], labels=[[3]]), "labels must be 0 or 1, got 3"),
        (
            dict(images=[[1.0]], texts=["a"], labels=[[1], [0]]),
            "labels must have one entry for each of the 1 rows, got 2",
        ),
        (
            dict(images=[[1.0]], texts=["a"], keys=["a", "b"]),
            "keys must have one entry for each of the 1 rows, got 2",
        ),
        (
            dict(images=[[1.0]], texts=["a"], similarity=Similarity.paired(2)),
            "one column per text, 1 x 1, got 2 x 2",
        ),
    ],
)
def test_inconsistent_arguments_are_rejected(arguments, message):
    with pytest.raises(InputError, match=message):
        PairedDataset(**arguments)


def test_without_trained_drops_training_items():
    split = load_dataset("synthetic", n=780)
    rest = split.without_trained()
    assert len(rest.database) == len(split.database) - len(split.train)
    assert not rest.train_in_database.any()
