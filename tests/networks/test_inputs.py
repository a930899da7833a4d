"""Inputs of networks: rows in order, dense or sparse, images decoded and cached."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

from corrhash.networks.inputs import ImageInputs, VectorInputs, padded_batches
from corrhash.networks.preprocessing import Preprocessing

PLAN = Preprocessing(resize=12, crop=8)


def test_vectors_are_float32_in_the_order_of_the_rows():
    values = np.arange(12).reshape(4, 3)
    rows = np.array([3, 0, 3])
    for given in (values, sp.csr_array(values), sp.coo_array(values)):
        batch = VectorInputs(given).batch(rows)
        assert batch.dtype == np.float32
        np.testing.assert_array_equal(batch, values[rows])


class Counted:
    """Images that count how often each is opened."""

    def __init__(self, images):
        self.images = images
        self.opened = Counter()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        self.opened[row] += 1
        return self.images[row]


IMAGE_BYTES = 3 * 12 * 12


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (30, 12, 12, 3), dtype=np.uint8)


@pytest.mark.parametrize("n_cached", [0, 7, 100])
def test_images_come_in_the_order_of_the_rows(images, n_cached):
    inputs = ImageInputs(images, PLAN, cache_bytes=n_cached * IMAGE_BYTES)
    for rows in (np.arange(20), np.array([29, 3, 3, 17])):
        inputs.prefetch(rows)
        pixels = PLAN.read(images[rows])
        np.testing.assert_array_equal(inputs.batch(rows), PLAN.plain(pixels))
        augmented = inputs.training_batch(rows, seed=1, epoch=2)
        expected = PLAN.augmented(pixels, rows, seed=1, epoch=2)
        np.testing.assert_array_equal(augmented, expected)


@pytest.mark.parametrize("n_cached", [0, 7, 30, 100])
def test_images_that_fit_are_decoded_once(images, n_cached):
    counted = Counted(images)
    inputs = ImageInputs(counted, PLAN, cache_bytes=n_cached * IMAGE_BYTES)
    for _ in range(3):
        inputs.prefetch(np.arange(30))
        for rows in np.split(np.arange(30), [16]):
            inputs.batch(rows)
    n_cached = min(n_cached, 30)
    expected = {1: n_cached, 3: 30 - n_cached}
    assert Counter(counted.opened.values()) == +Counter(expected)
    assert inputs.cache_bytes == n_cached * IMAGE_BYTES


@pytest.mark.parametrize(("n", "expected"), [(0, []), (3, [[0, 1, 2, 2]]), (4, [[0, 1, 2, 3]])])
def test_the_last_batch_is_padded_with_its_last_row(n, expected):
    batches = list(padded_batches(VectorInputs(np.arange(n)[:, None]), n, 4))
    np.testing.assert_array_equal([batch[:, 0].tolist() for batch in batches], expected)


def test_rows_are_prefetched_before_they_are_read():
    asked = []

    class Watched(VectorInputs):
        def prefetch(self, rows):
            asked.append(("prefetch", rows[0]))

        def batch(self, rows):
            asked.append(("batch", rows[0]))
            return super().batch(rows)

    assert len(list(padded_batches(Watched(np.ones((8, 1))), 8, 2))) == 4
    for start in (2, 4, 6):
        assert asked.index(("prefetch", start)) < asked.index(("batch", start))


def test_terms_are_dropped_in_training_only():
    texts = np.ones((50, 400), np.float32)
    inputs, rows = VectorInputs(texts, dropped=0.3), np.arange(50)
    np.testing.assert_array_equal(inputs.batch(rows), texts)
    trained = inputs.training_batch(rows, seed=0, epoch=0)
    assert set(np.unique(trained)) == {0, 1}
    assert trained.mean() == pytest.approx(0.7, abs=0.02)
    again = inputs.training_batch(rows[::-1], seed=0, epoch=0)
    np.testing.assert_array_equal(again[::-1], trained)  # independent of the batch
    assert (inputs.training_batch(rows, seed=0, epoch=1) != trained).any()
