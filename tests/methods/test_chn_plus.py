"""CHN-plus: pair weights, pairs within modalities, query refinement, and quality."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from corrhash.collection.collection import Collection
from corrhash.datasets import make_pairs
from corrhash.errors import InputError
from corrhash.losses import counterpart_loss
from corrhash.methods import Hasher
from corrhash.methods.chn_plus import (
    MAX_REFERENCE_CODES,
    CHNPlus,
    refine_queries,
    select_reference_codes,
)
from corrhash.methods.chn_plus import N_NEIGHBOURS as N_NEAREST
from corrhash.methods.onnx_export import export_onnx
from corrhash.metrics import evaluate
from corrhash.model import Model
from corrhash.networks.config import Networks
from corrhash.similarity import Similarity
from corrhash.training.batches import Batch
from corrhash.training.config import Training

QUICK = {
    "networks": Networks(width=64),
    "training": Training(epochs=3, learning_rate=3e-3, validate_every=1),
}


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(400, seed=2)


def random_batch(n_images=5, n_texts=4):
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.rand((n, 8), generator=generator) * 2 - 1 for n in (n_images, n_texts))
    similarity = torch.randint(0, 2, (n_images, n_texts), generator=generator) * 2 - 1
    same = n_images == n_texts
    return Batch(
        u, v, similarity, within_modality={"image": similarity, "text": similarity} if same else {}
    )


def by_hand(batch, scale, margin, quantization_weight):
    """The objective without pair weights, as loops over pairs and items."""
    u, v, s = (t.double().numpy() for t in (batch.image_codes, batch.text_codes, batch.similarity))
    total = 0.0
    for i in range(len(u)):
        for j in range(len(v)):
            cosine = u[i] @ v[j] / np.linalg.norm(u[i]) / np.linalg.norm(v[j])
            total += np.log1p(np.exp(-s[i, j] * scale * cosine)) / s.size
    for modality in (u, v):
        for row in modality:
            corner = np.abs(row).sum() / np.linalg.norm(row) / np.sqrt(len(row))
            total += quantization_weight * max(0, margin - corner) / len(modality)
    return total


def test_loss_equals_a_slow_loop():
    hasher = CHNPlus(
        8,
        cosine_scale=3.0,
        quantization_margin=0.95,
        quantization_weight=0.3,
        pair_weights=False,
    )
    batch = random_batch()
    loss, _ = hasher.batch_loss(batch)
    assert float(loss) == pytest.approx(by_hand(batch, 3.0, 0.95, 0.3), rel=1e-5)


def test_labels_add_losses_within_modalities():
    batch = random_batch(5, 5)
    u, v = batch.image_codes, batch.text_codes
    between, images, texts = (
        CHNPlus(8, within_modality_weight=0, quantization_weight=0).batch_loss(
            replace(batch, image_codes=a, text_codes=b)
        )[0]
        for a, b in ((u, v), (u, u), (v, v))
    )
    loss, _ = CHNPlus(8, within_modality_weight=0.3, quantization_weight=0).batch_loss(batch)
    assert float(loss) == pytest.approx(float(between + 0.3 * (images + texts)), rel=1e-6)


def test_judgments_define_no_similarity_within_modalities(pairs):
    judged = Similarity.from_judgments([(0, 1, 1), (2, 0, -1)], (len(pairs), len(pairs)))
    data = replace(pairs, labels=None, similarity=judged)
    assert CHNPlus(8).within_modality_similarity(data, judged) == {}


def test_pseudo_labels_add_no_loss_within_modalities(pairs):
    read_off = replace(pairs, pseudo_labels=True)
    codes = [
        CHNPlus(8, within_modality_weight=within, label_teacher=False, **QUICK)
        .fit(data)
        .encode_text(pairs.texts)
        .packed
        for within, data in ((0.0, pairs), (0.5, read_off), (0.5, pairs))
    ]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert (codes[0] != codes[2]).any()


def test_unusable_parameters_are_refused(pairs):
    with pytest.raises(InputError, match="quantization_margin must be .* got 1.5"):
        CHNPlus(8, quantization_margin=1.5, **QUICK).fit(pairs)
    with pytest.raises(InputError, match="refine_neighbours"):
        CHNPlus(8, refine_neighbours=-1, **QUICK).fit(pairs)


@pytest.fixture(scope="module")
def unseen():
    """Training pairs, and a function that returns both mAPs of a model on other pairs."""
    pairs = make_pairs(1200, seed=4)
    query, database = pairs.take(slice(600, 800)), pairs.take(slice(800, None))
    labels = query.labels, database.labels

    def maps(hasher, *, cosine=False):
        image = hasher.embed_image if cosine else hasher.encode_image
        text = hasher.embed_text if cosine else hasher.encode_text
        return np.array(
            [
                evaluate(image(query.images), text(database.texts), *labels).map,
                evaluate(text(query.texts), image(database.images), *labels).map,
            ]
        )

    return pairs.take(slice(0, 600)), maps, Similarity.from_labels(*labels).share_similar


LONGER = {
    "networks": Networks(width=128),
    "training": Training(epochs=12, learning_rate=3e-3, validate_every=12),
}


def test_bits_help_and_binarization_costs(unseen):
    train, maps, _ = unseen
    hasher = CHNPlus(64, **LONGER).fit(train)
    assert np.all(maps(hasher) > maps(CHNPlus(16, **LONGER).fit(train)))
    assert np.all(maps(hasher) < maps(hasher, cosine=True))


def test_shuffled_labels_give_chance_level(unseen):
    train, maps, chance = unseen
    order = np.random.default_rng(0).permutation(len(train))
    shuffled = CHNPlus(16, **LONGER).fit(replace(train, labels=train.labels[order]))
    assert np.all(maps(shuffled) < chance + 0.05)


N_NEIGHBOURS = 5


@pytest.fixture(scope="module")
def refining(pairs):
    return CHNPlus(16, refine_neighbours=N_NEIGHBOURS, **QUICK).fit(pairs)


def test_only_labels_refine_queries(pairs):
    hasher = CHNPlus(16, **QUICK).fit(replace(pairs, pseudo_labels=True))
    refined = hasher.query_codes(hasher.embed_text(pairs.texts))
    np.testing.assert_array_equal(refined.packed, hasher.encode_text(pairs.texts).packed)


def slow_refinement(code, reference, n_neighbours):
    """The refined code of one query, bit by bit."""
    cosines = [code @ v / np.linalg.norm(code) / np.linalg.norm(v) for v in reference]
    nearest = sorted(range(len(reference)), key=lambda i: -cosines[i])[:n_neighbours]
    weights = [max(cosines[i], 0.001) for i in nearest]
    bits = []
    for bit in range(len(code)):
        signs = [1 if reference[i][bit] > 0 else -1 for i in nearest]
        balance = sum(weight * sign for weight, sign in zip(weights, signs, strict=True))
        bits.append(np.sign(round(balance, 9)) or (1 if code[bit] > 0 else -1))
    return bits


@pytest.mark.parametrize("n_neighbours", [1, 4, 5, 900])
def test_bits_equal_a_slow_majority(n_neighbours):
    random = np.random.default_rng(0)
    continuous, reference = random.normal(size=(300, 12)), random.normal(size=(80, 12))
    expected = [slow_refinement(code, reference, n_neighbours) for code in continuous]
    np.testing.assert_array_equal(
        refine_queries(continuous, reference, n_neighbours).signs(), expected
    )


def test_ties_are_decided_by_the_query():
    reference = np.array([[1.0, 1.0], [1.0, -1.0]])
    for own in (0.01, -0.01):
        code = np.array([[1.0, own]])
        equally_near = np.concatenate([reference, reference * [1, -1]])
        assert refine_queries(code, equally_near, 4).signs()[0, 1] == np.sign(own)


def test_refined_codes_do_not_depend_on_the_batch(refining, pairs):
    continuous = refining.embed_text(pairs.texts)
    alone = np.concatenate([refining.query_codes(continuous[i : i + 1]).packed for i in range(50)])
    np.testing.assert_array_equal(refining.query_codes(continuous)[:50].packed, alone)


def test_reference_codes_are_subsampled_evenly():
    few = select_reference_codes(np.ones((3, 4)), np.zeros((2, 4)))
    np.testing.assert_array_equal(few[:, 0], [1, 1, 1, 0, 0])
    many = select_reference_codes(
        np.ones((MAX_REFERENCE_CODES, 2)), np.zeros((MAX_REFERENCE_CODES, 2))
    )
    assert len(many) == MAX_REFERENCE_CODES
    assert many[:, 0].mean() == 0.5


def test_queries_are_refined_and_database_codes_are_not(refining, pairs):
    continuous = refining.embed_image(pairs.images)
    plain = CHNPlus(16).query_codes(continuous)
    np.testing.assert_array_equal(refining.encode_image(pairs.images).packed, plain.packed)
    reference = select_reference_codes(continuous, refining.embed_text(pairs.texts))
    expected = [
        slow_refinement(code, reference, N_NEIGHBOURS) for code in continuous.astype(np.float64)
    ]
    refined = refining.query_codes(continuous)
    np.testing.assert_array_equal(refined.signs(), expected)
    assert (refined.packed != plain.packed).any()


@pytest.mark.parametrize("exported", [False, True])
def test_saved_model_refines_queries(refining, pairs, tmp_path, exported):
    refining.save(tmp_path)
    if exported:
        export_onnx(tmp_path, Hasher)
    loaded = Hasher.load(tmp_path)
    continuous = refining.embed_text(pairs.texts)
    expected = refining.query_codes(continuous)
    np.testing.assert_array_equal(loaded.query_codes(continuous).packed, expected.packed)


def test_collection_is_searched_with_refined_codes(refining, pairs):
    collection = Collection.create("memory:", Model(refining))
    collection.add_pairs(pairs)
    (found,) = collection.search(pairs.texts[:1], k=50, rerank=False)
    code = refining.query_codes(refining.embed_text(pairs.texts[:1]))
    (expected,) = collection.search(codes=code, k=50)
    assert [match.distance for match in found] == [match.distance for match in expected]


def test_pairs_alone_are_trained_by_the_contrastive_loss(pairs):
    batch = replace(random_batch(4, 4), similarity=torch.eye(4) * 2 - 1, within_modality={})
    paired = replace(pairs.without_labels(), similarity=Similarity.paired(len(pairs)))
    hasher = CHNPlus(8, temperature=0.2, **QUICK).fit(paired)
    loss, _ = hasher.batch_loss(batch)
    expected = counterpart_loss(batch.image_codes, batch.text_codes, batch.similarity, 0.2)
    assert loss == expected
    triples = [(i, i + step, 1 - 2 * step) for i in range(100) for step in (0, 1)]
    judged = Similarity.from_judgments(triples, (400, 400))
    relearned = hasher.fit(replace(pairs.without_labels(), similarity=judged))
    assert relearned.batch_loss(batch)[0] != expected


def nearest(features, row, n):
    """The n nearest other rows by the cosine of centred features."""
    centred = features - features.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1)
    cosines = centred @ centred[row] / (lengths * lengths[row])
    cosines[row] = -np.inf
    return set(np.argsort(-cosines)[:n].tolist())


@pytest.fixture(scope="module")
def paired():
    """Pairs of distinct image and text vectors, without labels."""
    rng = np.random.default_rng(5)
    pairs = make_pairs(60, seed=2).without_labels()
    vectors = {"images": rng.normal(size=(60, 8)), "texts": rng.normal(size=(60, 6))}
    return replace(pairs, **vectors, similarity=Similarity.paired(60))


def test_nearest_neighbours_count_as_similar_without_labels(paired):
    hasher = CHNPlus(8, neighbour_weight=0.5, **QUICK).fit(paired)
    similarity = hasher.within_modality_similarity(paired, paired.similarity)
    rows = np.arange(60)
    for modality, features in (("image", paired.images), ("text", paired.texts)):
        near = [nearest(features, row, N_NEAREST) for row in rows]
        expected = [[1 if j in near[i] or i in near[j] else -1 for j in rows] for i in rows]
        np.testing.assert_array_equal(similarity[modality].block(rows, rows), expected)


def test_loss_of_neighbours_is_that_of_counterparts_within_a_modality(paired):
    hasher = CHNPlus(8, temperature=0.2, neighbour_weight=0.5, **QUICK).fit(paired)
    near = torch.tensor([[-1.0, 1, -1], [1, -1, -1], [-1, -1, -1]])  # 0 and 1 are neighbours
    batch = replace(
        random_batch(3, 3), similarity=torch.eye(3) * 2 - 1, within_modality={"text": near}
    )
    u, v = batch.image_codes, batch.text_codes
    across = counterpart_loss(u, v, batch.similarity, 0.2)
    others = torch.tensor([[0.0, 1, -1], [1, 0, -1], [-1, -1, 0]])
    within = counterpart_loss(v, v, others, 0.2)
    assert within > 0
    torch.testing.assert_close(hasher.batch_loss(batch)[0], across + 0.5 * within)


def test_neighbours_need_vectors_and_more_items_than_neighbours(paired):
    few = paired.take(slice(0, N_NEAREST))
    few = replace(few, similarity=Similarity.paired(N_NEAREST))
    hasher = CHNPlus(8, **QUICK).fit(few)
    assert hasher.within_modality_similarity(few, few.similarity) == {}
    raw = replace(paired, images=np.zeros((60, 8, 8, 3), np.uint8))
    assert list(hasher.within_modality_similarity(raw, raw.similarity)) == ["text"]
    without = CHNPlus(8, neighbour_weight=0.0, **QUICK).fit(paired)
    assert without.within_modality_similarity(paired, paired.similarity) == {}


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperature_must_be_positive(pairs, temperature):
    with pytest.raises(InputError, match="temperature must be"):
        CHNPlus(8, temperature=temperature, **QUICK).fit(pairs)
