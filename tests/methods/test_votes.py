"""Votes on the codes of queries: as counted by hand, and by every model that is told to."""

import numpy as np
import pytest

from corrhash.collection import Collection
from corrhash.datasets import Reader, make_pairs
from corrhash.errors import InputError
from corrhash.methods import METHODS, Hasher
from corrhash.methods.chn import CHN
from corrhash.methods.onnx_export import export_onnx
from corrhash.methods.training import Training
from corrhash.methods.two_networks import Networks
from corrhash.methods.votes import MOST_VOTERS, choose_voters, voted_codes

N_VOTES = 5


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(200)


@pytest.fixture(scope="module")
def trained(pairs):
    quick = {"networks": Networks(width=32), "training": Training(epochs=2)}
    return CHN(16, votes=N_VOTES, **quick).fit(pairs)


def slow_votes(score, voters, n_votes):
    """One query: rank the voters, weigh their bits one by one."""
    cosines = [score @ v / np.linalg.norm(score) / np.linalg.norm(v) for v in voters]
    nearest = sorted(range(len(voters)), key=lambda i: -cosines[i])[:n_votes]
    weights = [max(cosines[i], 0.001) for i in nearest]
    bits = []
    for bit in range(len(score)):
        says = [1 if voters[i][bit] > 0 else -1 for i in nearest]
        balance = sum(weight * say for weight, say in zip(weights, says, strict=True))
        bits.append(np.sign(round(balance, 9)) or (1 if score[bit] > 0 else -1))
    return bits


@pytest.mark.parametrize("n_votes", [1, 4, 5, 900])
def test_every_bit_is_that_of_most_of_the_nearest_voters(n_votes):
    random = np.random.default_rng(0)
    scores, voters = random.normal(size=(300, 12)), random.normal(size=(80, 12))
    expected = [slow_votes(score, voters, n_votes) for score in scores]
    np.testing.assert_array_equal(voted_codes(scores, voters, n_votes).signs(), expected)


def test_of_two_minds_the_query_decides():
    voters = np.array([[1.0, 1.0], [1.0, -1.0]])
    for own in (0.01, -0.01):
        score = np.array([[1.0, own]])
        equally_near = np.concatenate([voters, voters * [1, -1]])
        assert voted_codes(score, equally_near, 4).signs()[0, 1] == np.sign(own)


def test_a_query_gets_the_same_code_alone_and_among_others(trained, pairs):
    scores = trained.score_text(pairs.texts)
    alone = np.concatenate([trained.query_codes(scores[i : i + 1]).packed for i in range(50)])
    np.testing.assert_array_equal(trained.query_codes(scores)[:50].packed, alone)


def test_images_and_texts_vote_and_of_very_many_a_part():
    few = choose_voters(np.ones((3, 4)), np.zeros((2, 4)))
    np.testing.assert_array_equal(few[:, 0], [1, 1, 1, 0, 0])
    many = choose_voters(np.ones((MOST_VOTERS, 2)), np.zeros((MOST_VOTERS, 2)))
    assert len(many) == MOST_VOTERS
    assert many[:, 0].mean() == 0.5


def test_queries_are_voted_on_and_what_is_searched_is_not(trained, pairs):
    scores = trained.score_image(pairs.images)
    plain = CHN(16).query_codes(scores)
    np.testing.assert_array_equal(trained.encode_image(pairs.images).packed, plain.packed)
    voters = choose_voters(scores, trained.score_text(pairs.texts))
    expected = [slow_votes(score, voters, N_VOTES) for score in scores.astype(np.float64)]
    voted = trained.query_codes(scores)
    np.testing.assert_array_equal(voted.signs(), expected)
    assert (voted.packed != plain.packed).any()


@pytest.mark.parametrize("exported", [False, True])
def test_voters_are_kept_with_the_model(trained, pairs, tmp_path, exported):
    trained.save(tmp_path)
    if exported:
        export_onnx(tmp_path, Hasher)
    loaded = Hasher.load(tmp_path)
    assert isinstance(loaded, METHODS["chn"]) is not exported
    scores = trained.score_text(pairs.texts)
    expected = trained.query_codes(scores)
    np.testing.assert_array_equal(loaded.query_codes(scores).packed, expected.packed)


def test_a_collection_is_searched_with_voted_codes(trained, pairs):
    collection = Collection.create("memory:", trained, Reader())
    collection.add_pairs(pairs)
    (found,) = collection.search_words(pairs.texts[:1], k=50, rerank=False)
    code = trained.query_codes(trained.score_text(pairs.texts[:1]))
    (expected,) = collection.search_codes(code, k=50)
    assert [match.distance for match in found] == [match.distance for match in expected]


def test_a_number_of_votes_that_makes_no_sense_is_refused(pairs):
    with pytest.raises(InputError, match="votes must be a whole number from 0 on. Got -1"):
        CHN(16, votes=-1).fit(pairs)
