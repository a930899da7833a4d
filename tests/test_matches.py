"""Matches: the nearest items, ranked once more by what is finer than counting bits."""

import numpy as np
import pytest

from corrhash import Codes, InputError, matches
from corrhash.collection import Collection
from corrhash.index import open_index
from tests.test_collection import N, World, nearest_rows


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("pictures"))


def test_the_first_ones_are_ranked_once_more_by_real_numbers(world, monkeypatch):
    monkeypatch.setattr(matches, "RERANKED", 30)
    words = world.scenes.captions[4]
    scores = world.hasher.score_text(world.reader.read_texts([words]))[0]
    images = world.hasher.score_image(world.reader.read_images(world.scenes.images))
    for store in (False, True):
        collection = Collection.create("memory:", *world.model, store_scores=store)
        collection.add(world.records())
        vectors = images if store else world.codes("image").signs()
        cosines = vectors @ scores / np.linalg.norm(vectors, axis=1) / np.linalg.norm(scores)
        nearest, _ = nearest_rows(Codes.from_scores(scores[None]), world.codes("image"), N)
        expected = [*sorted(nearest[:30], key=lambda row: -cosines[row]), *nearest[30:]]
        found_ones = collection.search_text(words, N)
        found = [match.item.metadata["row"] for match in found_ones]
        if store:  # float16 may exchange near equals
            assert np.abs(cosines[found[:30]] - cosines[expected[:30]]).max() < 1e-3
        else:
            np.testing.assert_allclose(cosines[found[:30]], cosines[expected[:30]])
        assert found[30:] == [int(row) for row in expected[30:]]
        assert found_ones[0].score == pytest.approx(cosines[found[0]], abs=1e-3)
        assert found_ones[40].score is None
        assert set(found[:30]) == set(nearest[:30].tolist())


def test_an_item_that_is_deleted_during_a_search_is_left_out(monkeypatch):
    index = open_index("memory:", 8)
    codes = Codes.from_scores(np.random.default_rng(0).standard_normal((6, 8)))
    index.add(np.arange(6), codes)
    plain = index.search
    monkeypatch.setattr(index, "search", lambda *a, **k: (plain(*a, **k), index.delete([2]))[0])
    for scores in (None, codes[:1].signs()):
        (found,) = matches.find_matches(index, codes[:1], scores, 6, "image")
        assert sorted(match.id for match in found) == [0, 1, 3, 4, 5]
        index.upsert([2], codes[2])


@pytest.mark.parametrize("offset", [-1, 0.5, "3"])
def test_an_offset_is_a_whole_number(offset):
    with pytest.raises(InputError, match=f"from 0 up. Got {offset!r}"):
        matches.check_offset(offset)
