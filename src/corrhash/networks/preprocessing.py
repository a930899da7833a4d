"""Preprocessing of images for networks: resize once, then crop at random, flip and normalize.

Random draws depend on seed, epoch and item alone, so neither the batch nor its order matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from corrhash._progress import report
from corrhash.errors import InputError

GOLDEN_STEP = np.uint64(0x9E3779B97F4A7C15)
"""The increment of SplitMix64: 2⁶⁴ divided by the golden ratio."""

REPORT_EVERY = 200  # images, about half a second
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """How a network reads images, the same in training and in search.

    ``read`` resizes images to uint8 pixels, which can be cached. From these, ``plain`` takes the
    centre for encoding and ``augmented`` a random crop for training.

    Parameters
    ----------
    resize : side in pixels that images are resized to.
    crop : side in pixels of the network's input.
    keep_aspect : resize the shorter side and crop the longer one, instead of distorting the image
        into a square.
    resample : Pillow's resampling filter.
    mean, std : of each colour channel on the scale from 0 to 1, to normalize with.

    Examples
    --------
    >>> preprocessing = Preprocessing(resize=72, crop=64)
    >>> pixels = preprocessing.read(np.zeros((5, 96, 128, 3), np.uint8))
    >>> tuple(pixels.shape), tuple(preprocessing.plain(pixels).shape)
    ((5, 3, 72, 72), (5, 3, 64, 64))
    """

    resize: int
    crop: int
    keep_aspect: bool = False
    resample: int = Image.Resampling.BILINEAR
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        if not 1 <= self.crop <= self.resize:
            raise InputError(f"crop must be between 1 and resize={self.resize}, got {self.crop}.")

    def at_size(self, crop: int) -> Preprocessing:
        """Return the same preprocessing for another size of the network's input."""
        return replace(self, crop=crop, resize=round(crop * self.resize / self.crop))

    def read(self, images: Any) -> np.ndarray:
        """Return (n, 3, resize, resize) uint8 pixels of image files, a list or an array."""
        pixels = np.empty((len(images), 3, self.resize, self.resize), dtype=np.uint8)
        for row, image in enumerate(images):
            pixels[row] = self._read_one(image)
            if (row + 1) % REPORT_EVERY == 0 or row + 1 == len(images):
                report("Reading images", row + 1, len(images))
        return pixels

    def plain(self, pixels: np.ndarray) -> np.ndarray:
        """Return (n, 3, crop, crop) float32: the centre of each image, normalized."""
        first = (self.resize - self.crop) // 2
        end = first + self.crop
        return self._normalize(self._check(pixels)[:, :, first:end, first:end])

    def augmented(self, pixels: np.ndarray, items: Any, *, seed: int, epoch: int) -> np.ndarray:
        """Return (n, 3, crop, crop) float32: random crops, half of them mirrored, normalized.

        ``items`` are the row numbers of the images in the dataset.
        """
        images = self._check(pixels)
        side = self.crop
        crops = draw_crops(items, self.resize - side, seed=seed, epoch=epoch)
        parts = np.empty((len(images), 3, side, side), dtype=np.uint8)
        corners = zip(crops.top.tolist(), crops.left.tolist(), crops.mirrored.tolist(), strict=True)
        for number, (top, left, mirrored) in enumerate(corners):
            part = images[number, :, top : top + side, left : left + side]
            parts[number] = part[:, :, ::-1] if mirrored else part
        return self._normalize(parts)

    def _read_one(self, image: Any) -> np.ndarray:
        """Return (3, resize, resize) uint8 pixels of one image."""
        opened = image if isinstance(image, Image.Image) else Image.fromarray(_check_array(image))
        opened = opened.convert("RGB")
        side = self.resize
        if self.keep_aspect:
            shorter = min(opened.size)
            width, height = (side * length // shorter for length in opened.size)
            opened = opened.resize((width, height), self.resample)
            left, top = (width - side) // 2, (height - side) // 2
            opened = opened.crop((left, top, left + side, top + side))
        else:
            opened = opened.resize((side, side), self.resample)
        return np.array(opened).transpose(2, 0, 1)

    def _normalize(self, pixels: np.ndarray) -> np.ndarray:
        # Everything in float32, so that a model reads the same numbers on every platform.
        mean, std = (
            np.float32(255) * np.array(of_colours, dtype=np.float32).reshape(3, 1, 1)
            for of_colours in (self.mean, self.std)
        )
        normal = pixels.astype(np.float32)
        normal -= mean
        normal *= 1 / std
        return normal

    def _check(self, pixels: np.ndarray) -> np.ndarray:
        expected = (3, self.resize, self.resize)
        if pixels.dtype != np.uint8 or tuple(pixels.shape[1:]) != expected:
            raise InputError(
                f"pixels must be uint8 of shape (n, 3, {self.resize}, {self.resize}), as read() "
                f"returns them, got {pixels.dtype} of shape {tuple(pixels.shape)}."
            )
        return pixels


CONVNEXT_SQUARE = 384
"""From this size on, ConvNeXt distorts images instead of cropping them."""


HUB_SETTINGS = (
    *("size", "do_center_crop", "crop_size", "crop_pct", "resample"),
    *("do_normalize", "image_mean", "image_std"),
)
"""Settings of Hugging Face image processors that :func:`from_hub_settings` reads."""


def from_hub_settings(settings: Mapping[str, Any], source: str) -> Preprocessing:
    """Return the preprocessing that an image processor of Hugging Face or OpenCLIP describes.

    ``settings`` are the entries of ``preprocessor_config.json`` or ``preprocess_cfg.json``, and
    ``source`` names them in errors.
    """
    if "resize_mode" in settings:
        return _from_open_clip(settings, source)
    size = settings.get("size")
    size = {"shortest_edge": size} if isinstance(size, int) else size or {}
    shorter = size.get("shortest_edge")
    resize = shorter or _square(size, source)
    cropped = settings.get("crop_size")
    cropped = {"height": cropped, "width": cropped} if isinstance(cropped, int) else cropped
    crop = _square(cropped, source) if settings.get("do_center_crop") else resize
    keep_aspect = shorter is not None
    share = settings.get("crop_pct")
    if share is not None:
        keep_aspect = resize < CONVNEXT_SQUARE
        resize = int(resize / share) if keep_aspect else resize
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if settings.get("do_normalize", True):
        mean = tuple(settings.get("image_mean") or IMAGENET_MEAN)
        std = tuple(settings.get("image_std") or IMAGENET_STD)
    resample = settings.get("resample", Image.Resampling.BILINEAR)
    return Preprocessing(max(resize, crop), crop, keep_aspect, int(resample), mean, std)


def _from_open_clip(settings: Mapping[str, Any], source: str) -> Preprocessing:
    size = settings["size"]
    height, width = (size, size) if isinstance(size, int) else size
    side = _square({"height": height, "width": width}, source)
    return Preprocessing(
        resize=side,
        crop=side,
        keep_aspect=settings["resize_mode"] == "shortest",
        resample=int(Image.Resampling[str(settings.get("interpolation", "bicubic")).upper()]),
        mean=tuple(settings.get("mean") or IMAGENET_MEAN),
        std=tuple(settings.get("std") or IMAGENET_STD),
    )


def _square(size: Any, source: str) -> int:
    """Return the side of the square images that a processor makes."""
    size = size or {}
    height, width = size.get("height"), size.get("width")
    if height is None or height != width:
        raise InputError(
            f"{source} makes images of {height} x {width} pixels. Choose an encoder that reads "
            "square images of one size."
        )
    return int(height)


def _check_array(image: Any) -> np.ndarray:
    """Return a (height, width, 3) uint8 array, or raise InputError."""
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise InputError(
            "An image must be a Pillow image or a uint8 array of shape (height, width, 3), got "
            f"{array.dtype} of shape {array.shape}."
        )
    return array


@dataclass(frozen=True, eq=False)
class Crops:
    """The upper left corners of the crops of n images, and which of them are mirrored."""

    top: np.ndarray  # (n,) int64
    left: np.ndarray  # (n,) int64
    mirrored: np.ndarray  # (n,) bool


def draw_crops(items: Any, slack: int, *, seed: int, epoch: int) -> Crops:
    """Draw crops that start 0 to ``slack`` pixels from the corner of each image.

    >>> together = draw_crops([7, 8, 9], 32, seed=0, epoch=1)
    >>> alone = draw_crops([9], 32, seed=0, epoch=1)
    >>> bool(together.left[2] == alone.left[0])
    True
    """
    bits = item_keys(items, seed=seed, epoch=epoch)
    # Three independent draws from one 64-bit key: two of 31 bits and one of a single bit.
    top = (bits & np.uint64(0x7FFFFFFF)) % np.uint64(slack + 1)
    left = (bits >> np.uint64(31) & np.uint64(0x7FFFFFFF)) % np.uint64(slack + 1)
    return Crops(top.astype(np.int64), left.astype(np.int64), bits >> np.uint64(63) == 1)


def item_keys(items: Any, *, seed: int, epoch: int) -> np.ndarray:
    """Return (n,) uint64 random keys of the items with these row numbers.

    >>> together, alone = (item_keys(items, seed=0, epoch=1) for items in ([7, 8, 9], [9]))
    >>> bool(together[2] == alone[0])
    True
    """
    items = np.asarray(items, dtype=np.uint64).reshape(-1)
    keys = splitmix64(np.full(len(items), seed, np.uint64))
    return splitmix64(splitmix64(keys + np.uint64(epoch)) + items)


def splitmix64(numbers: np.ndarray) -> np.ndarray:
    """Hash uint64 numbers with the finalizer of SplitMix64 (Steele et al., 2014)."""
    numbers = numbers + GOLDEN_STEP
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)


DRAWS_PER_WORD = 4  # a random 64-bit word decides about four units
DROPOUT_STEPS = 2**16  # resolution of the dropout share


def kept_units(keys: np.ndarray, width: int, share: float) -> np.ndarray:
    """Return (n, width) booleans, of which ``share`` are False."""
    counts = np.arange(-(-width // DRAWS_PER_WORD), dtype=np.uint64)
    words = splitmix64(keys[:, None] + counts * GOLDEN_STEP)  # (n, width / 4) of 64 bits
    threshold = min(round(share * DROPOUT_STEPS), DROPOUT_STEPS - 1)
    return (words.view(np.uint16) >= threshold)[:, :width]
