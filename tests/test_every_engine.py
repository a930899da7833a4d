"""What each engine promises, checked for every name in ENGINES against a stable sort."""

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import ENGINES, open_index

pytestmark = pytest.mark.parametrize("scheme", list(ENGINES))


def random_codes(n, n_bits, seed=0):
    return Codes.from_scores(np.random.default_rng(seed).standard_normal((n, n_bits)))


def brute_force(queries, database, ids, k):
    """The k nearest ids by (distance, id), and their distances."""
    distances = queries.hamming(database).astype(int)
    orders = [np.lexsort((ids, row))[:k] for row in distances]
    nearest = np.stack([row[order] for row, order in zip(distances, orders, strict=True)])
    return np.stack([ids[order] for order in orders]), nearest


@pytest.mark.parametrize("n_bits", [1, 16, 48, 64, 100, 128, 300])
def test_answers_equal_a_stable_sort_by_distance_and_id(scheme, n_bits):
    index = open_index(scheme, n_bits)
    database, queries = random_codes(500, n_bits), random_codes(20, n_bits, seed=1)
    ids = np.random.default_rng(2).permutation(5000)[:500]
    index.add(ids[:300], database[:300])
    index.add(ids[300:], database[300:])
    assert len(index) == 500
    for k in (1, 10, 500):
        answer = index.search(queries, k)
        rows, distances = brute_force(queries, database, ids, k)
        np.testing.assert_array_equal(answer.rows, rows)
        np.testing.assert_array_equal(answer.distances, distances)


def test_what_was_deleted_is_not_found_and_its_id_is_free_again(scheme):
    index = open_index(scheme, 32)
    codes = random_codes(50, 32)
    index.add(np.arange(50), codes)
    assert index.delete([3, 4, 999]) == 2
    assert len(index) == 48
    answer = index.search(codes[3:5], 48)
    assert not np.isin(answer.rows, [3, 4]).any()
    index.add([3], codes[3:4])
    assert index.search(codes[3:4], 1).rows[0, 0] == 3


def test_a_search_for_more_than_there_is_returns_all(scheme):
    index = open_index(scheme, 16)
    codes = random_codes(5, 16)
    assert index.search(codes, 10).rows.shape == (5, 0)
    index.add(np.arange(5), codes)
    assert index.search(codes, 10).rows.shape == (5, 5)
    assert index.search(codes[:0], 10).rows.shape == (0, 5)


def test_bad_input_is_told(scheme):
    index = open_index(scheme, 16)
    codes = random_codes(3, 16)
    index.add([0, 1, 2], codes)
    with pytest.raises(InputError, match="Id 2 is taken already"):
        index.add([2], codes[:1])
    with pytest.raises(InputError, match="Id 7 is taken already"):
        index.add([7, 7], codes[:2])
    with pytest.raises(InputError, match="Got 2 ids, 3 codes"):
        index.add([8, 9], codes)
    with pytest.raises(InputError, match="Got 8 and 16 bits"):
        index.search(random_codes(1, 8))
    with pytest.raises(InputError, match="Got 8 and 16 bits"):
        index.add([9], random_codes(1, 8))
    for ids in ([1.5], [2**64 - 1]):
        with pytest.raises(InputError, match="whole numbers that fit into 64 bits"):
            index.add(ids, codes[:1])
    for k in (0, -1, 2.5):
        with pytest.raises(InputError, match=f"k must be a whole number from 1 up. Got {k}"):
            index.search(codes, k)
    assert len(index) == 3
