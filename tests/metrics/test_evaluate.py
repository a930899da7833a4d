"""evaluate() against loops over single queries, and its invariances."""

import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from corrhash import Codes
from corrhash.metrics import evaluate
from corrhash.relevance import Similarity, share_label
from tests.metrics.slow_rankings import (
    mean_over_orders,
    slow_average_precision,
    slow_ndcg,
    stable_order,
)

READINGS = ["all", "dcmh", "hashnet@7", "first@5", "possible@7", "trec@7"]


def by_hand(retrieval, metric):
    """``metric(distances, relevant)`` of every query, as lists."""
    distances = retrieval["queries"].hamming(retrieval["database"])
    relevant = share_label(retrieval["query_labels"], retrieval["database_labels"])
    return [
        metric(d.tolist(), r.astype(int).tolist()) for d, r in zip(distances, relevant, strict=True)
    ]


@pytest.mark.parametrize("reading", READINGS)
def test_every_reading_in_stable_order_equals_a_loop_over_queries(retrieval, reading):
    name, _, depth = reading.partition("@")

    def metric(distances, relevant):
        ranked = stable_order(distances, relevant)
        return slow_average_precision(ranked, name, int(depth) if depth else None)

    expected = by_hand(retrieval, metric)
    scores = evaluate(**retrieval, reading=reading, ties="stable")
    np.testing.assert_allclose(scores.average_precisions, expected, atol=1e-12)
    assert scores.map == pytest.approx(np.nanmean(expected), abs=1e-12)


def test_expected_ties_equal_the_enumeration_of_orders_on_small_databases():
    rng = np.random.default_rng(0)
    retrieval = {
        "queries": Codes.from_scores(rng.standard_normal((30, 2))),
        "database": Codes.from_scores(rng.standard_normal((7, 2))),
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
        places = sorted(range(60), key=lambda i: (distances[i], sign * relevant[i]))
        hits = np.cumsum([relevant[i] for i in places])
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


def test_the_radius_curve_equals_a_look_up_of_every_query(retrieval):
    scores = evaluate(**retrieval)
    for radius in range(7):

        def metric(distances, relevant, radius=radius):
            inside = [r for d, r in zip(distances, relevant, strict=True) if d <= radius]
            if not any(relevant):
                return [np.nan] * 3
            precision = sum(inside) / len(inside) if inside else 0.0
            return [precision, sum(inside) / sum(relevant), float(not inside)]

        precision, recall, nothing = np.nanmean(by_hand(retrieval, metric), axis=0)
        assert scores.radius.precision[radius] == pytest.approx(precision, abs=1e-12)
        assert scores.radius.recall[radius] == pytest.approx(recall, abs=1e-12)
        assert scores.radius.nothing[radius] == pytest.approx(nothing, abs=1e-12)
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


def test_the_numbers_do_not_depend_on_threads_or_on_asking_for_ndcg(retrieval):
    one, two = (evaluate(**retrieval, threads=threads) for threads in (1, 2))
    assert one.as_dict() == two.as_dict()
    graded = evaluate(**retrieval, ndcg_at=(5,)).as_dict()
    assert {**graded, "ndcg_at": {}} == one.as_dict()


def assert_same(a, b):
    """Two Scores agree in every number, up to rounding."""
    np.testing.assert_allclose(a.average_precisions, b.average_precisions, atol=1e-12)
    np.testing.assert_allclose(a.pr_precision, b.pr_precision, atol=1e-12)
    np.testing.assert_allclose(
        list(a.precision_at.values()), list(b.precision_at.values()), atol=1e-12
    )
    assert (a.n_empty, a.n_untagged) == (b.n_empty, b.n_untagged)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_the_order_of_the_database_makes_no_difference(seed):
    rng = np.random.default_rng(seed)
    queries = Codes.from_scores(rng.standard_normal((6, 5)))
    database = Codes.from_scores(rng.standard_normal((40, 5)))
    labels, database_labels = rng.integers(0, 2, (6, 4)), rng.integers(0, 2, (40, 4))
    order = rng.permutation(40)
    assert_same(
        evaluate(queries, database, labels, database_labels),
        evaluate(queries, database[order], labels, database_labels[order]),
    )


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 130))
def test_permuting_and_flipping_bits_on_both_sides_makes_no_difference(seed, n_bits):
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
    codes = Codes.from_scores(rng.standard_normal((4000, 32)))
    one_hot = np.eye(3, dtype=int)[labels]
    scores = evaluate(codes[:300], codes[300:], one_hot[:300], one_hot[300:])
    assert scores.map == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("n_classes", [9, 70, 1500])
def test_labels_count_alike_dense_or_sparse_few_or_many(retrieval, n_classes):
    """Columns without a label change nothing; beyond 1,024 classes relevant rows are listed."""
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
def test_memory_stays_below_the_matrix_of_queries_and_database(n_classes):
    rng = np.random.default_rng(0)
    codes = Codes.from_scores(rng.standard_normal((40_200, 16)))
    labels = sp.random_array((40_200, n_classes), density=3 / n_classes, rng=rng) > 0
    frequent = sp.csr_array(rng.random((40_200, 3)) < 0.3)  # most items are relevant to most
    labels = sp.hstack([frequent, labels], format="csr")
    evaluate(codes[:2], codes[200:], labels[:2], labels[200:])  # compiles
    tracemalloc.start()
    evaluate(codes[:200], codes[200:], labels[:200], labels[200:])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * 40_000 * 2  # bytes: well below the distances alone in float64


def test_cosines_of_very_large_and_very_small_rows_are_right(retrieval):
    rng = np.random.default_rng(5)
    queries, database = rng.standard_normal((25, 8)), rng.standard_normal((60, 8))
    labels = retrieval["query_labels"], retrieval["database_labels"]
    scale = 10.0 ** rng.integers(-250, 250, (60, 1))
    assert_same(
        evaluate(queries * 1e200, database * scale, *labels), evaluate(queries, database, *labels)
    )


def test_scores_cannot_be_changed(retrieval):
    scores = evaluate(**retrieval)
    with pytest.raises(TypeError):
        scores.precision_at[1] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        scores.average_precisions[0] = 1.0


def test_judged_pairs_count_like_labels_where_all_are_known(retrieval):
    similar = share_label(retrieval["query_labels"], retrieval["database_labels"])
    pairs = [(i, j, 1 if s else -1) for (i, j), s in np.ndenumerate(similar)]
    codes = retrieval["queries"], retrieval["database"]
    judged = evaluate(*codes, similarity=Similarity.from_pairs(pairs, similar.shape))
    assert_same(judged, evaluate(**retrieval))
    assert judged.n_unknown == 0


def test_unknown_pairs_count_as_not_relevant_and_are_counted():
    codes = Codes.from_signs([[1, 1], [1, -1], [-1, -1]])
    similarity = Similarity.from_pairs([(0, 0, 1), (0, 1, -1)], shape=(1, 3))
    scores = evaluate(codes[:1], codes, similarity=similarity)
    assert scores.map == 1
    assert scores.n_unknown == 1


def test_pairs_without_labels_report_where_the_partner_stands():
    queries = Codes.from_signs([[1, 1], [1, -1], [-1, -1]])
    database = Codes.from_signs([[1, 1], [-1, 1], [-1, -1]])
    scores = evaluate(queries, database)
    # Partners stand at rank 1; alone at distance 2, last of three; at rank 1.
    assert scores.recall_at == {1: pytest.approx(2 / 3), 5: 1.0, 10: 1.0}
    assert scores.median_rank == 1


def test_real_valued_scores_are_ranked_by_cosine(retrieval):
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
def test_signs_ranked_by_cosine_score_like_codes_ranked_by_distance(retrieval, ties):
    signs = [retrieval[name].signs().astype(float) for name in ("queries", "database")]
    labels = retrieval["query_labels"], retrieval["database_labels"]
    assert_same(evaluate(*signs, *labels, ties=ties), evaluate(**retrieval, ties=ties))


def test_the_scores_of_a_query_without_a_relevant_item_are_not_nan(retrieval):
    labels = retrieval["query_labels"].copy()
    labels[3] = 0
    scores = evaluate(**{**retrieval, "query_labels": labels})
    assert np.isfinite(scores.map)
    assert np.isnan(scores.average_precisions[3])
    assert scores.n_empty >= 1
    json.dumps(scores.as_dict(), allow_nan=False)


def test_with_no_relevant_item_at_all_the_means_are_unknown(retrieval):
    nothing = np.zeros_like(retrieval["query_labels"])
    scores = evaluate(**{**retrieval, "query_labels": nothing})
    assert np.isnan(scores.map)
    assert scores.n_empty == 25
    assert scores.as_dict()["map"] is None


def test_an_empty_top_is_counted_apart_from_an_empty_database():
    database = Codes.from_signs([[1, 1], [1, -1], [-1, -1]])
    labels = [[0, 1], [0, 1], [1, 0]]
    queries = Codes.from_signs([[1, 1], [1, 1]])
    scores = evaluate(queries, database, [[1, 0], [0, 0]], labels, reading="hashnet@2")
    assert (scores.n_empty, scores.n_empty_top) == (1, 2)
    assert np.isnan(scores.map)


def test_untagged_text_queries_are_left_out_and_counted(retrieval):
    untagged = np.zeros(25, dtype=bool)
    untagged[[0, 4]] = True
    scores = evaluate(**retrieval, untagged=untagged)
    rest = {
        **retrieval,
        "queries": retrieval["queries"][~untagged],
        "query_labels": retrieval["query_labels"][~untagged],
    }
    assert scores.map == evaluate(**rest).map
    assert (scores.n_queries, scores.n_untagged) == (25, 2)
    assert np.isnan(scores.average_precisions[[0, 4]]).all()


def test_distinct_codes_reveal_a_collapse():
    constant = Codes.from_signs(np.ones((10, 16), dtype=int))
    labels = np.eye(2, dtype=int)[np.arange(10) % 2]
    scores = evaluate(constant[:3], constant, labels[:3], labels)
    assert (scores.n_distinct_queries, scores.n_distinct_database) == (1, 1)
