"""The leading pair is that of the whole decomposition, with a sign of its own."""

import numpy as np
import pytest
from scipy.linalg import svd

from corrhash.methods.leading_pair import leading_pair


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (5, 2), (30, 50), (60, 20)])
def test_it_is_the_first_pair_of_the_whole_decomposition(shape):
    matrix = np.random.default_rng(0).standard_normal(shape)
    u, v = leading_pair(matrix)
    left, values, right = svd(matrix)
    assert u @ matrix @ v == pytest.approx(values[0])
    assert abs(u @ left[:, 0]) == pytest.approx(1)
    assert abs(v @ right[0]) == pytest.approx(1)
    assert u[abs(u).argmax()] > 0


def test_a_matrix_of_zeros_has_a_pair_too():
    u, v = leading_pair(np.zeros((20, 30)))
    assert (np.linalg.norm(u), np.linalg.norm(v)) == (1, 1)
