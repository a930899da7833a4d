"""Query refinement: compared with a slow loop, and applied by models and collections."""

import numpy as np
import pytest

from corrhash.collection.collection import Collection
from corrhash.datasets import make_pairs
from corrhash.errors import InputError
from corrhash.methods import Hasher
from corrhash.methods.chn_plus import CHNPlus
from corrhash.methods.onnx_export import export_onnx
from corrhash.methods.query_refinement import (
    MAX_REFERENCE_CODES,
    refine_queries,
    select_reference_codes,
)
from corrhash.model import Model
from corrhash.networks.config import Networks
from corrhash.training.config import Training

N_NEIGHBOURS = 5


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(200)


@pytest.fixture(scope="module")
def trained(pairs):
    quick = {"networks": Networks(width=32), "training": Training(epochs=2)}
    return CHNPlus(16, refine_neighbours=N_NEIGHBOURS, **quick).fit(pairs)


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


def test_refined_codes_do_not_depend_on_the_batch(trained, pairs):
    continuous = trained.embed_text(pairs.texts)
    alone = np.concatenate([trained.query_codes(continuous[i : i + 1]).packed for i in range(50)])
    np.testing.assert_array_equal(trained.query_codes(continuous)[:50].packed, alone)


def test_reference_codes_are_subsampled_evenly():
    few = select_reference_codes(np.ones((3, 4)), np.zeros((2, 4)))
    np.testing.assert_array_equal(few[:, 0], [1, 1, 1, 0, 0])
    many = select_reference_codes(
        np.ones((MAX_REFERENCE_CODES, 2)), np.zeros((MAX_REFERENCE_CODES, 2))
    )
    assert len(many) == MAX_REFERENCE_CODES
    assert many[:, 0].mean() == 0.5


def test_queries_are_refined_and_database_codes_are_not(trained, pairs):
    continuous = trained.embed_image(pairs.images)
    plain = CHNPlus(16).query_codes(continuous)
    np.testing.assert_array_equal(trained.encode_image(pairs.images).packed, plain.packed)
    reference = select_reference_codes(continuous, trained.embed_text(pairs.texts))
    expected = [
        slow_refinement(code, reference, N_NEIGHBOURS) for code in continuous.astype(np.float64)
    ]
    refined = trained.query_codes(continuous)
    np.testing.assert_array_equal(refined.signs(), expected)
    assert (refined.packed != plain.packed).any()


@pytest.mark.parametrize("exported", [False, True])
def test_saved_model_refines_queries(trained, pairs, tmp_path, exported):
    trained.save(tmp_path)
    if exported:
        export_onnx(tmp_path, Hasher)
    loaded = Hasher.load(tmp_path)
    continuous = trained.embed_text(pairs.texts)
    expected = trained.query_codes(continuous)
    np.testing.assert_array_equal(loaded.query_codes(continuous).packed, expected.packed)


def test_collection_is_searched_with_refined_codes(trained, pairs):
    collection = Collection.create("memory:", Model(trained))
    collection.add_pairs(pairs)
    (found,) = collection.search(pairs.texts[:1], k=50, rerank=False)
    code = trained.query_codes(trained.embed_text(pairs.texts[:1]))
    (expected,) = collection.search(codes=code, k=50)
    assert [match.distance for match in found] == [match.distance for match in expected]


def test_negative_refine_neighbours_is_refused(pairs):
    with pytest.raises(InputError, match="refine_neighbours must be an integer >= 0, got -1"):
        CHNPlus(16, refine_neighbours=-1).fit(pairs)
