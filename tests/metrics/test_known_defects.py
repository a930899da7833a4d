"""Defects found in published evaluation code, each with a test that would catch it."""

import inspect

import numpy as np
import pytest

from corrhash import Codes
from corrhash.datasets import load_dataset
from corrhash.experiments.evaluation import encode_pairs, evaluate_directions
from corrhash.methods import METHODS, Hasher
from corrhash.methods.cvh import CVH
from corrhash.metrics import evaluate


@pytest.fixture
def labelled():
    """Codes that follow their class, 4 classes, 16 bits."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, 1200)
    labels = np.eye(4, dtype=int)[classes]
    codes = Codes.from_continuous(labels @ rng.normal(size=(4, 16)) + rng.normal(size=(1200, 16)))
    return codes, labels, classes


def test_directions_do_not_share_a_buffer():
    split = load_dataset("synthetic", n=780)
    hasher = CVH(16).fit(split.train)
    query, database = (encode_pairs(hasher, p) for p in (split.query, split.database))
    within = evaluate(query["image"], database["image"], split.query.labels, split.database.labels)
    across = evaluate_directions(split.query, split.database, query, database)
    assert len({within.map, *(scores.map for scores in across.values())}) == 3


def test_the_count_of_queries_starts_at_zero():
    codes = Codes.from_signs([[1, 1, 1], [-1, -1, -1]])
    assert evaluate(codes[:1], codes, [[1, 0]], [[1, 0], [0, 1]]).map == 1


def test_a_query_without_relevant_items_gives_no_nan():
    codes = Codes.from_signs([[1, 1, 1], [-1, -1, -1]])
    scores = evaluate(codes, codes, [[1, 0, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0]])
    assert scores.map == 1
    assert scores.n_without_relevant == 1


def test_a_continuous_code_of_zero_gives_a_bit():
    codes = Codes.from_continuous([[0.0, 1.0, -1.0, 0.0]])
    signs = codes.signs().astype(int)
    assert (signs @ signs.T).item() == 4
    assert codes.hamming(codes).item() == 0


def test_the_last_item_of_the_database_counts():
    codes = Codes.from_signs([[1, 1, 1], [1, 1, -1], [1, -1, -1], [-1, -1, -1]])
    labels = [[0, 1], [0, 1], [0, 1], [1, 0]]
    for ties in ("expected", "stable"):
        assert evaluate(codes[:1], codes, [[1, 0]], labels, ties=ties).map == 1 / 4


def test_queries_cannot_select_the_epoch():
    parameters = list(inspect.signature(Hasher.fit).parameters)
    assert parameters == ["self", "images", "texts", "labels", "validation"]
    for name in METHODS:
        assert METHODS[name].fit is Hasher.fit


def test_a_database_sorted_by_class_scores_the_same(labelled):
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
    assert abs(stable.map - plain.map) > 0.001  # the effect of the order of the database


def test_a_code_does_not_depend_on_its_batch():
    """Thresholds are medians of training items, not of the encoded batch."""
    split = load_dataset("synthetic", n=780)
    hasher = METHODS["imh"](16).fit(split.train)
    images = split.query.images
    together = hasher.encode_image(images)
    halves = [hasher.encode_image(images[half]) for half in (slice(0, 5), slice(5, None))]
    np.testing.assert_array_equal(
        together.packed, np.concatenate([codes.packed for codes in halves])
    )
