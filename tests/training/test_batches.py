"""Training similarity, and pairs held out for validation."""

from dataclasses import replace

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.similarity import Similarity
from corrhash.training.batches import (
    HELD_OUT,
    hold_out,
    split_judgments,
    training_similarity,
)


def test_a_tenth_of_the_pairs_is_held_out_by_seed():
    pairs = make_pairs(200)
    train, validation = hold_out(pairs, seed=0)
    assert len(validation) == 200 // HELD_OUT
    assert sorted([*train.row_keys(), *validation.row_keys()]) == sorted(pairs.row_keys())
    assert hold_out(pairs, seed=0)[1].row_keys() == validation.row_keys()
    assert hold_out(pairs, seed=1)[1].row_keys() != validation.row_keys()


def test_rare_positive_judgments_are_held_out_too():
    """Ten positive ones among four thousand: one of them, and a tenth of the others."""
    rng = np.random.default_rng(0)
    cells = rng.permutation(400 * 400)[:4000]
    triples = np.column_stack([cells // 400, cells % 400, np.where(np.arange(4000) < 10, 1, -1)])
    held, rest = split_judgments(Similarity.from_judgments(triples, shape=(400, 400)), seed=0)
    assert (held.n_judged, rest.n_judged) == (400, 3600)
    assert held.gains().nnz == 1
    assert (held.judgments + rest.judgments).nnz == 4000


@pytest.mark.parametrize("kind", [1, -1])
def test_judgments_of_one_kind_are_refused(kind):
    triples = [(i, i, kind) for i in range(100)]
    judged = Similarity.from_judgments(triples, shape=(400, 400))
    pairs = replace(make_pairs(400), similarity=judged)
    with pytest.raises(InputError, match=r"All 100 known pairs are \w+, so .* both 1 and -1"):
        training_similarity(pairs)


def test_labels_of_one_class_are_refused():
    pairs = replace(make_pairs(400), labels=np.ones((400, 1), dtype=int))
    with pytest.raises(InputError, match="known pairs are similar, .*at least two classes"):
        training_similarity(pairs)
