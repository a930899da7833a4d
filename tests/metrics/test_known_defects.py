"""Defects of public evaluators, each with a test that would have caught it."""

import inspect

import numpy as np
import pytest

from corrhash import Codes
from corrhash.datasets import load_dataset
from corrhash.experiments.directions import encode_pairs, score_directions
from corrhash.methods import METHODS, Hasher
from corrhash.methods.cvh import CVH
from corrhash.metrics import evaluate


@pytest.fixture
def labelled():
    """Codes that follow their class, 4 classes, 16 bits."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, 1200)
    labels = np.eye(4, dtype=int)[classes]
    codes = Codes.from_scores(labels @ rng.normal(size=(4, 16)) + rng.normal(size=(1200, 16)))
    return codes, labels, classes


def test_no_buffer_is_shared_by_both_sides_so_that_all_numbers_come_out_equal():
    split = load_dataset("synthetic", n=780)
    hasher = CVH(16).fit(split.train)
    query, database = (encode_pairs(hasher, p) for p in (split.query, split.database))
    within = evaluate(query["image"], database["image"], split.query.labels, split.database.labels)
    across = score_directions(split, query, database)
    assert len({within.map, *(scores.map for scores in across.values())}) == 3


def test_the_count_of_queries_starts_at_zero():
    codes = Codes.from_signs([[1, 1, 1], [-1, -1, -1]])
    assert evaluate(codes[:1], codes, [[1, 0]], [[1, 0], [0, 1]]).map == 1


def test_a_query_without_a_relevant_item_does_not_turn_the_mean_into_nan():
    codes = Codes.from_signs([[1, 1, 1], [-1, -1, -1]])
    scores = evaluate(codes, codes, [[1, 0, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0]])
    assert scores.map == 1
    assert scores.n_empty == 1


def test_a_score_of_zero_is_a_bit_so_that_products_are_distances():
    codes = Codes.from_scores([[0.0, 1.0, -1.0, 0.0]])
    signs = codes.signs().astype(int)
    assert (signs @ signs.T).item() == 4
    assert codes.hamming(codes).item() == 0


def test_the_last_item_of_the_database_counts():
    codes = Codes.from_signs([[1, 1, 1], [1, 1, -1], [1, -1, -1], [-1, -1, -1]])
    labels = [[0, 1], [0, 1], [0, 1], [1, 0]]
    for ties in ("expected", "stable"):
        assert evaluate(codes[:1], codes, [[1, 0]], labels, ties=ties).map == 1 / 4


def test_queries_cannot_reach_the_choice_of_an_epoch():
    assert list(inspect.signature(Hasher.fit).parameters) == ["self", "pairs", "validation"]
    for name in METHODS:
        assert METHODS[name].fit is Hasher.fit


def test_a_database_sorted_by_class_scores_as_any_other(labelled):
    codes, labels, classes = labelled
    queries, database = slice(0, 200), np.arange(200, 1200)
    by_class = database[np.argsort(classes[database], kind="stable")]
    plain, ordered = (
        evaluate(codes[queries], codes[rows], labels[queries], labels[rows])
        for rows in (database, by_class)
    )
    assert ordered.map == pytest.approx(plain.map, abs=1e-12)
    stable = evaluate(
        codes[queries], codes[by_class], labels[queries], labels[by_class], ties="stable"
    )
    assert abs(stable.map - plain.map) > 0.001  # what the order of the database can fake


def test_a_code_does_not_depend_on_its_neighbours_in_the_batch():
    """Thresholds are medians of training items, never of the batch that is encoded."""
    split = load_dataset("synthetic", n=780)
    hasher = METHODS["imh"](16).fit(split.train)
    images = split.query.images
    together = hasher.encode_image(images)
    halves = [hasher.encode_image(images[half]) for half in (slice(0, 5), slice(5, None))]
    np.testing.assert_array_equal(
        together.packed, np.concatenate([codes.packed for codes in halves])
    )
