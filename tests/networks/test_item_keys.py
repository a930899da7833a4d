"""Keys of items: one for each, other ones for another seed or epoch."""

import numpy as np

from corrhash.networks.item_keys import item_keys


def test_keys_differ_between_items_epochs_and_seeds():
    keys = [item_keys(range(1000), seed=seed, epoch=epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len(np.unique(keys)) == 4000


def test_keys_spread_over_all_bits():
    bits = np.unpackbits(item_keys(range(4000), seed=0, epoch=0).view(np.uint8)).reshape(4000, 64)
    np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=0.04)
