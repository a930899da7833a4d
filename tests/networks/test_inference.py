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
    parts = list(outputs(double, VectorInputs(values), n, 4, CPU))
    np.testing.assert_array_equal(np.concatenate([values[:0], *parts]), 2 * values)
    assert sizes == [4] * -(-n // 4)


def test_the_caller_stays_outside_of_inference_mode():
    for _ in outputs(lambda batch: batch, VectorInputs(np.ones((3, 1))), 3, 2, CPU):
        assert not torch.is_inference_mode_enabled()


def test_coming_rows_are_fetched_before_they_are_asked_for():
    asked = []

    class Watched(VectorInputs):
        def fetch(self, rows):
            asked.append(("fetch", rows[0]))

        def batch(self, rows):
            asked.append(("batch", rows[0]))
            return super().batch(rows)

    list(outputs(lambda batch: batch, Watched(np.ones((8, 1))), 8, 2, CPU))
    for start in (2, 4, 6):
        assert asked.index(("fetch", start)) < asked.index(("batch", start))
