"""Simple features: colours and edges by place, alike for arrays and files."""

import numpy as np
from PIL import Image

from corrhash.datasets import ImageFiles
from corrhash.datasets.simple_features import simple_features


def test_files_and_arrays_of_the_same_pixels_are_described_alike(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 40, 40, 3), dtype=np.uint8)
    for i in range(2):
        Image.fromarray(pixels[i]).save(tmp_path / f"{i}.png")
    files = ImageFiles([tmp_path / "0.png", tmp_path / "1.png"])
    np.testing.assert_array_equal(simple_features(files), simple_features(pixels))


def test_colours_stand_where_they_are_in_the_picture():
    picture = np.zeros((1, 64, 64, 3), np.uint8)
    picture[0, :8, :8, 0] = 255  # red in the upper left corner
    colours = simple_features(picture)[0, :192].reshape(8, 8, 3)
    np.testing.assert_allclose(colours[0, 0], [1, 0, 0])
    assert colours[1:].sum() == 0


def test_stripes_show_the_direction_of_their_edges():
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::8] = 255
    turned = stripes.transpose(1, 0, 2)
    upright, level = simple_features(np.stack([stripes, turned]))[:, 192:].reshape(2, 64, 8)
    assert upright.sum(axis=0).argmax() == 0
    assert level.sum(axis=0).argmax() == 4
