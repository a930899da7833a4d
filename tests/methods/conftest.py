"""Fixtures that tests of several methods share."""

import numpy as np
import pytest

from corrhash.datasets import PairedDataset


@pytest.fixture(scope="session")
def coloured_pairs():
    """Red and blue images with matching tags."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 120)
    images = rng.integers(0, 60, (120, 40, 40, 3), dtype=np.uint8)
    images[np.arange(120), :, :, classes * 2] += 150
    labels = np.eye(2, dtype=int)[classes]
    return PairedDataset(images, labels.astype(np.float32), labels)
