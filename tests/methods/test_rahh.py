"""RaHH: its slopes are those of J, its codes follow labels, new items get theirs from features."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from corrhash import Codes, InputError
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods import Hasher
from corrhash.methods.cvh import CVH
from corrhash.methods.neighbours import neighbour_laplacian
from corrhash.methods.rahh import Objective, RaHH, State, signs
from corrhash.metrics import evaluate
from corrhash.progress import listening
from corrhash.relevance import Similarity

N, B = 12, 3


def small_objective(pair_weights=True):
    rng = np.random.default_rng(0)
    graphs = [neighbour_laplacian(rng.standard_normal((N, 4)), 3) for _ in range(2)]
    return Objective(
        *graphs,
        Similarity.from_labels(rng.random((N, 4)) < 0.3),
        homogeneous=0.7,
        heterogeneous=1.3,
        map_weight=0.4,
        map_target=np.eye(B),
        balance=0.9,
        decorrelation=0.6,
        pair_weights=pair_weights,
    )


def small_state():
    rng = np.random.default_rng(1)
    images, texts = rng.uniform(-1, 1, (2, N, B))
    return State(images, texts, np.eye(B) + 0.3 * rng.standard_normal((B, B)))


def j(objective, state):
    """J of the module's first lines, as loops over pairs and bits."""
    similarity = objective.similarity.block()
    p = np.mean(similarity > 0)
    total = 0.0
    for i in range(N):
        for k in range(N):
            rho = (0.5 / p if similarity[i, k] > 0 else 0.5 / (1 - p)) * objective.pair_weights
            rho = rho or 1.0
            for bit in range(B):
                z = state.images[i] @ state.map[:, bit]
                inside = -similarity[i, k] * z * state.texts[k, bit]
                total += objective.heterogeneous * rho * np.log(1 + np.exp(inside)) / N**2
    sides = (state.images, objective.image_graph), (state.texts, objective.text_graph)
    for codes, graph in sides:
        total += objective.homogeneous / (2 * N) * np.trace(codes.T @ (graph @ codes))
        total += objective.balance / 2 * np.sum(codes.mean(axis=0) ** 2)
        overlaps = codes.T @ codes / N
        off = overlaps - np.diag(np.diag(overlaps))
        total += objective.decorrelation / 4 * np.sum(off**2)
    return total + objective.map_weight / 2 * np.sum((state.map - objective.map_target) ** 2)


def finite_differences(objective, state, part, step=1e-5):
    values = getattr(state, part)
    slopes = np.empty_like(values)
    for place in np.ndindex(values.shape):
        change = np.zeros_like(values)
        change[place] = step
        above, below = (
            j(objective, replace(state, **{part: values + sign * change})) for sign in (1, -1)
        )
        slopes[place] = (above - below) / (2 * step)
    return slopes


@pytest.mark.parametrize("pair_weights", [True, False])
def test_with_all_items_as_anchors_the_slopes_are_those_of_j(pair_weights):
    objective, state, everyone = small_objective(pair_weights), small_state(), np.arange(N)[::-1]
    images, map_ = objective.image_and_map_slopes(state, everyone)
    texts = objective.text_slope(state, everyone)
    for part, slope in (("images", images / N), ("texts", texts / N), ("map", map_)):
        expected = finite_differences(objective, state, part)
        np.testing.assert_allclose(slope, expected, atol=1e-6, err_msg=part)


def test_slopes_over_few_anchors_average_to_those_over_all():
    objective, state = small_objective(), small_state()
    whole = objective.text_slope(state, np.arange(N))
    parts = [objective.text_slope(state, np.arange(start, start + 3)) for start in range(0, N, 3)]
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, atol=1e-6)


def test_the_published_map_is_pulled_to_zero_and_ours_to_the_identity():
    pairs = make_pairs(60)
    strong = {"map_weight": 8.0, "heterogeneous": 0.0, "n_rounds": 40}
    identity = RaHH(4, **strong).fit(pairs)
    zero = RaHH(4, map_target="zero", **strong).fit(pairs)
    np.testing.assert_allclose(identity.map_, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(zero.map_, np.zeros((4, 4)), atol=1e-6)


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(1600, seed=4)


@pytest.fixture(scope="module")
def trained(pairs):
    """One hasher with each rule for new items; the codes of their training items are the same."""
    part = pairs.take(slice(0, 1000))
    return {rule: RaHH(16, new_items=rule).fit(part) for rule in ("ridge", "vote")}


def maps_and_chance(hasher, pairs):
    """MAP of both directions on pairs that were not trained on, and that of random codes."""
    query, database = pairs.take(slice(1000, 1200)), pairs.take(slice(1200, None))
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    directions = [
        (hasher.encode_image(query.images), hasher.encode_text(database.texts)),
        (hasher.encode_text(query.texts), hasher.encode_image(database.images)),
    ]
    maps = [evaluate(*codes, query.labels, database.labels).map for codes in directions]
    return np.array(maps), chance


def test_codes_of_training_items_follow_their_labels(pairs, trained):
    hasher, labels = trained["ridge"], pairs.labels[:1000]
    images = Codes.from_scores(hasher.image_codes_ @ hasher.map_)
    texts = Codes.from_scores(hasher.text_codes_)
    chance = Similarity.from_labels(labels).share_similar
    assert evaluate(images, texts, labels, labels).map > chance + 0.2
    assert evaluate(texts, images, labels, labels).map > chance + 0.2


@pytest.mark.parametrize("rule", ["ridge", "vote"])
def test_new_items_are_found_well_above_chance_and_above_cvh(pairs, trained, rule):
    maps, chance = maps_and_chance(trained[rule], pairs)
    assert np.all(maps > chance + 0.03)
    unsupervised, _ = maps_and_chance(CVH(16).fit(pairs.take(slice(0, 1000))), pairs)
    assert np.all(maps > unsupervised + 0.01)


def test_longer_codes_are_above_chance_too(pairs):
    maps, chance = maps_and_chance(RaHH(32).fit(pairs.take(slice(0, 1000))), pairs)
    assert np.all(maps > chance + 0.03)


@pytest.mark.parametrize("rule", ["ridge", "vote"])
def test_labels_that_belong_to_other_items_leave_it_no_better_than_cvh(pairs, rule):
    """Its start and its graphs know no labels, so CVH (at its ridge) is what remains."""
    part = pairs.take(slice(0, 1000))
    shuffled = replace(part, labels=part.labels[np.random.default_rng(0).permutation(1000)])
    maps, _ = maps_and_chance(RaHH(16, new_items=rule).fit(shuffled), pairs)
    unsupervised, _ = maps_and_chance(CVH(16, eps=1.0).fit(part), pairs)
    assert np.all(maps <= unsupervised + 0.01)


def test_new_codes_by_ridge_are_those_of_another_library(pairs, trained):
    hasher = trained["ridge"]
    images, texts = pairs.images.astype(np.float64), pairs.texts.toarray().astype(np.float64)
    expected = {}
    for side, table in (("image", images), ("text", texts)):
        part = table[:1000]
        alpha = np.sum((part - part.mean(axis=0)) ** 2) / part.shape[1]
        other = Ridge(alpha=alpha).fit(part, getattr(hasher, f"{side}_codes_").astype(float))
        expected[side] = other.predict(table)
    np.testing.assert_allclose(hasher.score_text(texts), expected["text"], atol=1e-8)
    mapped = np.where(expected["image"] > 0, 1, -1) @ hasher.map_
    np.testing.assert_allclose(hasher.score_image(images), mapped, atol=1e-8)


def test_new_codes_by_vote_are_the_weighted_sum_of_the_nearest(pairs, trained):
    hasher = trained["vote"]
    images = pairs.images.astype(np.float64) - pairs.images[:1000].astype(np.float64).mean(axis=0)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    for i in (1005, 1333):
        cosines = images[:1000] @ images[i]
        votes = np.zeros(16)
        for k in np.argsort(-cosines)[:30]:
            votes += max(cosines[k], 0.001) * hasher.image_codes_[k]
        expected = np.where(votes > 0, 1, -1) @ hasher.map_
        np.testing.assert_allclose(hasher.score_image(pairs.images[[i]])[0], expected)


def test_a_vote_does_not_depend_on_the_batch_or_on_how_tags_are_stored(pairs, trained, tmp_path):
    """Tags tie often, so that the last voter could be anyone."""
    hasher = trained["vote"]
    codes = hasher.encode_text(pairs.texts)
    dense = hasher.encode_text(pairs.texts.toarray())
    np.testing.assert_array_equal(dense.packed, codes.packed)
    np.testing.assert_array_equal(hasher.encode_text(pairs.texts[::7]).packed, codes.packed[::7])
    hasher.save(tmp_path / "model")
    again = Hasher.load(tmp_path / "model")
    np.testing.assert_array_equal(again.encode_text(pairs.texts).packed, codes.packed)
    np.testing.assert_array_equal(
        again.encode_image(pairs.images).packed, hasher.encode_image(pairs.images).packed
    )


def test_another_seed_draws_other_anchors(pairs):
    part = pairs.take(slice(0, 400))
    first, second = (RaHH(8, n_rounds=5, n_anchors=50, seed=s).fit(part) for s in (0, 1))
    assert np.any(first.map_ != second.map_)


def test_progress_is_told_round_by_round():
    steps = []
    with listening(steps.append):
        RaHH(4, n_rounds=3).fit(make_pairs(60))
    assert [(step.done, step.total) for step in steps] == [(1, 3), (2, 3), (3, 3)]


def test_pairs_that_are_all_similar_or_all_dissimilar_are_learned_without_fuss():
    pairs = make_pairs(60)
    for labels in (np.ones((60, 1)), np.eye(60)):
        hasher = RaHH(4, n_rounds=3).fit(replace(pairs, labels=labels))
        assert np.isfinite(hasher.map_).all()


def test_the_sign_of_zero_is_minus_one():
    np.testing.assert_array_equal(signs(np.array([-0.1, 0.0, 0.1])), [-1, -1, 1])


def test_settings_that_cannot_be_are_refused():
    pairs = make_pairs(50)
    narrow = PairedDataset(pairs.images[:, :3], pairs.texts, pairs.labels)
    with pytest.raises(InputError, match="RaHH starts from CVH. CVH finds at most 3 bits"):
        RaHH(4).fit(narrow)
    with pytest.raises(InputError, match="There is no new_items 'poll'. Choose vote or ridge"):
        RaHH(4, new_items="poll").fit(pairs)
    with pytest.raises(InputError, match="There is no map_target 'one'"):
        RaHH(4, map_target="one").fit(pairs)
    with pytest.raises(InputError, match="balance must be 0 or a number above. Got -1"):
        RaHH(4, balance=-1).fit(pairs)
    with pytest.raises(InputError, match="n_anchors must be a whole number from 1 on. Got 0"):
        RaHH(4, n_anchors=0).fit(pairs)
    with pytest.raises(InputError, match="seed must be a whole number from 0 on. Got None"):
        RaHH(4, seed=None).fit(pairs)
