"""Padded batches: all of one size, and what comes next is made ready in time."""

import numpy as np
import pytest

from corrhash.networks.inputs import VectorInputs
from corrhash.networks.padded_batches import padded_batches


@pytest.mark.parametrize(("n", "expected"), [(0, []), (3, [[0, 1, 2, 2]]), (4, [[0, 1, 2, 3]])])
def test_the_last_batch_is_filled_up_with_its_last_row(n, expected):
    batches = list(padded_batches(VectorInputs(np.arange(n)[:, None]), n, 4))
    np.testing.assert_array_equal([batch[:, 0].tolist() for batch in batches], expected)


def test_coming_rows_are_fetched_before_they_are_asked_for():
    asked = []

    class Watched(VectorInputs):
        def fetch(self, rows):
            asked.append(("fetch", rows[0]))

        def batch(self, rows):
            asked.append(("batch", rows[0]))
            return super().batch(rows)

    assert len(list(padded_batches(Watched(np.ones((8, 1))), 8, 2))) == 4
    for start in (2, 4, 6):
        assert asked.index(("fetch", start)) < asked.index(("batch", start))
