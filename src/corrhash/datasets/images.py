"""Images: decode any file to an upright RGB image, list image files, make thumbnails."""

from __future__ import annotations

import io
import struct
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from corrhash._files import open_regular
from corrhash.errors import InputError

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
    Image.DecompressionBombWarning,  # this and the next: if warnings are errors
    UserWarning,
)
"""Exceptions that decoders raise for damaged files, depending on the format."""

HEIF_SUFFIXES = (".heic", ".heif", ".hif")
IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".jp2", ".avif"),
    *HEIF_SUFFIXES,
)

DRAFT_SIZE = 1024
"""Large JPEG files are decoded at 1/2, 1/4 or 1/8 scale, but to no fewer pixels a side."""

UPLOAD_SIZE = 1024
"""Longest side of an image that is sent to a service, in pixels."""

THUMBNAIL_SIZE = 256
"""Longest side of an image in a grid of results, in pixels."""

PREVIEW_SIZE = 640
"""Default of the longest side of a stored image, in pixels."""

PREVIEW_BYTES = 48_000
"""Maximum of a stored image of up to 640 pixels; Milvus stores 65,535 bytes, in base64."""

JPEG_QUALITY = 80
LOWEST_QUALITY = 50

BACKGROUND = "white"
"""Colour behind transparent pixels."""

_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")


@cache
def enable_heif() -> bool:
    """Let Pillow decode HEIC and HEIF, if pillow-heif is installed; return whether it is."""
    if find_spec("pillow_heif") is None:
        return False
    from pillow_heif import register_heif_opener

    register_heif_opener()
    return True


def decode_image(file: str | Path | IO[bytes]) -> Image.Image:
    """Decode an image file to RGB, rotated as its EXIF orientation says.

    Animations give their first frame, transparent pixels become white, and 16-bit and floating
    point greys are scaled to 8 bits. Images of more than 179 million pixels are refused, since they
    could exhaust the memory. Raises one of ``UNREADABLE`` if the file cannot be decoded.
    """
    reads_heif = enable_heif()
    if isinstance(file, (str, Path)) and Path(file).suffix.lower() in HEIF_SUFFIXES:
        Path(file).stat()  # a missing file is reported as such
        if not reads_heif:
            raise ValueError("HEIC images need pillow-heif: pip install 'corrhash[heic]'")
    with ExitStack() as opened:
        if isinstance(file, (str, Path)):
            file = opened.enter_context(open_regular(file))
        image = opened.enter_context(Image.open(file))
        image.draft(None, (DRAFT_SIZE, DRAFT_SIZE))  # JPEG only: several times faster
        image.load()
        return as_rgb(upright(image))


def open_image(source: Any) -> Image.Image:
    """Return an RGB image from a path, bytes, a PIL image or a (height, width, 3) uint8 array.

    Files are decoded as in training (:func:`decode_image`).
    """
    if isinstance(source, Image.Image):
        return as_rgb(source)
    if isinstance(source, (str, Path)):
        try:
            return decode_image(source)
        except FileNotFoundError as error:
            raise InputError(f"Image not found: {source}. Check the path.") from error
        except UNREADABLE as error:
            raise InputError(f"Cannot decode the image {source}: {_reason(error)}.") from error
    if isinstance(source, bytes):
        try:
            return decode_image(io.BytesIO(source))
        except UNREADABLE as error:
            raise InputError(f"Cannot decode the image from {len(source):,} bytes.") from error
    array = np.asarray(source)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise InputError(
            "An image must be a path, bytes, a PIL image or a (height, width, 3) uint8 array, got "
            f"shape {array.shape} of {array.dtype}."
        )
    return Image.fromarray(array)


def _reason(error: BaseException) -> str:
    """Return why a file cannot be decoded, without the path, which the message has already."""
    if isinstance(error, UnidentifiedImageError):
        return "unknown image format"
    return str(getattr(error, "strerror", None) or error)


def thumbnail(image: Image.Image, size: int = THUMBNAIL_SIZE, quality: int = JPEG_QUALITY) -> bytes:
    """Return a JPEG of at most ``size`` pixels a side, without metadata."""
    file = io.BytesIO()
    _shrunk(image, size, Image.Resampling.LANCZOS).save(file, "JPEG", quality=quality)
    return file.getvalue()


def preview(image: Image.Image, size: int = PREVIEW_SIZE) -> bytes:
    """Return a JPEG to store: at most ``size`` pixels a side, and 48,000 bytes up to 640 pixels.

    If an image needs more bytes, its quality is reduced, and then its size.
    """
    budget = PREVIEW_BYTES * max(1.0, size / PREVIEW_SIZE) ** 2
    quality = JPEG_QUALITY
    while len(content := thumbnail(image, size, quality)) > budget:
        if quality > LOWEST_QUALITY:
            quality -= 10
        else:
            size = size * 4 // 5
    return content


def shrink_jpeg(content: bytes, size: int = THUMBNAIL_SIZE) -> bytes:
    """Return a JPEG of at most ``size`` pixels a side; one that is small enough stays as it is."""
    with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
        if max(image.size) <= size:
            return content
        image.draft(None, (size, size))
        return thumbnail(image, size)


def shrink_for_upload(image: Image.Image) -> Image.Image:
    """Return an image of at most 1024 pixels a side, without metadata."""
    return _shrunk(image, UPLOAD_SIZE)


def _shrunk(
    image: Image.Image, size: int, filter: Image.Resampling = Image.Resampling.BICUBIC
) -> Image.Image:
    small = image.copy()
    small.thumbnail((size, size), filter)
    small.info.clear()  # comments would be written with the pixels
    return small


def upright(image: Image.Image) -> Image.Image:
    """Rotate an image as its EXIF orientation says."""
    try:
        return ImageOps.exif_transpose(image)
    except UNREADABLE:  # damaged EXIF does not spoil the image
        return image


def as_rgb(image: Image.Image) -> Image.Image:
    """Convert any mode to RGB: transparent pixels become white, deep greys are scaled to 8 bits."""
    if image.mode in _SIXTEEN_BITS:
        return _from_grey(np.asarray(image).astype(np.float32) / 257)
    if image.mode in ("I", "F"):
        return _from_grey(_stretched(np.asarray(image, dtype=np.float32)))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        background = Image.new("RGBA", layer.size, BACKGROUND)
        return Image.alpha_composite(background, layer).convert("RGB")
    return image.convert("RGB")


def _from_grey(values: np.ndarray) -> Image.Image:
    return Image.fromarray(np.clip(values, 0, 255).round().astype(np.uint8)).convert("RGB")


def _stretched(values: np.ndarray) -> np.ndarray:
    """Scale greys of unknown range from their minimum to their maximum."""
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(finite.min()), float(finite.max())
    if low >= 0 and 1 < high <= 255:
        return finite  # eight bits in a wider type
    return (finite - low) * (255 / max(high - low, 1e-12))


MAX_THREADS = 8
AHEAD = 4
"""Images that each thread decodes in advance."""


class ImageFiles:
    """Image files, decoded on access: ``files[i]`` is an RGB image, ``files[rows]`` ImageFiles.

    Iterating decodes in threads, a few images in advance.

    Parameters
    ----------
    paths : the files, one for each row of a dataset.
    rows : their rows in the whole dataset, if these are a subset; used in error messages.
    n_listed : number of rows of the whole dataset, if it lists more than are used.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        rows: Sequence[int] | None = None,
        n_listed: int | None = None,
    ) -> None:
        self.paths = [Path(path) for path in paths]
        self.rows = range(len(self.paths)) if rows is None else rows
        self.n_listed = len(self.paths) if n_listed is None else n_listed

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, (int, np.integer)):
            return _open_row(self.paths[rows], self.rows[int(rows)])
        taken = np.arange(len(self))[rows].tolist()
        paths, of_whole = [self.paths[i] for i in taken], [self.rows[i] for i in taken]
        return ImageFiles(paths, of_whole, self.n_listed)

    def __iter__(self) -> Iterator[Image.Image]:
        with ThreadPoolExecutor(n_threads()) as pool:
            waiting: deque[Future[Image.Image]] = deque()
            try:
                for path, row in zip(self.paths, self.rows, strict=True):
                    waiting.append(pool.submit(_open_row, path, row))
                    if len(waiting) >= AHEAD * n_threads():
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)

    def __repr__(self) -> str:
        return f"ImageFiles({len(self):,} images)"


def n_threads() -> int:
    """Return how many images are decoded in parallel."""
    from joblib import cpu_count

    return min(MAX_THREADS, cpu_count())


def _open_row(path: Path, row: int) -> Image.Image:
    try:
        return decode_image(path)
    except FileNotFoundError as error:
        raise InputError(
            f"Image not found: {path} (row {row}). Check the path or remove the row."
        ) from error
    except UNREADABLE as error:
        raise InputError(
            f"Cannot decode the image {path} (row {row}): {_reason(error)}. Repair it or remove "
            "the row."
        ) from error
