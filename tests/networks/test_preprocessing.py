"""Preprocessing of images, and random draws by item."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from corrhash import InputError
from corrhash._progress import listening
from corrhash.datasets import ImageFiles
from corrhash.networks.preprocessing import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Preprocessing,
    draw_crops,
    item_keys,
)


def test_keys_differ_between_items_epochs_and_seeds():
    keys = [item_keys(range(1000), seed=seed, epoch=epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len(np.unique(keys)) == 4000


def test_keys_spread_over_all_bits():
    bits = np.unpackbits(item_keys(range(4000), seed=0, epoch=0).view(np.uint8)).reshape(4000, 64)
    np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=0.04)


def test_crop_positions_are_uniform():
    crops = draw_crops(np.arange(90_000), 8, seed=0, epoch=0)
    for positions in (crops.top, crops.left):
        counts = np.bincount(positions, minlength=9)
        assert len(counts) == 9
        assert np.abs(counts - 10_000).max() < 500
    assert abs(crops.mirrored.mean() - 0.5) < 0.01


def test_draws_are_uncorrelated():
    crops = draw_crops(np.arange(50_000), 32, seed=3, epoch=5)
    later = draw_crops(np.arange(50_000), 32, seed=3, epoch=6)
    reseeded = draw_crops(np.arange(50_000), 32, seed=4, epoch=5)
    others = [crops.left, crops.mirrored, np.roll(crops.top, 1), later.top, reseeded.top]
    for other in others:
        assert abs(np.corrcoef(crops.top, other)[0, 1]) < 0.02


def test_crops_without_slack_start_at_the_corner():
    crops = draw_crops([1, 2, 3], 0, seed=0, epoch=0)
    assert not crops.top.any()
    assert not crops.left.any()


PLAN = Preprocessing(resize=40, crop=32)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (6, 40, 40, 3), dtype=np.uint8)


def test_images_of_the_right_size_keep_their_pixels(images):
    pixels = PLAN.read(images)
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels, images.transpose(0, 3, 1, 2))


def test_arrays_images_and_files_give_equal_pixels(tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (3, 50, 70, 3), dtype=np.uint8)
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    pixels = PLAN.read(images)
    assert pixels.shape == (3, 3, 40, 40)
    assert np.array_equal(pixels, PLAN.read(ImageFiles(paths)))
    assert np.array_equal(pixels, PLAN.read([Image.fromarray(image) for image in images]))


def test_the_aspect_ratio_is_distorted_or_kept():
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 255  # the middle third is white
    distorted = PLAN.read([wide])[0, 0, 20]
    kept = Preprocessing(resize=20, crop=20, keep_aspect=True).read([wide])[0, 0, 10]
    assert distorted[0] == 0
    assert distorted[20] == 255
    assert (kept == 255).all()


@pytest.mark.parametrize("size", [(33, 50), (50, 33), (40, 41), (7, 300)])
def test_keeping_the_aspect_ratio_fills_the_square(size):
    image = np.full((*size, 3), 200, np.uint8)
    pixels = Preprocessing(resize=40, crop=32, keep_aspect=True).read([image])
    assert pixels.shape == (1, 3, 40, 40)
    assert (pixels == 200).all()


def test_grey_images_become_rgb():
    assert PLAN.read([Image.new("L", (10, 10), 7)])[0, :, 0, 0].tolist() == [7, 7, 7]


def test_reading_reports_progress(images):
    steps = []
    with listening(steps.append):
        PLAN.read(images)
    assert [(step.task, step.done, step.total) for step in steps] == [("Reading images", 6, 6)]


def test_no_images_give_no_rows():
    assert PLAN.read([]).shape == (0, 3, 40, 40)


def test_plain_is_the_normalized_centre(images):
    plain = PLAN.plain(PLAN.read(images))
    middle = images[:, 4:36, 4:36].astype(np.float64) / 255
    expected = (middle - IMAGENET_MEAN) / IMAGENET_STD
    assert plain.dtype == np.float32
    assert np.allclose(plain, expected.transpose(0, 3, 1, 2), atol=1e-5)


def test_augmented_images_are_crops_some_mirrored(images):
    pixels = PLAN.read(images)
    one = Preprocessing(resize=32, crop=32)
    for number, part in enumerate(PLAN.augmented(pixels, range(6), seed=0, epoch=0)):
        parts = sliding_window_view(pixels[number], (32, 32), axis=(1, 2))  # (3, 9, 9, 32, 32)
        parts = parts.transpose(1, 2, 0, 3, 4).reshape(-1, 3, 32, 32)
        candidates = one.plain(np.concatenate([parts, parts[..., ::-1]]))
        assert (candidates == part).all(axis=(1, 2, 3)).sum() == 1


def test_augmentation_depends_on_seed_epoch_and_item(images):
    pixels = PLAN.read(images)
    items = np.array([10, 11, 12, 13, 14, 15])
    together = PLAN.augmented(pixels, items, seed=1, epoch=2)
    order = [3, 0, 5]
    part = PLAN.augmented(pixels[order], items[order], seed=1, epoch=2)
    assert np.array_equal(part, together[order])
    assert not np.array_equal(PLAN.augmented(pixels, items, seed=1, epoch=3), together)
    assert not np.array_equal(PLAN.augmented(pixels, items, seed=2, epoch=2), together)
    assert not np.array_equal(PLAN.augmented(pixels, items + 1, seed=1, epoch=2), together)


def test_another_size_keeps_the_resize_ratio():
    plan = Preprocessing(resize=256, crop=224, keep_aspect=True).at_size(112)
    assert (plan.resize, plan.crop, plan.keep_aspect) == (128, 112, True)


def test_invalid_pixels_and_images_are_refused(images):
    with pytest.raises(InputError, match=r"uint8 of shape \(n, 3, 40, 40\).*got float32"):
        PLAN.plain(np.zeros((1, 3, 40, 40), np.float32))
    with pytest.raises(InputError, match=r"got uint8 of shape \(1, 3, 32, 32\)"):
        PLAN.augmented(np.zeros((1, 3, 32, 32), np.uint8), [0], seed=0, epoch=0)
    with pytest.raises(InputError, match=r"got float64 of shape \(4, 4\)"):
        PLAN.read([np.zeros((4, 4))])
    with pytest.raises(InputError, match="crop must be between 1 and resize=40, got 50"):
        Preprocessing(resize=40, crop=50)
