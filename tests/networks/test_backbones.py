"""The registry of image backbones."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from corrhash import InputError
from corrhash.networks import BACKBONES


@torch.no_grad()
@pytest.mark.parametrize("name", BACKBONES)
def test_backbones_map_images_to_features(name):
    network = BACKBONES[name]().eval()
    images = np.random.default_rng(0).integers(0, 256, (2, 50, 60, 3), dtype=np.uint8)
    plan = network.preprocessing
    features = network(torch.from_numpy(plan.plain(plan.read(images))))
    assert features.shape == (2, network.n_features)
    assert torch.isfinite(features).all()
    assert BACKBONES[name].__doc__.splitlines()[0].endswith(".")


def test_unknown_backbones_are_refused():
    with pytest.raises(InputError, match="Unknown backbone 'vgg'. Choose one of: alexnet, "):
        BACKBONES["vgg"]


def test_listing_backbones_does_not_import_torch():
    code = "import sys; from corrhash.networks import BACKBONES; list(BACKBONES); "
    subprocess.run(
        [sys.executable, "-c", code + "assert 'torch' not in sys.modules"], check=True, timeout=60
    )
