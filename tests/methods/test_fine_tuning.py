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
    judged_scores,
    learn_relevance,
    share_in_order,
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


def test_judged_scores_equal_a_slow_version(hasher, data):
    scores, fits = [], []
    for query in data.queries:
        fitting = [item for item in query.items if item.verdict > 0]
        for row, own in [(query.row, None), *((item.text, item) for item in fitting)]:
            asked = hasher.embed_text(data.texts[[row]])[0]
            for item in query.items:
                if item is not own:
                    code = hasher.encode_image(data.images[[item.image]]).signs()[0]
                    norm = np.linalg.norm(asked) * np.linalg.norm(code)
                    scores.append(float(code @ asked) / norm)
                    fits.append(item.verdict > 0)
    found = judged_scores(hasher, data)
    np.testing.assert_allclose(found[0], scores, atol=1e-4)
    assert found[1].tolist() == fits


def test_share_in_order_equals_counting_pairs():
    rng = np.random.default_rng(0)
    scores, fits = rng.integers(0, 9, 60) / 8, rng.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in scores[fits] for b in scores[~fits]]
    assert share_in_order(scores, fits) == pytest.approx(np.mean(pairs))


def test_fine_tuning_learns_the_order_and_keeps_the_original(hasher, data):
    before = {name: array.copy() for name, array in hasher.learned().items()}
    settings = FineTuning(steps=60, learning_rate=3e-3, ranking_weight=5.0)
    tuned = fine_tune(hasher, data, settings)
    before_share, share = (share_in_order(*judged_scores(one, data)) for one in (hasher, tuned))
    assert share > before_share + 0.05
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
