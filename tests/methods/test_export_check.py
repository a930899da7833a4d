"""The check of exported networks counts what differs, and excuses only what is nearly 0."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.methods.cvh import CVH
from corrhash.methods.export_check import compare, difference


def test_bits_may_differ_only_where_scores_are_nearly_zero():
    expected = np.array([[1e-6, 0.5, -0.2], [0.3, -0.1, 0.4]])
    found = expected.copy()
    assert difference("text", expected, found).small
    found[0, 0] = -1e-6
    close = difference("text", expected, found)
    assert (close.n_differing, close.n_unexplained, close.small) == (1, 0, True)
    found[1, 2] = -0.4
    far = difference("text", expected, found)
    assert (far.n_differing, far.n_unexplained, far.small) == (2, 1, False)
    assert str(far) == "2 texts: scores differ by at most 8.0e-01; 2 of 6 bits differ"


def test_scores_that_drift_are_seen_without_a_bit_that_differs():
    expected = np.array([[0.5]])
    assert not difference("image", expected, expected + 2e-5).small


def test_there_must_be_exported_networks_to_compare():
    pairs = make_pairs(100)
    hasher = CVH(8).fit(pairs)
    with pytest.raises(InputError, match="needs the package onnxruntime"):
        compare(hasher, hasher, pairs)
