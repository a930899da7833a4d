"""Uploaded images: decoded under limits, without trusting anything about the file.

Only the pixels are used. The uploaded bytes are neither stored nor served.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from PIL import Image

from corrhash.datasets.images import UNREADABLE, UPLOAD_SIZE, as_rgb, shrink_for_upload, upright
from corrhash.errors import InputError
from corrhash.service.limits import Limits

T = TypeVar("T")

FORMATS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
"""Accepted formats; all others, such as SVG, are rejected before they are parsed."""

MAX_SCANS = 100
"""Scans of a progressive JPEG, each a pass over all pixels; encoders usually write about ten."""

START_OF_IMAGE, START_OF_SCAN = b"\xff\xd8", b"\xff\xda"

BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


class ImageDecoder:
    """Decodes images in worker threads, with a time limit."""

    def __init__(self, limits: Limits, threads: int = 2) -> None:
        self.limits = limits
        self._pool = ThreadPoolExecutor(threads, "corrhash-decode")

    async def decode(self, data: bytes) -> Image.Image:
        """Decode one image."""
        return await self.run(decode_image, data, self.limits)

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function that decodes an image."""
        work = asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        try:
            return await asyncio.wait_for(work, self.limits.timeout)
        except TimeoutError:
            raise InputError(
                f"Decoding the image took longer than {self.limits.timeout:g} s. Use a smaller one."
            ) from None

    def close(self) -> None:
        """Stop the threads, without waiting for the images in progress."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def decode_image(data: bytes, limits: Limits) -> Image.Image:
    """Decode an image file as RGB, upright and no larger than models need."""
    try:
        return _decode(data, limits)
    except InputError:
        raise
    except BOMBS as error:
        raise InputError(too_many_pixels(limits)) from error
    except (*UNREADABLE, MemoryError, RecursionError, AssertionError, AttributeError) as error:
        raise InputError(
            f"Cannot decode the image. Send a complete file in one of: {', '.join(FORMATS)}."
        ) from error


def _decode(data: bytes, limits: Limits) -> Image.Image:
    with Image.open(io.BytesIO(data), formats=list(FORMATS)) as image:
        width, height = image.size  # from the header; nothing is decoded yet
        if width * height > limits.pixels:
            raise InputError(too_many_pixels(limits))
        check_scans(data)
        # A JPEG is decoded at 1/2, 1/4 or 1/8 of its size if that is large enough.
        image.draft(None, (UPLOAD_SIZE, UPLOAD_SIZE))
        image.load()
        return shrink_for_upload(as_rgb(upright(image)))


def check_scans(data: bytes) -> None:
    """Refuse a JPEG of many scans; Pillow reports some JPEGs as another format, MPO."""
    if data.startswith(START_OF_IMAGE) and data.count(START_OF_SCAN) > MAX_SCANS:
        raise InputError(f"The JPEG has more than {MAX_SCANS} scans. Save it as baseline JPEG.")


def too_many_pixels(limits: Limits) -> str:
    """Return the message for images that are too large to decode."""
    return f"The image has more than {limits.pixels:,} pixels. Use a smaller one."
