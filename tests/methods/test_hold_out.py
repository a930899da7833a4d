"""What is held out for validation where no validation pairs are given."""

import numpy as np

from corrhash.datasets import make_pairs
from corrhash.methods.hold_out import HELD_OUT, hold_out, split_judgements
from corrhash.relevance import Similarity


def test_a_tenth_of_the_pairs_is_held_out_the_same_for_the_same_seed():
    pairs = make_pairs(200)
    train, validation = hold_out(pairs, seed=0)
    assert len(validation) == 200 // HELD_OUT
    assert sorted([*train.row_keys(), *validation.row_keys()]) == sorted(pairs.row_keys())
    assert hold_out(pairs, seed=0)[1].row_keys() == validation.row_keys()
    assert hold_out(pairs, seed=1)[1].row_keys() != validation.row_keys()


def test_rare_similar_judgements_are_held_out_in_proportion():
    """Ten similar ones among four thousand: one of them, and a tenth of the others."""
    rng = np.random.default_rng(0)
    cells = rng.permutation(400 * 400)[:4000]
    triples = np.column_stack([cells // 400, cells % 400, np.where(np.arange(4000) < 10, 1, -1)])
    held, rest = split_judgements(Similarity.from_pairs(triples, shape=(400, 400)), seed=0)
    assert (held.n_known, rest.n_known) == (400, 3600)
    assert held.gains().nnz == 1
    assert (held.judged + rest.judged).nnz == 4000
