"""Outputs in padded batches: every batch of one size, every row once and in order."""

import numpy as np
import pytest
import torch

from corrhash.networks.inference import outputs
from corrhash.networks.inputs import VectorInputs

CPU = torch.device("cpu")


@pytest.mark.parametrize("n", [0, 1, 4, 5, 9])
def test_every_row_comes_out_once_from_batches_of_one_size(n):
    sizes = []

    def double(batch):
        sizes.append(len(batch))
        return 2 * batch

    values = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    found = outputs(double, VectorInputs(values), n, 3, size=4, device=CPU)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, 2 * values)
    assert sizes == [4] * -(-n // 4)


def test_progress_is_told_after_each_batch():
    told = []
    inputs = VectorInputs(np.ones((5, 1)))
    outputs(lambda batch: batch, inputs, 5, 1, size=2, device=CPU, progress=told.append)
    assert told == [2, 4, 5]
