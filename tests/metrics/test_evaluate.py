"""evaluate(): metrics against slow references, invariances, and input checks."""

import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from corrhash import Codes, InputError
from corrhash.metrics import evaluate
from corrhash.similarity import Similarity, share_label
from tests.metrics.slow_rankings import (
    mean_over_orders,
    slow_average_precision,
    slow_ndcg,
    stable_order,
)

BAD_INPUT = {
    "bits": (dict(database=Codes.from_signs([[1, 1]])), "6 and 2"),
    "rows": (dict(query_labels=np.ones((24, 9))), "cover 25 queries .* got 24"),
    "columns": (dict(query_labels=np.ones((25, 8))), "8 and 9"),
    "counts": (dict(query_labels=np.full((25, 9), 2)), "query_labels must be 0 or 1, got 2"),
    "vector": (dict(query_labels=np.ones(25)), r"matrix of 0 and 1, got shape \(25,\)"),
    "one of two": (dict(query_labels=None), "both query_labels and database_labels"),
    "mixed": (dict(database=np.ones((60, 6))), "got Codes and ndarray"),
    "definition": (dict(definition="best"), "Unknown mAP definition 'best'"),
    "ties": (dict(ties="random"), "Unknown tie rule 'random'"),
    "first": (dict(definition="first@5", ties="expected"), "no closed form over ties"),
    "bounds": (dict(ties="optimistic", ndcg_at=(5,)), "not defined for the graded gains of NDCG"),
    "number": (dict(ndcg_at=10), "ndcg_at must be a list of positive integers, got 10"),
    "ragged": (dict(query_labels=[[1], [1, 0]]), "query_labels must have rows of equal length"),
    "fraction": (dict(ranks=(1.5,)), r"positive integers, got \(1.5,\)"),
    "rank": (dict(ranks=(0, 5)), r"ranks must be a list of positive integers, got \(0, 5\)"),
    "mask": (dict(empty_text=[True]), r"empty_text must have shape \(25,\), got \(1,\)"),
    "empty_text": (dict(empty_text=[True] * 25), "None of the 25 text queries"),
    "both": (dict(similarity=Similarity.paired(3)), "either labels or a similarity"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_raises_with_the_value_received(retrieval, case):
    change, message = BAD_INPUT[case]
    with pytest.raises(InputError, match=message):
        evaluate(**{**retrieval, **change})


@pytest.mark.parametrize("part", ["queries", "database"])
def test_no_queries_or_an_empty_database_raise(retrieval, part):
    labels = {"queries": "query_labels", "database": "database_labels"}[part]
    empty = {part: retrieval[part][:0], labels: retrieval[labels][:0]}
    with pytest.raises(InputError, match=f"{part} must have at least one row, got 0"):
        evaluate(**{**retrieval, **empty})


def test_continuous_codes_must_be_finite(retrieval):
    labels = retrieval["query_labels"], retrieval["database_labels"]
    broken = np.ones((25, 6))
    broken[7, 2] = np.nan
    with pytest.raises(InputError, match="queries must be finite, but row 7 is not"):
        evaluate(broken, np.ones((60, 6)), *labels)


def test_without_labels_both_must_have_equal_length(retrieval):
    with pytest.raises(InputError, match="25 queries and 60 database items"):
        evaluate(retrieval["queries"], retrieval["database"])


@pytest.mark.parametrize("ranked", ["codes of 512 bits", "continuous codes"])
def test_first_at_k_has_no_expectation_over_ties(retrieval, ranked):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((n, 512)) for n in (25, 60)]
    if ranked != "continuous codes":
        inputs = [Codes.from_continuous(array) for array in inputs]
    labels = retrieval["query_labels"], retrieval["database_labels"]
    with pytest.raises(InputError, match="no closed form over ties"):
        evaluate(*inputs, *labels, definition="first@5", ties="expected")


MAP_DEFINITIONS = ["all", "dcmh", "hashnet@7", "first@5", "possible@7", "trec@7"]


def by_hand(retrieval, metric):
    """Return ``metric(distances, relevant)`` of every query."""
    distances = retrieval["queries"].hamming(retrieval["database"])
    relevant = share_label(retrieval["query_labels"], retrieval["database_labels"])
    return [
        metric(d.tolist(), r.astype(int).tolist()) for d, r in zip(distances, relevant, strict=True)
    ]


@pytest.mark.parametrize("definition", MAP_DEFINITIONS)
def test_stable_order_equals_a_loop_over_queries(retrieval, definition):
    name, _, depth = definition.partition("@")

    def metric(distances, relevant):
        ranked = stable_order(distances, relevant)
        return slow_average_precision(ranked, name, int(depth) if depth else None)

    expected = by_hand(retrieval, metric)
    scores = evaluate(**retrieval, definition=definition, ties="stable")
    np.testing.assert_allclose(scores.average_precisions, expected, atol=1e-12)
    assert scores.map == pytest.approx(np.nanmean(expected), abs=1e-12)


def test_expected_ties_equal_the_mean_over_all_orders():
    rng = np.random.default_rng(0)
    retrieval = {
        "queries": Codes.from_continuous(rng.standard_normal((30, 2))),
        "database": Codes.from_continuous(rng.standard_normal((7, 2))),
        "query_labels": rng.integers(0, 2, (30, 2)),
        "database_labels": rng.integers(0, 2, (7, 2)),
    }

    def metric(distances, relevant):
        return mean_over_orders(
            distances, relevant, lambda order: slow_average_precision(order, "all")
        )

    expected = by_hand(retrieval, metric)
    np.testing.assert_allclose(
        evaluate(**retrieval).average_precisions, expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("ties", ["expected", "stable", "optimistic", "pessimistic"])
def test_precision_at_rank_equals_counting(retrieval, ties):
    scores = evaluate(**retrieval, ties=ties, ranks=(1, 4, 10, 60, 61))
    assert list(scores.precision_at) == [1, 4, 10, 60]  # the database has 60 items
    sign = {"optimistic": -1, "pessimistic": 1}.get(ties, 0)

    def metric(distances, relevant):
        if not any(relevant):
            return [np.nan] * 4
        order = sorted(range(60), key=lambda i: (distances[i], sign * relevant[i]))
        hits = np.cumsum([relevant[i] for i in order])
        if ties == "expected":
            hits = hits_over_ties(distances, relevant)
        return [hits[k - 1] / k for k in (1, 4, 10, 60)]

    expected = np.nanmean(by_hand(retrieval, metric), axis=0)
    np.testing.assert_allclose(list(scores.precision_at.values()), expected, atol=1e-12)


def hits_over_ties(distances, relevant):
    hits, seen = [], 0.0
    for distance in sorted(set(distances)):
        group = [r for d, r in zip(distances, relevant, strict=True) if d == distance]
        hits += [seen + (i + 1) * sum(group) / len(group) for i in range(len(group))]
        seen += sum(group)
    return hits


def test_the_radius_curve_equals_a_lookup_per_query(retrieval):
    scores = evaluate(**retrieval)
    for radius in range(7):

        def metric(distances, relevant, radius=radius):
            inside = [r for d, r in zip(distances, relevant, strict=True) if d <= radius]
            if not any(relevant):
                return [np.nan] * 3
            precision = sum(inside) / len(inside) if inside else 0.0
            return [precision, sum(inside) / sum(relevant), float(not inside)]

        precision, recall, empty = np.nanmean(by_hand(retrieval, metric), axis=0)
        assert scores.radius.precision[radius] == pytest.approx(precision, abs=1e-12)
        assert scores.radius.recall[radius] == pytest.approx(recall, abs=1e-12)
        assert scores.radius.empty_rate[radius] == pytest.approx(empty, abs=1e-12)
    assert scores.precision_within_2 == scores.radius.precision[2]


def test_the_radius_curve_does_not_depend_on_the_tie_rule(retrieval):
    expected = evaluate(**retrieval).radius
    stable = evaluate(**retrieval, ties="stable").radius
    np.testing.assert_allclose(stable.precision, expected.precision, atol=1e-12)
    np.testing.assert_allclose(stable.recall, expected.recall, atol=1e-12)


def test_ndcg_counts_shared_labels_as_gain(retrieval):
    shared = np.asarray(retrieval["query_labels"]) @ np.asarray(retrieval["database_labels"]).T
    distances = retrieval["queries"].hamming(retrieval["database"])
    values = [
        slow_ndcg(stable_order(d.tolist(), g.tolist()), 10)
        for d, g in zip(distances, shared, strict=True)
        if g.any()
    ]
    scores = evaluate(**retrieval, ties="stable", ndcg_at=(10,))
    assert scores.ndcg_at[10] == pytest.approx(np.mean(values), abs=1e-12)


def test_threads_and_ndcg_do_not_change_other_metrics(retrieval):
    one, two = (evaluate(**retrieval, threads=threads) for threads in (1, 2))
    assert one.as_dict() == two.as_dict()
    graded = evaluate(**retrieval, ndcg_at=(5,)).as_dict()
    assert {**graded, "ndcg_at": {}} == one.as_dict()


def assert_same(a, b):
    """Assert that two Scores agree up to rounding."""
    np.testing.assert_allclose(a.average_precisions, b.average_precisions, atol=1e-12)
    np.testing.assert_allclose(a.pr_precision, b.pr_precision, atol=1e-12)
    np.testing.assert_allclose(
        list(a.precision_at.values()), list(b.precision_at.values()), atol=1e-12
    )
    assert (a.n_without_relevant, a.n_empty_text) == (b.n_without_relevant, b.n_empty_text)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_the_order_of_the_database_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    queries = Codes.from_continuous(rng.standard_normal((6, 5)))
    database = Codes.from_continuous(rng.standard_normal((40, 5)))
    labels, database_labels = rng.integers(0, 2, (6, 4)), rng.integers(0, 2, (40, 4))
    order = rng.permutation(40)
    assert_same(
        evaluate(queries, database, labels, database_labels),
        evaluate(queries, database[order], labels, database_labels[order]),
    )


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 130))
def test_permuting_and_flipping_bits_does_not_matter(seed, n_bits):
    rng = np.random.default_rng(seed)
    queries, database = (2 * rng.integers(0, 2, (n, n_bits), dtype=np.int8) - 1 for n in (5, 30))
    labels, database_labels = rng.integers(0, 2, (5, 4)), rng.integers(0, 2, (30, 4))
    order, flip = rng.permutation(n_bits), 2 * rng.integers(0, 2, n_bits) - 1
    assert_same(
        evaluate(Codes.from_signs(queries), Codes.from_signs(database), labels, database_labels),
        evaluate(
            Codes.from_signs(queries[:, order] * flip),
            Codes.from_signs(database[:, order] * flip),
            labels,
            database_labels,
        ),
    )


def test_random_codes_score_the_share_of_relevant_items():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 4000)
    codes = Codes.from_continuous(rng.standard_normal((4000, 32)))
    one_hot = np.eye(3, dtype=int)[labels]
    scores = evaluate(codes[:300], codes[300:], one_hot[:300], one_hot[300:])
    assert scores.map == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("n_classes", [9, 70, 1500])
def test_dense_and_sparse_labels_give_equal_scores(retrieval, n_classes):
    """With more than 1,024 classes, relevant rows are listed instead of comparing masks."""
    wide = {
        name: sp.csr_matrix(np.pad(retrieval[name], ((0, 0), (n_classes - 9, 0))))
        for name in ("query_labels", "database_labels")
    }
    plain = evaluate(**retrieval, ndcg_at=(10,))
    padded = evaluate(**{**retrieval, **wide}, ndcg_at=(10,))
    assert padded.as_dict() == plain.as_dict()
    stable = evaluate(**{**retrieval, **wide}, ties="stable")
    assert stable.as_dict() == evaluate(**retrieval, ties="stable").as_dict()


@pytest.mark.parametrize("n_classes", [20, 1500])
def test_memory_stays_below_the_distance_matrix(n_classes):
    rng = np.random.default_rng(0)
    codes = Codes.from_continuous(rng.standard_normal((40_200, 16)))
    labels = sp.random_array((40_200, n_classes), density=3 / n_classes, rng=rng) > 0
    frequent = sp.csr_array(rng.random((40_200, 3)) < 0.3)  # most items are relevant to most
    labels = sp.hstack([frequent, labels], format="csr")
    evaluate(codes[:2], codes[200:], labels[:2], labels[200:])  # compiles
    tracemalloc.start()
    evaluate(codes[:200], codes[200:], labels[:200], labels[200:])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * 40_000 * 2  # bytes: well below the distances alone in float64


def test_cosine_of_very_large_and_small_rows(retrieval):
    rng = np.random.default_rng(5)
    queries, database = rng.standard_normal((25, 8)), rng.standard_normal((60, 8))
    labels = retrieval["query_labels"], retrieval["database_labels"]
    scale = 10.0 ** rng.integers(-250, 250, (60, 1))
    assert_same(
        evaluate(queries * 1e200, database * scale, *labels), evaluate(queries, database, *labels)
    )


def test_scores_are_read_only(retrieval):
    scores = evaluate(**retrieval)
    with pytest.raises(TypeError):
        scores.precision_at[1] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        scores.average_precisions[0] = 1.0


def test_complete_judgments_score_like_labels(retrieval):
    similar = share_label(retrieval["query_labels"], retrieval["database_labels"])
    pairs = [(i, j, 1 if s else -1) for (i, j), s in np.ndenumerate(similar)]
    codes = retrieval["queries"], retrieval["database"]
    judged = evaluate(*codes, similarity=Similarity.from_judgments(pairs, similar.shape))
    assert_same(judged, evaluate(**retrieval))
    assert judged.n_unjudged == 0


def test_unjudged_pairs_are_counted_as_not_relevant():
    codes = Codes.from_signs([[1, 1], [1, -1], [-1, -1]])
    similarity = Similarity.from_judgments([(0, 0, 1), (0, 1, -1)], shape=(1, 3))
    scores = evaluate(codes[:1], codes, similarity=similarity)
    assert scores.map == 1
    assert scores.n_unjudged == 1


def test_paired_samples_have_recall_and_median_rank():
    queries = Codes.from_signs([[1, 1], [1, -1], [-1, -1]])
    database = Codes.from_signs([[1, 1], [-1, 1], [-1, -1]])
    scores = evaluate(queries, database)
    # Ranks of the paired samples: 1; 3, alone at distance 2; 1.
    assert scores.recall_at == {1: pytest.approx(2 / 3), 5: 1.0, 10: 1.0}
    assert scores.median_rank == 1


def test_continuous_codes_are_ranked_by_cosine(retrieval):
    rng = np.random.default_rng(5)
    queries, database = rng.standard_normal((25, 8)), rng.standard_normal((60, 8))
    labels = retrieval["query_labels"], retrieval["database_labels"]
    scores = evaluate(queries, database, *labels)
    lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(database, axis=1)
    cosines = queries @ database.T / lengths
    relevant = share_label(*labels)
    expected = [
        slow_average_precision(r[np.argsort(-c)], "all")
        for c, r in zip(cosines, relevant, strict=True)
    ]
    np.testing.assert_allclose(scores.average_precisions, expected, atol=1e-12)
    assert scores.ranked_by == "cosine"
    assert scores.radius is None
    assert scores.n_distinct_database is None


@pytest.mark.parametrize("ties", ["expected", "stable", "optimistic", "pessimistic"])
def test_signs_by_cosine_score_like_codes_by_distance(retrieval, ties):
    signs = [retrieval[name].signs().astype(float) for name in ("queries", "database")]
    labels = retrieval["query_labels"], retrieval["database_labels"]
    assert_same(evaluate(*signs, *labels, ties=ties), evaluate(**retrieval, ties=ties))


def test_a_query_without_relevant_items_is_excluded(retrieval):
    labels = retrieval["query_labels"].copy()
    labels[3] = 0
    scores = evaluate(**{**retrieval, "query_labels": labels})
    assert np.isfinite(scores.map)
    assert np.isnan(scores.average_precisions[3])
    assert scores.n_without_relevant >= 1
    json.dumps(scores.as_dict(), allow_nan=False)


def test_map_is_nan_if_no_query_has_a_relevant_item(retrieval):
    nothing = np.zeros_like(retrieval["query_labels"])
    scores = evaluate(**{**retrieval, "query_labels": nothing})
    assert np.isnan(scores.map)
    assert scores.n_without_relevant == 25
    assert scores.as_dict()["map"] is None


def test_queries_without_a_hit_in_the_top_are_counted():
    database = Codes.from_signs([[1, 1], [1, -1], [-1, -1]])
    labels = [[0, 1], [0, 1], [1, 0]]
    queries = Codes.from_signs([[1, 1], [1, 1]])
    scores = evaluate(queries, database, [[1, 0], [0, 0]], labels, definition="hashnet@2")
    assert (scores.n_without_relevant, scores.n_without_relevant_in_top) == (1, 2)
    assert np.isnan(scores.map)


def test_empty_text_queries_are_excluded_and_counted(retrieval):
    empty_text = np.zeros(25, dtype=bool)
    empty_text[[0, 4]] = True
    scores = evaluate(**retrieval, empty_text=empty_text)
    rest = {
        **retrieval,
        "queries": retrieval["queries"][~empty_text],
        "query_labels": retrieval["query_labels"][~empty_text],
    }
    assert scores.map == evaluate(**rest).map
    assert (scores.n_queries, scores.n_empty_text) == (25, 2)
    assert np.isnan(scores.average_precisions[[0, 4]]).all()


def test_distinct_codes_reveal_a_collapse():
    constant = Codes.from_signs(np.ones((10, 16), dtype=int))
    labels = np.eye(2, dtype=int)[np.arange(10) % 2]
    scores = evaluate(constant[:3], constant, labels[:3], labels)
    assert (scores.n_distinct_queries, scores.n_distinct_database) == (1, 1)
