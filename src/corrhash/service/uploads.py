"""Uploads: bytes from anywhere become pixels, under limits, or a sentence that says why not.

Only the pixels are used. The bytes that came are neither kept nor handed to anybody.
"""

from __future__ import annotations

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor

from PIL import Image

from corrhash.datasets.open_picture import UNREADABLE, as_rgb, upright
from corrhash.errors import InputError
from corrhash.records import SENT, as_sent
from corrhash.service.limits import Limits

FORMATS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
"""What is decoded; all else, SVG above all, is refused before anything of it is read."""

SCANS = 100
"""Passes of a progressive JPEG, each of which visits all pixels; cameras and programs write ten."""

START_OF_SCAN = b"\xff\xda"

BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


class Decoder:
    """Reads pictures beside the event loop, a few at a time, and gives up on slow ones."""

    def __init__(self, limits: Limits, threads: int = 2) -> None:
        self.limits = limits
        self._pool = ThreadPoolExecutor(threads, "corrhash-decode")

    async def read(self, data: bytes) -> Image.Image:
        """The picture in an upload."""
        work = asyncio.get_running_loop().run_in_executor(
            self._pool, read_picture, data, self.limits
        )
        try:
            return await asyncio.wait_for(work, self.limits.seconds)
        except TimeoutError:
            raise InputError(
                f"Decoding the picture takes longer than {self.limits.seconds:g} s. Make it "
                "smaller, or save it again."
            ) from None

    def close(self) -> None:
        """Finish what is under way, and take nothing more."""
        self._pool.shutdown()


def read_picture(data: bytes, limits: Limits) -> Image.Image:
    """The picture in an upload as RGB, upright and not larger than models need."""
    try:
        return _decoded(data, limits)
    except InputError:
        raise
    except BOMBS as error:
        raise InputError(_too_many(limits)) from error
    except (*UNREADABLE, MemoryError, RecursionError, AssertionError, AttributeError) as error:
        names = ", ".join(FORMATS)
        raise InputError(
            f"This is no picture that can be read. Send a whole file in one of: {names}."
        ) from error


def _decoded(data: bytes, limits: Limits) -> Image.Image:
    with Image.open(io.BytesIO(data), formats=list(FORMATS)) as picture:
        width, height = picture.size  # as the file says: nothing is decoded yet
        if width * height > limits.pixels:
            raise InputError(_too_many(limits))
        if picture.format == "JPEG" and data.count(START_OF_SCAN) > SCANS:
            raise InputError(f"A JPEG has at most {SCANS} scans here. Save the picture again.")
        picture.draft(None, (SENT, SENT))  # JPEG only: decoded at a half, quarter or eighth
        picture.load()
        return as_sent(as_rgb(upright(picture)))


def _too_many(limits: Limits) -> str:
    return f"A picture has at most {limits.pixels:,} pixels here. Make it smaller."
