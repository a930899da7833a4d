"""Evaluation of hashers: both directions, validation mAP and unseen labels."""

from dataclasses import replace

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset, make_pairs
from corrhash.experiments.evaluation import (
    ALL_QUERIES,
    DIRECTIONS,
    MAP_VARIANTS,
    encode_for_ranking,
    encode_pairs,
    evaluate_directions,
    evaluate_hasher,
    held_out_labels,
    hold_out_labels,
    map_variants,
    random_codes,
    validation_map,
)
from corrhash.methods.cvh import CVH
from corrhash.metrics import evaluate


@pytest.fixture(scope="module")
def split():
    return load_dataset("synthetic", n=780)


def test_each_direction_uses_its_own_query_modality(split):
    """A buffer shared by both modalities once made all four numbers of a public evaluator equal."""
    hasher = CVH(16).fit(split.train)
    query, database = (encode_pairs(hasher, p) for p in (split.query, split.database))
    scores = evaluate_directions(split.query, split.database, query, database)
    labels = split.query.labels, split.database.labels
    assert scores["image->text"].map == evaluate(query["image"], database["text"], *labels).map
    assert scores["text->image"].map == evaluate(query["text"], database["image"], *labels).map
    assert scores["image->text"].map != scores["text->image"].map


def test_map_variants_bound_each_other_and_count_empty_texts(split):
    texts = split.query.texts.tolil()
    texts[:20] = 0
    query = replace(split.query, texts=texts.tocsr())
    codes = [random_codes(pairs, 8) for pairs in (query, split.database)]
    maps = map_variants(query, split.database, *codes)
    for direction in DIRECTIONS:
        of = maps[direction]
        assert set(MAP_VARIANTS) <= set(of)
        assert of["pessimistic ties"] < of["ties by row"] < of["optimistic ties"]
    labels = query.labels, split.database.labels
    every = evaluate(codes[0]["text"], codes[1]["image"], *labels).map
    assert maps["text->image"][ALL_QUERIES] == every
    assert ALL_QUERIES not in maps["image->text"]


def test_ranking_defaults_to_that_of_the_method(split):
    class RankedByCosine(CVH):
        ranked_by = "cosine"

    hasher = RankedByCosine(16).fit(split.train)
    query, _ = encode_for_ranking(hasher, split.query, split.database)
    np.testing.assert_array_equal(query["text"], hasher.embed_text(split.query.texts))
    _, codes = encode_for_ranking(hasher, split.query, split.database, ranked_by="hamming")
    expected = hasher.encode_image(split.database.images)
    np.testing.assert_array_equal(codes["image"].packed, expected.packed)


def test_query_codes_can_differ_from_database_codes(split):
    class Negated(CVH):
        def query_codes(self, continuous):
            return super().query_codes(-continuous)

    hasher = Negated(16).fit(split.train)
    query, database = encode_for_ranking(hasher, split.query, split.query)
    np.testing.assert_array_equal(query["text"].signs(), -database["text"].signs())


def test_random_codes_reach_the_share_of_similar_pairs(split):
    codes = [random_codes(p, 32) for p in (split.query, split.database)]
    scores = evaluate_directions(split.query, split.database, *codes)
    assert scores["image->text"].map == pytest.approx(0.33, abs=0.03)


def test_without_labels_paired_samples_are_relevant(split):
    bare = replace(split, pairs=split.pairs.without_labels())
    hasher = CVH(16).fit(bare.train)
    query, _ = encode_for_ranking(hasher, bare.query, bare.database)
    scores = evaluate_hasher(hasher, bare)["image->text"]
    assert scores.n_database == len(bare.query)
    assert scores.recall_at == evaluate(query["image"], query["text"]).recall_at
    assert scores.recall_at[10] > 10 / len(bare.query)


def test_validation_map_is_the_mean_of_both_directions():
    pairs = make_pairs(500, seed=3)
    train, validation = pairs.take(slice(0, 400)), pairs.take(slice(400, None))
    hasher = CVH(16).fit(train)
    images, texts = hasher.encode_image(validation.images), hasher.encode_text(validation.texts)
    labels = validation.labels
    maps = [evaluate(a, b, labels, labels).map for a, b in ((images, texts), (texts, images))]
    assert validation_map(hasher, validation) == np.mean(maps)


@pytest.fixture(scope="module")
def unseen_split():
    return load_dataset("synthetic", n=900)


def test_held_out_labels_are_a_quarter_and_vary_with_seed(unseen_split):
    chosen = [held_out_labels(unseen_split, seed) for seed in range(6)]
    assert all(held.sum() == 3 for held in chosen)  # of 12
    assert len({held.tobytes() for held in chosen}) > 1
    np.testing.assert_array_equal(chosen[0], held_out_labels(unseen_split, 0))


def test_training_items_have_no_held_out_label(unseen_split):
    seen, unseen = hold_out_labels(unseen_split, 0)
    held = held_out_labels(unseen_split, 0)
    all_labels = unseen_split.pairs.labels.toarray().astype(bool)
    for rows in (seen.train_rows, seen.validation_rows):
        assert not all_labels[np.ix_(rows, held)].any()
    kept = [row for row in unseen_split.train_rows if not all_labels[row, held].any()]
    assert seen.train_rows.tolist() == kept
    np.testing.assert_array_equal(seen.train.labels.toarray(), all_labels[kept][:, ~held])
    assert seen.train.label_names == [
        name for name, h in zip(unseen_split.pairs.label_names, held, strict=True) if not h
    ]
    assert unseen.train_in_database.sum() == len(kept)


def test_queries_have_a_held_out_label(unseen_split):
    _, unseen = hold_out_labels(unseen_split, 0)
    held = held_out_labels(unseen_split, 0)
    all_labels = unseen_split.pairs.labels.toarray().astype(bool)
    wanted = [row for row in unseen_split.query_rows if all_labels[row, held].any()]
    assert unseen.query_rows.tolist() == wanted
    np.testing.assert_array_equal(unseen.database_rows, unseen_split.database_rows)
    np.testing.assert_array_equal(unseen.query.labels.toarray(), all_labels[wanted][:, held])


def test_too_few_items_without_held_out_labels(unseen_split):
    same = replace(unseen_split.pairs, labels=np.ones((900, 4)), label_names=())
    with pytest.raises(InputError, match="Every train item of synthetic has a held-out label"):
        hold_out_labels(replace(unseen_split, pairs=same), 0)
    with pytest.raises(InputError, match="has no labels to hold out"):
        hold_out_labels(replace(unseen_split, pairs=unseen_split.pairs.without_labels()), 0)
