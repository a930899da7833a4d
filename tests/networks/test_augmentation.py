"""Crops: every place equally likely, draws independent of one another."""

import numpy as np

from corrhash.networks.augmentation import draw_crops


def test_places_are_equally_likely():
    crops = draw_crops(np.arange(90_000), 8, seed=0, epoch=0)
    for places in (crops.top, crops.left):
        counts = np.bincount(places, minlength=9)
        assert len(counts) == 9
        assert np.abs(counts - 10_000).max() < 500
    assert abs(crops.mirrored.mean() - 0.5) < 0.01


def test_draws_are_independent_of_one_another_of_neighbours_and_of_epochs():
    crops = draw_crops(np.arange(50_000), 32, seed=3, epoch=5)
    later = draw_crops(np.arange(50_000), 32, seed=3, epoch=6)
    reseeded = draw_crops(np.arange(50_000), 32, seed=4, epoch=5)
    others = [crops.left, crops.mirrored, np.roll(crops.top, 1), later.top, reseeded.top]
    for other in others:
        assert abs(np.corrcoef(crops.top, other)[0, 1]) < 0.02


def test_without_slack_nothing_moves():
    crops = draw_crops([1, 2, 3], 0, seed=0, epoch=0)
    assert not crops.top.any()
    assert not crops.left.any()
