"""Similarity from labels, from relevance judgments, and of paired samples."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from corrhash import InputError
from corrhash.similarity import (
    MAX_DENSE_CLASSES,
    Similarity,
    as_labels,
    label_masks,
    share_label,
)


def zero_one(n_columns):
    return st.integers(1, 8).flatmap(
        lambda n: arrays(np.int64, (n, n_columns), elements=st.integers(0, 1))
    )


@given(zero_one(5), zero_one(5))
def test_similar_means_a_shared_label(rows, columns):
    expected = (rows @ columns.T) > 0
    np.testing.assert_array_equal(share_label(rows, columns), expected)
    np.testing.assert_array_equal(share_label(sp.csr_matrix(rows), columns > 0), expected)
    similarity = Similarity.from_labels(rows, columns)
    np.testing.assert_array_equal(similarity.block() > 0, expected)
    np.testing.assert_array_equal(similarity.gains().toarray(), rows @ columns.T)
    assert similarity.share_similar == pytest.approx(expected.mean())
    assert similarity.n_unjudged == 0


@pytest.mark.parametrize("n_classes", [MAX_DENSE_CLASSES, MAX_DENSE_CLASSES + 1])
def test_blocks_of_many_classes(n_classes):
    rng = np.random.default_rng(0)
    rows, columns = (rng.random((n, n_classes)) < 0.05 for n in (30, 20))
    taken = [4, 29, 4], [0, 19]
    block = Similarity.from_labels(rows, columns).block(*taken)
    shared = rows[taken[0]].astype(int) @ columns[taken[1]].T
    np.testing.assert_array_equal(block, np.where(shared > 0, 1, -1))


@given(zero_one(70))
def test_masks_hold_the_labels_bit_by_bit(labels):
    masks = label_masks(as_labels(labels))
    assert masks.shape == (2, len(labels))
    for column in range(70):
        bit = masks[column // 64] >> np.uint64(column % 64) & np.uint64(1)
        np.testing.assert_array_equal(bit, labels[:, column])


def test_many_labels_do_not_overflow():
    ones = np.ones((1, 70_000), dtype=int)
    assert Similarity.from_labels(ones).gains().toarray() == [[70_000]]


def test_pairs_that_are_not_judged_are_zero():
    similarity = Similarity.from_judgments([(0, 1, 1), (2, 0, -1), (0, 1, 1)], shape=(3, 2))
    expected = [[0, 1], [0, 0], [-1, 0]]
    np.testing.assert_array_equal(similarity.block(), expected)
    np.testing.assert_array_equal(similarity.block([2, 0], [0]), [[-1], [0]])
    np.testing.assert_array_equal(similarity.T.block(), np.transpose(expected))
    np.testing.assert_array_equal(similarity.gains().toarray(), [[0, 1], [0, 0], [0, 0]])
    assert (similarity.n_judged, similarity.n_unjudged) == (2, 4)
    assert similarity.share_similar == 0.5
    assert similarity.shape == (3, 2)


def test_take_and_transpose():
    similarity = Similarity.from_labels(np.eye(3), [[1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(similarity.T.block(), similarity.block().T)
    part = similarity.take([2, 0], [1])
    np.testing.assert_array_equal(part.block(), [[1], [-1]])


def test_no_judgments():
    similarity = Similarity.from_judgments([], shape=(2, 2))
    np.testing.assert_array_equal(similarity.block(), np.zeros((2, 2)))
    assert np.isnan(similarity.share_similar)


def test_paired_samples_are_similar_to_each_other_only():
    np.testing.assert_array_equal(Similarity.paired(3).block(), 2 * np.eye(3) - 1)
    some = Similarity.paired(4).among([3, 1])
    np.testing.assert_array_equal(some.block(), 2 * np.eye(2) - 1)
    assert some.aligned


def test_rows_and_columns_of_the_same_items_are_aligned():
    assert Similarity.paired(3).T.aligned
    assert Similarity.from_labels(np.eye(2)).aligned
    assert not Similarity.from_labels(np.eye(2), np.eye(2)).aligned
    assert not Similarity.from_judgments([(0, 0, 1)], shape=(2, 2)).aligned


def test_share_similar_does_not_depend_on_block_size(monkeypatch):
    labels = np.random.default_rng(0).random((50, 9)) < 0.2
    monkeypatch.setattr("corrhash.similarity.LABEL_SETS_AT_ONCE", 7)
    expected = share_label(labels, labels).mean()
    assert Similarity.from_labels(labels).share_similar == pytest.approx(expected)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(0, 0, 0)], "must be 1 or -1, got 0 in triple 0"),
        ([(0, 0, 1), (0, 5, 1)], "Judgment 1 has column 5, but there are 2 columns"),
        ([(-1, 0, 1)], "row -1"),
        ([(1, 1, 1), (1, 1, -1)], "Row 1 and column 1 are judged both"),
        ([(0, 1, 1, 0, 0, 1)], r"an \(n, 3\) array .* got shape \(1, 6\)"),
        ([(0.5, 1, 1)], "must be integers"),
        ([(np.nan, 1, 1)], "must be integers"),
    ],
)
def test_invalid_judgments_raise(pairs, message):
    with pytest.raises(InputError, match=message):
        Similarity.from_judgments(pairs, shape=(2, 2))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0, 2]], "must be 0 or 1, got 2"),
        ([[0.5, 1]], "got 0.5"),
        ([[np.nan, 1]], "got nan"),
        (sp.csr_matrix([[0, -1]]), "got -1"),
        ([1, 0], r"got shape \(2,\).*np.eye"),
        ([["cat"]], "matrix of 0 and 1"),
    ],
)
def test_labels_other_than_zero_and_one_raise(labels, message):
    with pytest.raises(InputError, match=message):
        as_labels(labels)


def test_label_columns_must_agree():
    with pytest.raises(InputError, match="got 3 and 2 columns"):
        Similarity.from_labels(np.eye(3), np.eye(2))
