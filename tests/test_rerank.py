"""Re-ranking: cosines, and scores packed into two bytes a bit."""

import numpy as np
from scipy.spatial.distance import cosine as cosine_distance

from corrhash.rerank import cosine, pack_scores, unpack_scores


def test_cosines_are_those_of_another_library():
    rng = np.random.default_rng(0)
    query, items = rng.standard_normal(24), rng.standard_normal((7, 24))
    expected = [1 - cosine_distance(query, item) for item in items]
    np.testing.assert_allclose(cosine(query, items), expected)
    np.testing.assert_array_equal(cosine(query, np.zeros((1, 24))), [0])


def test_packed_scores_keep_directions_whatever_their_size():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((5, 64)) * np.array([[1e-9], [1.0], [1e9], [3.0], [0.0]])
    packed = pack_scores(scores)
    assert [len(row) for row in packed] == [128] * 5
    again = np.stack([unpack_scores(row) for row in packed])
    for row in range(4):
        assert cosine(scores[row], again[row : row + 1])[0] > 0.99999
    assert (again[4] == 0).all()
