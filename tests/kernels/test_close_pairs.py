"""Pairs of rows that are close by signature and code, compared with all pairs in Python."""

import numpy as np
import pytest

from corrhash.codes import Codes
from corrhash.kernels import close_pairs as module
from corrhash.kernels.close_pairs import close_pairs


def slow_pairs(signatures, codes, mirror, max_signature, max_distance):
    distances, numbers = codes.hamming(codes), signatures.tolist()
    return [
        [i, j]
        for i in range(len(numbers))
        for j in range(i + 1, len(numbers))
        if (numbers[i] ^ numbers[j] ^ mirror).bit_count() <= max_signature
        or (
            (numbers[i] ^ numbers[j]).bit_count() <= max_signature
            and distances[i, j] <= max_distance
        )
    ]


@pytest.mark.parametrize("n", [0, 1, 2, 150])
@pytest.mark.parametrize("n_bits", [16, 100])
def test_pairs_equal_those_of_all_comparisons(n, n_bits, monkeypatch):
    monkeypatch.setattr(module, "ROOM", 3)  # slices need more
    rng = np.random.default_rng(n)
    signatures = rng.integers(0, 2**63, max(n, 3)).astype(np.uint64)[rng.integers(0, 3, n)]
    signatures ^= np.uint64(1) << rng.integers(0, 64, n).astype(np.uint64)
    codes = Codes.from_continuous(rng.standard_normal((n, n_bits)))
    mirror = int(signatures[0] ^ signatures[-1]) if n else 0
    expected = slow_pairs(signatures, codes, mirror, 2, n_bits // 2)
    found = close_pairs(signatures, codes.planes(), mirror, 2, n_bits // 2, threads=2)
    assert found.tolist() == expected
    assert n < 150 or len(expected) > 100
