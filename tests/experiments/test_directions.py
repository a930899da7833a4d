"""Both directions: never mixed up, and the same as evaluating by hand."""

from dataclasses import replace

import numpy as np
import pytest

from corrhash.datasets import load_dataset
from corrhash.experiments.directions import (
    encode_pairs,
    random_codes,
    ranked_pairs,
    score_directions,
)
from corrhash.methods.cvh import CVH
from corrhash.metrics import evaluate


@pytest.fixture(scope="module")
def split():
    return load_dataset("synthetic", n=780)


def test_each_direction_asks_with_its_own_side(split):
    """A buffer shared by both sides once made all four numbers of a public evaluator equal."""
    hasher = CVH(16).fit(split.train)
    query, database = (encode_pairs(hasher, p) for p in (split.query, split.database))
    scores = score_directions(split, query, database)
    labels = split.query.labels, split.database.labels
    assert scores["image->text"].map == evaluate(query["image"], database["text"], *labels).map
    assert scores["text->image"].map == evaluate(query["text"], database["image"], *labels).map
    assert scores["image->text"].map != scores["text->image"].map


def test_answers_are_ranked_as_the_method_or_the_caller_says(split):
    class Unrounded(CVH):
        ranked_by = "cosine"

    hasher = Unrounded(16).fit(split.train)
    scores, _ = ranked_pairs(hasher, split.query, split.database)
    np.testing.assert_array_equal(scores["text"], hasher.score_text(split.query.texts))
    _, codes = ranked_pairs(hasher, split.query, split.database, ranked_by="hamming")
    expected = hasher.encode_image(split.database.images)
    np.testing.assert_array_equal(codes["image"].packed, expected.packed)


def test_a_method_may_ask_with_other_codes_than_it_answers_with(split):
    class Contrary(CVH):
        def query_codes(self, scores):
            return super().query_codes(-scores)

    hasher = Contrary(16).fit(split.train)
    asked, answered = ranked_pairs(hasher, split.query, split.query)
    np.testing.assert_array_equal(asked["text"].signs(), -answered["text"].signs())


def test_random_codes_score_the_share_of_similar_pairs(split):
    codes = [random_codes(p, 32) for p in (split.query, split.database)]
    assert score_directions(split, *codes)["image->text"].map == pytest.approx(0.33, abs=0.03)


def test_without_labels_queries_look_for_their_partners_among_one_another(split):
    bare = replace(split, pairs=split.pairs.without_labels())
    hasher = CVH(16).fit(bare.train)
    query, database = ranked_pairs(hasher, bare.query, bare.database)
    scores = score_directions(bare, query, database)["image->text"]
    assert scores.n_database == len(bare.query)
    assert scores.recall_at == evaluate(query["image"], query["text"]).recall_at
    assert scores.recall_at[10] > 10 / len(bare.query)
