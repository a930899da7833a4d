"""Any picture file as an upright RGB image: odd modes, rotations and large sizes are dealt with."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, ImageOps

UNREADABLE = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    EOFError,
    LookupError,
    OverflowError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,  # this and the next: where warnings are errors
    UserWarning,
)
"""What decoders raise for damaged files; which of them depends on format and damage."""

ENOUGH = 1024
"""Pixels a side that always remain where a large JPEG is decoded at a half, quarter or eighth."""

PAPER = "white"
"""What shines through transparent pictures."""

_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")


def open_picture(file: str | Path | IO[bytes]) -> Image.Image:
    """The picture in a file, named or opened, as RGB, the way up that its camera noted.

    Of animations it is the first frame; transparency shows white; deep greys are brought to eight
    bits. Pictures of more than 179 million pixels are refused, as they may be made to fill the
    memory. Raises one of ``UNREADABLE`` for what is no picture.
    """
    with Image.open(file) as picture:
        picture.draft(None, (ENOUGH, ENOUGH))  # JPEG only: large ones are decoded many times faster
        picture.load()
        return as_rgb(upright(picture))


def upright(picture: Image.Image) -> Image.Image:
    """The way up that the camera noted."""
    try:
        return ImageOps.exif_transpose(picture)
    except UNREADABLE:  # a damaged note of the camera does not spoil the picture
        return picture


def as_rgb(picture: Image.Image) -> Image.Image:
    """Any mode as RGB: transparency shows white, deep greys are brought to eight bits."""
    if picture.mode in _SIXTEEN_BITS:
        return _from_grey(np.asarray(picture).astype(np.float32) / 257)
    if picture.mode in ("I", "F"):
        return _from_grey(_stretched(np.asarray(picture, dtype=np.float32)))
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        paper = Image.new("RGBA", layer.size, PAPER)
        return Image.alpha_composite(paper, layer).convert("RGB")
    return picture.convert("RGB")


def _from_grey(values: np.ndarray) -> Image.Image:
    return Image.fromarray(np.clip(values, 0, 255).round().astype(np.uint8)).convert("RGB")


def _stretched(values: np.ndarray) -> np.ndarray:
    """Greys without a known scale, from their darkest to their lightest."""
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(finite.min()), float(finite.max())
    if low >= 0 and 1 < high <= 255:
        return finite  # eight bits in a wider type
    return (finite - low) * (255 / max(high - low, 1e-12))
