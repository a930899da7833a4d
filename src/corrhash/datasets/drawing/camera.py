"""The camera: exposure, white balance, soft focus, vignette and grain over a finished drawing."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageFilter


def photograph(drawing: Image.Image, size: int, rng: np.random.Generator) -> np.ndarray:
    """The drawing as a camera of middling quality would bring it home.

    Returns
    -------
    (size, size, 3) uint8
    """
    picture = drawing.reduce(drawing.width // size)
    picture = picture.filter(ImageFilter.BoxBlur(rng.uniform(0.0, 0.0045) * size))
    picture = _soften_colour(picture)
    gains = rng.uniform(0.84, 1.16) * rng.uniform(0.92, 1.08, 3)  # exposure, white balance
    levels = _vignette(size, rng.uniform(0.0, 0.3)) * gains.astype(np.float32)
    grain = rng.standard_normal((size, size, 1), dtype=np.float32)
    grain *= np.float32(rng.uniform(1.0, 5.0))
    pixels = np.asarray(picture) * levels
    pixels += grain
    return np.clip(pixels, 0, 255, out=pixels).astype(np.uint8)


def _soften_colour(picture: Image.Image) -> Image.Image:
    """Keep brightness sharp and colour at half the resolution, as JPEG files do."""
    brightness, *colours = picture.convert("YCbCr").split()
    half = (max(1, picture.width // 2), max(1, picture.height // 2))
    soft = [
        colour.resize(half, Image.Resampling.BOX).resize(picture.size, Image.Resampling.BILINEAR)
        for colour in colours
    ]
    return Image.merge("YCbCr", (brightness, *soft)).convert("RGB")


def _vignette(size: int, strength: float) -> np.ndarray:
    """One in the middle, ``1 - strength`` in the corners: (size, size, 1)."""
    across = np.linspace(-1, 1, size, dtype=np.float32) ** 2
    return (1 - strength / 2 * (across[:, None] + across[None, :]))[:, :, None]
