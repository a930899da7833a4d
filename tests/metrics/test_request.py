"""What evaluate() refuses, with the value and the way out."""

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.metrics import evaluate
from corrhash.relevance import Similarity

BAD_INPUT = {
    "bits": (dict(database=Codes.from_signs([[1, 1]])), "6 and 2 bits"),
    "rows": (dict(query_labels=np.ones((24, 9))), "25 queries .* given for 24"),
    "columns": (dict(query_labels=np.ones((25, 8))), "8 and 9 columns"),
    "counts": (dict(query_labels=np.full((25, 9), 2)), "must be 0 or 1. Got 2"),
    "vector": (dict(query_labels=np.ones(25)), r"matrix of 0 and 1. Got shape \(25,\)"),
    "one side": (dict(query_labels=None), "queries and database alike"),
    "mixed": (dict(database=np.ones((60, 6))), "Got Codes and ndarray"),
    "reading": (dict(reading="best"), "There is no reading 'best'"),
    "ties": (dict(ties="random"), "no tie rule 'random'"),
    "first": (dict(reading="first@5", ties="expected"), "no closed form over ties"),
    "bounds": (dict(ties="optimistic", ndcg_at=(5,)), "NDCG has graded gains"),
    "number": (dict(ndcg_at=10), "ndcg_at must be a list of whole numbers from 1 up. Got 10"),
    "ragged": (dict(query_labels=[[1], [1, 0]]), "query_labels must be rows of equal length"),
    "fraction": (dict(ranks=(1.5,)), r"whole numbers from 1 up. Got \(1.5,\)"),
    "rank": (dict(ranks=(0, 5)), r"ranks must be a list of whole numbers from 1 up. Got \(0, 5\)"),
    "mask": (dict(untagged=[True]), r"one entry a query: \(25,\)"),
    "untagged": (dict(untagged=[True] * 25), "None of the 25 text queries"),
    "both": (dict(similarity=Similarity.partners(3)), "both labels and a similarity"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_told_with_the_value_and_the_way_out(retrieval, case):
    change, message = BAD_INPUT[case]
    with pytest.raises(InputError, match=message):
        evaluate(**{**retrieval, **change})


@pytest.mark.parametrize("side", ["queries", "database"])
def test_an_empty_side_is_refused(retrieval, side):
    labels = {"queries": "query_labels", "database": "database_labels"}[side]
    empty = {side: retrieval[side][:0], labels: retrieval[labels][:0]}
    with pytest.raises(InputError, match=f"nothing to evaluate: {side} has 0 rows"):
        evaluate(**{**retrieval, **empty})


def test_scores_that_are_not_finite_are_refused(retrieval):
    labels = retrieval["query_labels"], retrieval["database_labels"]
    broken = np.ones((25, 6))
    broken[7, 2] = np.nan
    with pytest.raises(InputError, match="queries must be finite. Row 7"):
        evaluate(broken, np.ones((60, 6)), *labels)


def test_unlabelled_sides_of_different_length_are_refused(retrieval):
    with pytest.raises(InputError, match="25 queries and 60 database items"):
        evaluate(retrieval["queries"], retrieval["database"])


@pytest.mark.parametrize("ranked", ["codes of 512 bits", "scores"])
def test_the_first_k_have_no_expectation_whatever_the_data(retrieval, ranked):
    rng = np.random.default_rng(0)
    sides = [rng.standard_normal((n, 512)) for n in (25, 60)]
    if ranked != "scores":
        sides = [Codes.from_scores(side) for side in sides]
    labels = retrieval["query_labels"], retrieval["database_labels"]
    with pytest.raises(InputError, match="no closed form over ties"):
        evaluate(*sides, *labels, reading="first@5", ties="expected")
