"""Unseen labels: who learns them never carries them, who is asked always does."""

from dataclasses import replace

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset
from corrhash.experiments.unseen import held_out, hold_out_labels


@pytest.fixture(scope="module")
def split():
    return load_dataset("synthetic", n=900)


def test_a_quarter_of_the_labels_is_held_out_and_depends_on_the_seed(split):
    chosen = [held_out(split, seed) for seed in range(6)]
    assert all(held.sum() == 3 for held in chosen)  # of 12
    assert len({held.tobytes() for held in chosen}) > 1
    np.testing.assert_array_equal(chosen[0], held_out(split, 0))


def test_nothing_that_is_learned_carries_a_held_out_label(split):
    learn, ask = hold_out_labels(split, 0)
    held = held_out(split, 0)
    all_labels = split.pairs.labels.toarray().astype(bool)
    for rows in (learn.train_rows, learn.validation_rows):
        assert not all_labels[np.ix_(rows, held)].any()
    kept = [row for row in split.train_rows if not all_labels[row, held].any()]
    assert learn.train_rows.tolist() == kept
    np.testing.assert_array_equal(learn.train.labels.toarray(), all_labels[kept][:, ~held])
    assert learn.train.label_names == [
        name for name, h in zip(split.pairs.label_names, held, strict=True) if not h
    ]
    assert ask.train_in_database.sum() == len(kept)


def test_queries_carry_a_held_out_label_and_the_database_stays(split):
    _, ask = hold_out_labels(split, 0)
    held = held_out(split, 0)
    all_labels = split.pairs.labels.toarray().astype(bool)
    wanted = [row for row in split.query_rows if all_labels[row, held].any()]
    assert ask.query_rows.tolist() == wanted
    np.testing.assert_array_equal(ask.database_rows, split.database_rows)
    np.testing.assert_array_equal(ask.query.labels.toarray(), all_labels[wanted][:, held])


def test_where_nothing_is_left_to_learn_it_is_said(split):
    same = replace(split.pairs, labels=np.ones((900, 4)), label_names=())
    with pytest.raises(InputError, match="Every train item of synthetic carries a label"):
        hold_out_labels(replace(split, pairs=same), 0)
    with pytest.raises(InputError, match="has no labels to hold out"):
        hold_out_labels(replace(split, pairs=split.pairs.without_labels()), 0)
