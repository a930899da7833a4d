"""Pictures to what image networks read: resized once, then cropped, flipped and normalised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from corrhash.errors import InputError
from corrhash.networks.augmentation import draw_crops
from corrhash.progress import report

REPORT_EVERY = 200  # pictures, about half a second
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """How a network wants its pictures; the same at training and at search time.

    ``read`` is done once and kept, as bytes. Of these, ``plain`` gives a network the middle, and
    ``augmented`` a part that differs from epoch to epoch.

    Parameters
    ----------
    resize : side in pixels that pictures are brought to.
    crop : side in pixels of the part that the network sees.
    keep_aspect : bring the shorter side to ``resize`` and cut the longer one, instead of squeezing
        the picture into a square.
    resample : the filter of Pillow to resize with.
    mean, deviation : of each colour on the scale from 0 to 1, to normalise with.

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
    deviation: tuple[float, float, float] = IMAGENET_DEVIATION

    def __post_init__(self) -> None:
        if not 1 <= self.crop <= self.resize:
            raise InputError(
                f"A crop of {self.crop} pixels must fit into pictures of {self.resize}. "
                "Choose crop <= resize."
            )

    def at_size(self, crop: int) -> Preprocessing:
        """The same for another size of what the network sees."""
        return replace(self, crop=crop, resize=round(crop * self.resize / self.crop))

    def read(self, images: Any) -> np.ndarray:
        """(n, 3, resize, resize) uint8 of pictures: ImageFiles, a list of them, or an array."""
        pixels = np.empty((len(images), 3, self.resize, self.resize), dtype=np.uint8)
        for row, image in enumerate(images):
            pixels[row] = self._read_one(image)
            if (row + 1) % REPORT_EVERY == 0 or row + 1 == len(images):
                report("Reading pictures", row + 1, len(images))
        return pixels

    def plain(self, pixels: np.ndarray) -> np.ndarray:
        """(n, 3, crop, crop) float32: the middle of each picture, normalised."""
        first = (self.resize - self.crop) // 2
        end = first + self.crop
        return self._normalise(self._check(pixels)[:, :, first:end, first:end])

    def augmented(self, pixels: np.ndarray, items: Any, *, seed: int, epoch: int) -> np.ndarray:
        """(n, 3, crop, crop) float32: a part of each picture, mirrored half the time, normalised.

        ``items`` are the numbers of the pictures in the dataset. Part and mirroring depend on
        seed, epoch and this number alone: neither the batch nor its order plays a role.
        """
        pictures = self._check(pixels)
        side = self.crop
        crops = draw_crops(items, self.resize - side, seed=seed, epoch=epoch)
        parts = np.empty((len(pictures), 3, side, side), dtype=np.uint8)
        places = zip(crops.top.tolist(), crops.left.tolist(), crops.mirrored.tolist(), strict=True)
        for number, (top, left, mirrored) in enumerate(places):
            part = pictures[number, :, top : top + side, left : left + side]
            parts[number] = part[:, :, ::-1] if mirrored else part
        return self._normalise(parts)

    def _read_one(self, image: Any) -> np.ndarray:
        """(3, resize, resize) uint8 of one picture."""
        picture = image if isinstance(image, Image.Image) else Image.fromarray(_colours(image))
        picture = picture.convert("RGB")
        side = self.resize
        if self.keep_aspect:
            shorter = min(picture.size)
            width, height = (side * length // shorter for length in picture.size)
            picture = picture.resize((width, height), self.resample)
            left, top = (width - side) // 2, (height - side) // 2
            picture = picture.crop((left, top, left + side, top + side))
        else:
            picture = picture.resize((side, side), self.resample)
        return np.array(picture).transpose(2, 0, 1)

    def _normalise(self, pixels: np.ndarray) -> np.ndarray:
        # In float32 from the start, so that a model reads the same numbers wherever it runs.
        mean, deviation = (
            np.float32(255) * np.array(of_colours, dtype=np.float32).reshape(3, 1, 1)
            for of_colours in (self.mean, self.deviation)
        )
        normal = pixels.astype(np.float32)
        normal -= mean
        normal *= 1 / deviation
        return normal

    def _check(self, pixels: np.ndarray) -> np.ndarray:
        expected = (3, self.resize, self.resize)
        if pixels.dtype != np.uint8 or tuple(pixels.shape[1:]) != expected:
            raise InputError(
                f"Pixels are uint8 of (n, 3, {self.resize}, {self.resize}), as read() gives them. "
                f"Got {pixels.dtype} of {tuple(pixels.shape)}."
            )
        return pixels


def _colours(image: Any) -> np.ndarray:
    """An (height, width, 3) uint8 array, or an error that says what came instead."""
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise InputError(
            "A picture is an opened image or an (height, width, 3) array of uint8. "
            f"Got shape {array.shape} of {array.dtype}."
        )
    return array
