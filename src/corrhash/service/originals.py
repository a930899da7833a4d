"""Original image files: opened below the root of a collection only, and resized on request."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from corrhash.datasets.images import UNREADABLE, as_rgb, enable_heif, thumbnail, upright
from corrhash.errors import InputError
from corrhash.service.limits import Limits
from corrhash.service.uploads import BOMBS, FORMATS, check_scans, too_many_pixels

SHOWN = {**FORMATS, "MPO": "image/jpeg", "AVIF": "image/avif"}
"""Formats that browsers show, with their media types; their files are sent as they are."""

CONVERTED = ("TIFF", "BMP", "JPEG2000", "HEIF")
"""Formats that are sent as JPEG. All others are refused, and so is everything but images."""

SIZES = (64, 4096)
"""Smallest and largest longest side that a client can request, in pixels."""

CONVERTED_SIZE = 2048
QUALITY = 85

JPEG_SCALE = 4
"""JPEGs can have this many times more pixels, since they are decoded at a reduced size."""

CHUNK = 1 << 18


class NotServedError(Exception):
    """A file that is missing, outside of the root, not a regular file or not an image."""


@dataclass(frozen=True)
class Original:
    """An open image file; ``media_type`` is None if it has to be converted to be shown."""

    file: BinaryIO
    name: str
    n_bytes: int
    modified: int
    media_type: str | None

    def tag(self, size: int | None) -> str:
        """Return an ETag that changes with the file and the requested size."""
        return f'"{self.modified:x}-{self.n_bytes:x}-{size or 0}"'

    def chunks(self) -> Iterator[bytes]:
        """Yield the content and close the file; bytes that are appended meanwhile do not count."""
        with self.file:
            left = self.n_bytes
            while left > 0 and (chunk := self.file.read(min(CHUNK, left))):
                left -= len(chunk)
                yield chunk

    def resized(self, size: int, limits: Limits) -> bytes:
        """Return a JPEG of at most ``size`` pixels a side, without metadata; close the file."""
        with self.file:
            if self.n_bytes > limits.original:
                raise InputError(f"The image has more than {limits.original:,} bytes.")
            data = self.file.read(limits.original)
        try:
            return _resize(data, size, limits)
        except BOMBS as error:
            raise InputError(too_many_pixels(limits)) from error
        except (*UNREADABLE, MemoryError, RecursionError, AssertionError, AttributeError) as error:
            raise InputError("The image cannot be decoded.") from error


def _resize(data: bytes, size: int, limits: Limits) -> bytes:
    with Image.open(io.BytesIO(data), formats=_formats()) as image:
        if image.width * image.height > JPEG_SCALE * limits.pixels:
            raise InputError(too_many_pixels(limits))
        image.draft(None, (size, size))  # JPEG only, to 1/2, 1/4 or 1/8
        if image.width * image.height > limits.pixels:
            raise InputError(too_many_pixels(limits))
        check_scans(data)
        image.load()
        return thumbnail(as_rgb(upright(image)), size, QUALITY)


def open_original(root: Path, path: str) -> Original:
    """Open the image file of an item.

    Raises NotServedError for everything that is not an image in a regular file below ``root``.
    """
    try:
        file = open_below(root, path)
    except (OSError, ValueError) as error:
        raise NotServedError(path) from error
    try:
        status = os.fstat(file.fileno())
        with Image.open(file, formats=_formats()) as image:  # reads the header only
            format = image.format or ""
        file.seek(0)
    except (*UNREADABLE, RecursionError, AssertionError, AttributeError) as error:
        file.close()
        raise NotServedError(path) from error
    name = Path(path).name
    return Original(file, name, status.st_size, status.st_mtime_ns, SHOWN.get(format))


def _formats() -> list[str]:
    Image.init()
    enable_heif()
    return [name for name in (*SHOWN, *CONVERTED) if name in Image.OPEN]


def open_below(root: Path, path: str) -> BinaryIO:
    """Open a regular file below a folder; raise OSError or ValueError for anything else.

    Links that stay below the folder are resolved first. Then each folder is opened relative to the
    one before, without following links, so that a link that is created meanwhile is not followed.
    """
    base = Path(os.path.realpath(root))
    parts = Path(os.path.realpath(base / path)).relative_to(base).parts
    if not parts:
        raise ValueError("the root itself")
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    folder = os.open(base, flags | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            deeper = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = deeper
        _check_regular(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False))
        # Opening a FIFO would wait for a writer.
        opened = os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    file = os.fdopen(opened, "rb")
    try:
        _check_regular(os.fstat(opened))
    except ValueError:
        file.close()
        raise
    return file


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("not a regular file")


def check_originals(root: str) -> None:
    """Raise an error if the files of a collection cannot be served from its root."""
    if os.open not in os.supports_dir_fd:
        raise InputError("--originals needs Linux or macOS. Start the service without it.")
    if not root or not Path(root).is_dir():
        raise InputError(
            f"--originals needs the folder of the images, got {root or 'none'!r}, which does not "
            "exist. Set it with corrhash update COLLECTION --root FOLDER."
        )
