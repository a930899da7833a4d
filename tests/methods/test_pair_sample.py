"""PairSample: every pair of a kind is as likely as any other, and nothing else is drawn."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.methods.pair_sample import draw_pairs
from corrhash.relevance import Similarity

N_EACH = 30_000


def check_even(sample, truth):
    """Each similar and each dissimilar pair is drawn equally often, within five deviations."""
    counts = sample.matrix(np.ones(len(sample))).toarray()
    for sign in (1, -1):
        of_kind = counts[truth == sign]
        expected = N_EACH / len(of_kind)
        assert of_kind.sum() == N_EACH
        assert abs(of_kind - expected).max() < 5 * np.sqrt(expected)
    assert counts[truth == 0].sum() == 0


def test_labels_give_all_pairs_evenly_however_many_labels_they_share():
    rng = np.random.default_rng(0)
    rows, columns = (rng.random((n, 5)) < 0.35 for n in (12, 9))
    relation = Similarity.from_labels(rows, columns)
    check_even(draw_pairs(relation, N_EACH, rng), relation.block())


def test_judged_pairs_are_drawn_evenly_and_unknown_ones_never():
    rng = np.random.default_rng(1)
    truth = rng.choice([-1, 0, 1], (8, 11))
    triples = [(i, j, truth[i, j]) for i, j in np.argwhere(truth != 0)]
    relation = Similarity.from_pairs(triples, shape=truth.shape)
    check_even(draw_pairs(relation, N_EACH, rng), truth)


def test_partners_are_drawn_as_the_only_similar_pairs():
    sample = draw_pairs(Similarity.partners(20), 500, np.random.default_rng(2))
    np.testing.assert_array_equal((sample.images == sample.texts), sample.similarity > 0)


def test_the_matrix_adds_up_the_values_of_a_pair_that_was_drawn_twice():
    sample = draw_pairs(Similarity.partners(2), 10, np.random.default_rng(3))
    matrix = sample.matrix(sample.similarity).toarray()
    assert np.trace(matrix) == 10
    assert matrix.sum() == 0


def test_a_label_that_nearly_all_carry_is_told():
    labels = np.ones((2000, 1), dtype=int)
    labels[0] = 0
    with pytest.raises(InputError, match=r"99.900% of the pairs are similar.* Leave out labels"):
        draw_pairs(Similarity.from_labels(labels), 10, np.random.default_rng(4))
