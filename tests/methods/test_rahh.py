"""RaHH: the gradients of J, training codes, out-of-sample codes and quality."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from corrhash import Codes, InputError
from corrhash._progress import listening
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.methods import Hasher
from corrhash.methods._linear_algebra import neighbour_laplacian
from corrhash.methods.cvh import CVH
from corrhash.methods.rahh import Objective, RaHH, State, signs
from corrhash.metrics import evaluate
from corrhash.similarity import Similarity

N, B = 12, 3


def small_objective(pair_weights=True):
    rng = np.random.default_rng(0)
    graphs = [neighbour_laplacian(rng.standard_normal((N, 4)), 3) for _ in range(2)]
    return Objective(
        *graphs,
        Similarity.from_labels(rng.random((N, 4)) < 0.3),
        homogeneous_weight=0.7,
        heterogeneous_weight=1.3,
        map_weight=0.4,
        map_target=np.eye(B),
        balance_weight=0.9,
        decorrelation_weight=0.6,
        pair_weights=pair_weights,
    )


def small_state():
    rng = np.random.default_rng(1)
    images, texts = rng.uniform(-1, 1, (2, N, B))
    return State(images, texts, np.eye(B) + 0.3 * rng.standard_normal((B, B)))


def j(objective, state):
    """J of the module docstring, as loops over pairs and bits."""
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
                total += objective.heterogeneous_weight * rho * np.log(1 + np.exp(inside)) / N**2
    modalities = (state.images, objective.image_graph), (state.texts, objective.text_graph)
    for codes, graph in modalities:
        total += objective.homogeneous_weight / (2 * N) * np.trace(codes.T @ (graph @ codes))
        total += objective.balance_weight / 2 * np.sum(codes.mean(axis=0) ** 2)
        overlaps = codes.T @ codes / N
        off = overlaps - np.diag(np.diag(overlaps))
        total += objective.decorrelation_weight / 4 * np.sum(off**2)
    return total + objective.map_weight / 2 * np.sum((state.map - objective.map_target) ** 2)


def finite_differences(objective, state, part, step=1e-5):
    values = getattr(state, part)
    gradients = np.empty_like(values)
    for place in np.ndindex(values.shape):
        change = np.zeros_like(values)
        change[place] = step
        above, below = (
            j(objective, replace(state, **{part: values + sign * change})) for sign in (1, -1)
        )
        gradients[place] = (above - below) / (2 * step)
    return gradients


@pytest.mark.parametrize("pair_weights", [True, False])
def test_gradients_equal_finite_differences(pair_weights):
    objective, state, everyone = small_objective(pair_weights), small_state(), np.arange(N)[::-1]
    images, map_ = objective.image_and_map_gradients(state, everyone)
    texts = objective.text_gradient(state, everyone)
    for part, gradient in (("images", images / N), ("texts", texts / N), ("map", map_)):
        expected = finite_differences(objective, state, part)
        np.testing.assert_allclose(gradient, expected, atol=1e-6, err_msg=part)


def test_gradients_over_anchors_average_to_the_whole():
    objective, state = small_objective(), small_state()
    whole = objective.text_gradient(state, np.arange(N))
    parts = [
        objective.text_gradient(state, np.arange(start, start + 3)) for start in range(0, N, 3)
    ]
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, atol=1e-6)


def test_map_is_drawn_to_its_target():
    pairs = make_pairs(60)
    strong = {"map_weight": 8.0, "heterogeneous_weight": 0.0, "n_rounds": 40}
    identity = RaHH(4, **strong).fit(pairs)
    zero = RaHH(4, map_target="zero", **strong).fit(pairs)
    np.testing.assert_allclose(identity.map_, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(zero.map_, np.zeros((4, 4)), atol=1e-6)


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(1600, seed=4)


@pytest.fixture(scope="module")
def trained(pairs):
    """One hasher per out-of-sample rule, with the same training codes."""
    part = pairs.take(slice(0, 1000))
    return {rule: RaHH(16, out_of_sample=rule).fit(part) for rule in ("ridge", "neighbours")}


def maps_and_chance(hasher, pairs):
    """mAP of both directions on other pairs, and chance level."""
    query, database = pairs.take(slice(1000, 1200)), pairs.take(slice(1200, None))
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    directions = [
        (hasher.encode_image(query.images), hasher.encode_text(database.texts)),
        (hasher.encode_text(query.texts), hasher.encode_image(database.images)),
    ]
    maps = [evaluate(*codes, query.labels, database.labels).map for codes in directions]
    return np.array(maps), chance


def test_training_codes_follow_the_labels(pairs, trained):
    hasher, labels = trained["ridge"], pairs.labels[:1000]
    images = Codes.from_continuous(hasher.image_codes_ @ hasher.map_)
    texts = Codes.from_continuous(hasher.text_codes_)
    chance = Similarity.from_labels(labels).share_similar
    assert evaluate(images, texts, labels, labels).map > chance + 0.2
    assert evaluate(texts, images, labels, labels).map > chance + 0.2


@pytest.mark.parametrize("rule", ["ridge", "neighbours"])
def test_map_on_new_items_is_above_chance_and_cvh(pairs, trained, rule):
    maps, chance = maps_and_chance(trained[rule], pairs)
    assert np.all(maps > chance + 0.03)
    unsupervised, _ = maps_and_chance(CVH(16).fit(pairs.take(slice(0, 1000))), pairs)
    assert np.all(maps > unsupervised + 0.01)


def test_longer_codes_are_above_chance(pairs):
    maps, chance = maps_and_chance(RaHH(32).fit(pairs.take(slice(0, 1000))), pairs)
    assert np.all(maps > chance + 0.03)


@pytest.mark.parametrize("rule", ["ridge", "neighbours"])
def test_shuffled_labels_give_the_level_of_cvh(pairs, rule):
    """The initial codes and the graphs do not depend on labels."""
    part = pairs.take(slice(0, 1000))
    shuffled = replace(part, labels=part.labels[np.random.default_rng(0).permutation(1000)])
    maps, _ = maps_and_chance(RaHH(16, out_of_sample=rule).fit(shuffled), pairs)
    unsupervised, _ = maps_and_chance(CVH(16, ridge=1.0).fit(part), pairs)
    assert np.all(maps <= unsupervised + 0.01)


def test_ridge_codes_equal_scikit_learn(pairs, trained):
    hasher = trained["ridge"]
    images, texts = pairs.images.astype(np.float64), pairs.texts.toarray().astype(np.float64)
    expected = {}
    for modality, table in (("image", images), ("text", texts)):
        part = table[:1000]
        alpha = np.sum((part - part.mean(axis=0)) ** 2) / part.shape[1]
        other = Ridge(alpha=alpha).fit(part, getattr(hasher, f"{modality}_codes_").astype(float))
        expected[modality] = other.predict(table)
    np.testing.assert_allclose(hasher.embed_text(texts), expected["text"], atol=1e-8)
    mapped = np.where(expected["image"] > 0, 1, -1) @ hasher.map_
    np.testing.assert_allclose(hasher.embed_image(images), mapped, atol=1e-8)


def test_neighbour_codes_equal_a_slow_sum(pairs, trained):
    hasher = trained["neighbours"]
    images = pairs.images.astype(np.float64) - pairs.images[:1000].astype(np.float64).mean(axis=0)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    for i in (1005, 1333):
        cosines = images[:1000] @ images[i]
        sums = np.zeros(16)
        for k in np.argsort(-cosines)[:30]:
            sums += max(cosines[k], 0.001) * hasher.image_codes_[k]
        expected = np.where(sums > 0, 1, -1) @ hasher.map_
        np.testing.assert_allclose(hasher.embed_image(pairs.images[[i]])[0], expected)


def test_neighbour_codes_do_not_depend_on_the_batch(pairs, trained, tmp_path):
    """Tags tie often, so that the last neighbour is ambiguous."""
    hasher = trained["neighbours"]
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


def test_seed_changes_the_anchors(pairs):
    part = pairs.take(slice(0, 400))
    first, second = (RaHH(8, n_rounds=5, n_anchors=50, seed=s).fit(part) for s in (0, 1))
    assert np.any(first.map_ != second.map_)


def test_progress_is_reported_per_round():
    steps = []
    with listening(steps.append):
        RaHH(4, n_rounds=3).fit(make_pairs(60))
    assert [(step.done, step.total) for step in steps] == [(1, 3), (2, 3), (3, 3)]


def test_pairs_of_one_kind_give_finite_codes():
    pairs = make_pairs(60)
    for labels in (np.ones((60, 1)), np.eye(60)):
        hasher = RaHH(4, n_rounds=3).fit(replace(pairs, labels=labels))
        assert np.isfinite(hasher.map_).all()


def test_sign_of_zero_is_minus_one():
    np.testing.assert_array_equal(signs(np.array([-0.1, 0.0, 0.1])), [-1, -1, 1])


def test_invalid_settings_are_refused():
    pairs = make_pairs(50)
    narrow = PairedDataset(pairs.images[:, :3], pairs.texts, pairs.labels)
    with pytest.raises(InputError, match="RaHH starts from CVH. CVH finds at most 3 bits"):
        RaHH(4).fit(narrow)
    with pytest.raises(
        InputError, match="out_of_sample must be 'neighbours' or 'ridge', got 'poll'"
    ):
        RaHH(4, out_of_sample="poll").fit(pairs)
    with pytest.raises(InputError, match="map_target must be 'identity' or 'zero', got 'one'"):
        RaHH(4, map_target="one").fit(pairs)
    with pytest.raises(InputError, match="balance_weight must be a number >= 0, got -1"):
        RaHH(4, balance_weight=-1).fit(pairs)
    with pytest.raises(InputError, match="n_anchors must be an integer >= 1, got 0"):
        RaHH(4, n_anchors=0).fit(pairs)
    with pytest.raises(InputError, match="seed must be an integer >= 0, got None"):
        RaHH(4, seed=None).fit(pairs)
