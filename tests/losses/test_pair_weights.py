"""Weights of pairs: who has how much of the say."""

import pytest
import torch

from corrhash import InputError
from corrhash.losses.pair_weights import pair_weights


@pytest.fixture
def similarity():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-1, 2, (6, 8), generator=generator).double()  # with unknown pairs


def slow_item_weight(similarity, i, j):
    """The mean of what image i and text j each give to their pair, by counting."""
    given = []
    for line in (similarity[i], similarity[:, j]):
        known = [float(s) for s in line if s != 0]
        p = min(max(sum(s > 0 for s in known) / len(known), 0.001), 0.999)
        given.append(0.5 / p if similarity[i, j] > 0 else 0.5 / (1 - p))
    return sum(given) / 2


def test_weights_by_item_are_what_counting_gives(similarity):
    weights = pair_weights(similarity, balanced="item")
    for i, j in similarity.nonzero().tolist():
        assert float(weights[i, j]) == pytest.approx(slow_item_weight(similarity, i, j))


def test_unknown_pairs_weigh_nothing(similarity):
    for balanced in (False, True, "item"):
        assert (pair_weights(similarity, balanced=balanced)[similarity == 0] == 0).all()


def test_weights_in_the_batch_give_each_kind_half_of_the_say(similarity):
    weights = pair_weights(similarity, balanced=True)
    assert float(weights[similarity > 0].sum()) == pytest.approx(float(weights.sum()) / 2)


def test_by_item_one_that_resembles_few_counts_as_much_as_one_that_resembles_many():
    few_and_many = torch.tensor([[1.0, -1.0, -1.0, -1.0], [1.0, 1.0, 1.0, -1.0]])
    images = [float(pair_weights(row[None], balanced="item").sum()) for row in few_and_many]
    assert images[0] == pytest.approx(images[1])
    batch = pair_weights(few_and_many, balanced=True)
    assert float(batch[0][few_and_many[0] > 0].sum()) < float(batch[1][few_and_many[1] > 0].sum())


def test_a_word_that_names_no_weights_is_refused(similarity):
    with pytest.raises(InputError, match="true, false or 'item'. Got 'items'"):
        pair_weights(similarity, balanced="items")
