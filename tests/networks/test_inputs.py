"""Inputs: the rows that were asked for, dense or sparse, decoded no oftener than needed."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

from corrhash.networks.inputs import PictureInputs, VectorInputs
from corrhash.networks.pixels import Preprocessing

PLAN = Preprocessing(resize=12, crop=8)


def test_vectors_come_as_float32_in_the_order_of_the_rows():
    values = np.arange(12).reshape(4, 3)
    rows = np.array([3, 0, 3])
    for given in (values, sp.csr_array(values), sp.coo_array(values)):
        batch = VectorInputs(given).batch(rows)
        assert batch.dtype == np.float32
        np.testing.assert_array_equal(batch, values[rows])


class Watched:
    """Pictures that count how often each is opened."""

    def __init__(self, pictures):
        self.pictures = pictures
        self.opened = Counter()

    def __getitem__(self, row):
        self.opened[row] += 1
        return self.pictures[row]


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (30, 12, 12, 3), dtype=np.uint8)


@pytest.mark.parametrize("keep", [True, False])
def test_pictures_are_prepared_in_the_order_of_the_rows(pictures, keep):
    inputs = PictureInputs(pictures, PLAN, keep=keep)
    for rows in (np.arange(20), np.array([29, 3, 3, 17])):
        inputs.fetch(rows)
        expected = PLAN.plain(PLAN.read(pictures[rows]))
        np.testing.assert_array_equal(inputs.batch(rows), expected)
        parts = inputs.training_batch(rows, seed=1, epoch=2)
        pixels = PLAN.read(pictures[rows])
        expected = PLAN.augmented(pixels, rows, seed=1, epoch=2)
        np.testing.assert_array_equal(parts, expected)


def test_pictures_are_decoded_once_where_they_are_kept(pictures):
    for keep, times in ((True, 1), (False, 2)):
        watched = Watched(pictures)
        inputs = PictureInputs(watched, PLAN, keep=keep)
        for _ in range(2):
            inputs.fetch(np.arange(30))
            for rows in np.split(np.arange(30), [16]):
                inputs.batch(rows)
        assert set(watched.opened.values()) == {times}
        assert len(watched.opened) == 30
