"""Fine-tuning on judgments: its losses, the order that it validates, and what it keeps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from corrhash import CHNPlus, Networks, Training
from corrhash.codes import unit_rows
from corrhash.datasets import make_pairs
from corrhash.methods.fine_tuning import (
    DEFAULT_RELEVANCE,
    FineTuning,
    JudgedData,
    JudgedItem,
    JudgedQuery,
    _ranking_loss,
    fine_tune,
    learn_relevance,
    ordered_share,
    validation_queries,
)

QUICK = {"networks": Networks(width=32), "training": Training(epochs=2)}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(200)


@pytest.fixture(scope="module")
def hasher(pairs):
    return CHNPlus(16, **QUICK).fit(pairs)


@pytest.fixture(scope="module")
def data(pairs):
    """Each of 20 queries by text, with the 8 following items judged by their labels."""
    labels = pairs.labels.toarray() > 0
    queries = []
    for row in range(20):
        items = range(row + 1, row + 9)
        fits = {at: (labels[row] & labels[at]).any() for at in items}
        judged = [JudgedItem(at, at, 1 if fits[at] else -1) for at in items]
        queries.append(JudgedQuery("text", row, judged))
    rows = np.arange(100)
    return JudgedData(pairs.images, pairs.texts, np.stack([rows, rows], axis=1), queries)


def test_ranking_loss_by_hand():
    """Cosines .8 and 0 of a fitting and another item, and of those of another query."""
    codes = {
        "text": torch.tensor([[1.0, 1.0, 1.0, 1.0]]),
        "image": torch.tensor([[3.0, 1, 1, -1], [1.0, -1, 2, -2], [1.0, 1, 1, 1]]),
    }

    def encode(modality, rows):
        return codes[modality][rows]

    query = JudgedQuery("text", 0, [JudgedItem(0, -1, 1), JudgedItem(1, -1, -1)])
    only_fits = JudgedQuery("image", 2, [JudgedItem(0, -1, 1)])
    loss = _ranking_loss(encode, [query, only_fits], temperature=0.5)
    signs = [0.5, 0.0]  # cosines of the query and the signs of both items
    shares = np.exp(np.array(signs) / 0.5)
    assert float(loss) == pytest.approx(-np.log(shares[0] / shares.sum()))
    assert float(_ranking_loss(encode, [only_fits], 0.5)) == 0


def test_relevance_rises_with_the_cosine(hasher, data):
    items = unit_rows(hasher.embed_image(data.images[:100]))
    slope, intercept = learn_relevance(hasher, data, items, np.random.default_rng(0))
    assert slope > 0
    assert intercept < slope
    no_fits = [replace(query, items=[JudgedItem(1, 1, -1)]) for query in data.queries]
    given = replace(data, queries=no_fits)
    assert learn_relevance(hasher, given, items, np.random.default_rng(0)) == DEFAULT_RELEVANCE


def test_ordered_share_counts_pairs_and_half_ties(hasher, data):
    right = total = 0
    for query in data.queries:
        asked = hasher.embed_text(data.texts[[query.row]])[0]
        scores = {
            item: float(hasher.encode_image(data.images[[item.image]]).signs()[0] @ asked)
            for item in query.items
        }
        for near in (item for item in query.items if item.verdict > 0):
            for far in (item for item in query.items if item.verdict < 0):
                difference = round(scores[near], 4) - round(scores[far], 4)
                right += 1.0 if difference > 0 else 0.5 if difference == 0 else 0.0
                total += 1
    share, n_pairs = ordered_share(hasher, data)
    assert n_pairs == total > 100
    assert share == pytest.approx(right / total)


def test_texts_of_fitting_items_are_tested_too():
    items = [JudgedItem(1, 11, 1), JudgedItem(2, -1, 1), JudgedItem(3, 13, -1)]
    random = [JudgedItem(3, 13, -1), JudgedItem(4, 14, -1)]
    only_fits = JudgedQuery("image", 8, items[1:2])
    found = validation_queries([JudgedQuery("text", 0, items), only_fits], random)
    assert [(one.modality, one.row) for one in found] == [("text", 0), ("text", 11)]
    assert found[0].items == items
    assert found[1].items == [*items[1:], random[1]]


def test_fine_tuning_learns_the_order_and_keeps_the_original(hasher, data):
    before = {name: array.copy() for name, array in hasher.learned().items()}
    settings = FineTuning(steps=60, learning_rate=3e-3, ranking_weight=5.0)
    tuned = fine_tune(hasher, data, settings)
    assert ordered_share(tuned, data)[0] > ordered_share(hasher, data)[0] + 0.05
    for name, array in hasher.learned().items():
        np.testing.assert_array_equal(array, before[name])
    again = fine_tune(hasher, data, settings)
    for name, array in tuned.learned().items():
        np.testing.assert_array_equal(array, again.learned()[name])


def test_query_refinement_uses_the_new_codes(hasher, data):
    assert hasher.reference_codes_ is not None
    tuned = fine_tune(hasher, data, FineTuning(steps=3))
    expected = np.concatenate(
        [tuned.embed_image(data.images[:100]), tuned.embed_text(data.texts[:100])]
    )
    np.testing.assert_allclose(tuned.reference_codes_, expected, atol=1e-6)
