"""Preprocessing: squares of bytes, the middle for search, parts by item number for training."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles
from corrhash.networks.pixels import IMAGENET_DEVIATION, IMAGENET_MEAN, Preprocessing
from corrhash.progress import listening

PLAN = Preprocessing(resize=40, crop=32)


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (6, 40, 40, 3), dtype=np.uint8)


def test_pictures_of_the_right_size_keep_their_pixels(pictures):
    pixels = PLAN.read(pictures)
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels, pictures.transpose(0, 3, 1, 2))


def test_arrays_opened_pictures_and_files_are_read_alike(tmp_path):
    pictures = np.random.default_rng(1).integers(0, 256, (3, 50, 70, 3), dtype=np.uint8)
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    pixels = PLAN.read(pictures)
    assert pixels.shape == (3, 3, 40, 40)
    assert np.array_equal(pixels, PLAN.read(ImageFiles(paths)))
    assert np.array_equal(pixels, PLAN.read([Image.fromarray(picture) for picture in pictures]))


def test_the_aspect_is_squeezed_or_kept():
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 255  # the middle third is white
    squeezed = PLAN.read([wide])[0, 0, 20]
    kept = Preprocessing(resize=20, crop=20, keep_aspect=True).read([wide])[0, 0, 10]
    assert squeezed[0] == 0
    assert squeezed[20] == 255
    assert (kept == 255).all()


@pytest.mark.parametrize("size", [(33, 50), (50, 33), (40, 41), (7, 300)])
def test_keeping_the_aspect_always_fills_the_square(size):
    picture = np.full((*size, 3), 200, np.uint8)
    pixels = Preprocessing(resize=40, crop=32, keep_aspect=True).read([picture])
    assert pixels.shape == (1, 3, 40, 40)
    assert (pixels == 200).all()


def test_grey_pictures_become_colour():
    assert PLAN.read([Image.new("L", (10, 10), 7)])[0, :, 0, 0].tolist() == [7, 7, 7]


def test_reading_reports_how_far_it_is(pictures):
    steps = []
    with listening(steps.append):
        PLAN.read(pictures)
    assert [(step.task, step.done, step.total) for step in steps] == [("Reading pictures", 6, 6)]


def test_no_pictures_give_no_rows():
    assert PLAN.read([]).shape == (0, 3, 40, 40)


def test_plain_is_the_normalised_middle(pictures):
    plain = PLAN.plain(PLAN.read(pictures))
    middle = pictures[:, 4:36, 4:36].astype(np.float64) / 255
    expected = (middle - IMAGENET_MEAN) / IMAGENET_DEVIATION
    assert plain.dtype == np.float32
    assert np.allclose(plain, expected.transpose(0, 3, 1, 2), atol=1e-5)


def test_an_augmented_picture_is_a_part_of_its_picture_perhaps_mirrored(pictures):
    pixels = PLAN.read(pictures)
    one = Preprocessing(resize=32, crop=32)
    for number, part in enumerate(PLAN.augmented(pixels, range(6), seed=0, epoch=0)):
        parts = sliding_window_view(pixels[number], (32, 32), axis=(1, 2))  # (3, 9, 9, 32, 32)
        parts = parts.transpose(1, 2, 0, 3, 4).reshape(-1, 3, 32, 32)
        candidates = one.plain(np.concatenate([parts, parts[..., ::-1]]))
        assert (candidates == part).all(axis=(1, 2, 3)).sum() == 1


def test_augmentation_depends_on_seed_epoch_and_item_alone(pictures):
    pixels = PLAN.read(pictures)
    items = np.array([10, 11, 12, 13, 14, 15])
    together = PLAN.augmented(pixels, items, seed=1, epoch=2)
    order = [3, 0, 5]
    part = PLAN.augmented(pixels[order], items[order], seed=1, epoch=2)
    assert np.array_equal(part, together[order])
    assert not np.array_equal(PLAN.augmented(pixels, items, seed=1, epoch=3), together)
    assert not np.array_equal(PLAN.augmented(pixels, items, seed=2, epoch=2), together)
    assert not np.array_equal(PLAN.augmented(pixels, items + 1, seed=1, epoch=2), together)


def test_another_size_keeps_the_ratio_of_picture_and_crop():
    plan = Preprocessing(resize=256, crop=224, keep_aspect=True).at_size(112)
    assert (plan.resize, plan.crop, plan.keep_aspect) == (128, 112, True)


def test_wrong_pixels_and_pictures_are_refused(pictures):
    with pytest.raises(InputError, match=r"uint8 of \(n, 3, 40, 40\).*Got float32"):
        PLAN.plain(np.zeros((1, 3, 40, 40), np.float32))
    with pytest.raises(InputError, match=r"Got uint8 of \(1, 3, 32, 32\)"):
        PLAN.augmented(np.zeros((1, 3, 32, 32), np.uint8), [0], seed=0, epoch=0)
    with pytest.raises(InputError, match=r"Got shape \(4, 4\) of float64"):
        PLAN.read([np.zeros((4, 4))])
    with pytest.raises(InputError, match="crop of 50 pixels must fit into pictures of 40"):
        Preprocessing(resize=40, crop=50)
