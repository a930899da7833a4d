"""Contact sheets: images in a grid, each with its text below, as one image."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from corrhash._files import atomic_write, check_suffix
from corrhash.errors import InputError

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

MARGIN = 8
TEXT_SIZE = 12
TITLE_SIZE = 16
LINE_HEIGHT = 17
INK, PAPER, PLACEHOLDER = "#222222", "#ffffff", "#eeeeee"

SYSTEM_FONTS = ("DejaVuSans.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "arial.ttf")

FILE_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}


def contact_sheet(
    images: Sequence[Any],
    texts: Sequence[str] | None = None,
    *,
    title: str = "",
    columns: int = 6,
    size: int = 144,
    lines: int = 2,
) -> Image.Image:
    """Arrange images in rows of ``columns``, each with up to ``lines`` lines of text below.

    Parameters
    ----------
    images : PIL images or (height, width, 3) arrays. Each is scaled to fit a square of ``size``
        pixels; its aspect ratio is kept.
    texts : one text per image. What does not fit is cut off and marked with an ellipsis.

    Examples
    --------
    >>> contact_sheet(np.zeros((3, 96, 96, 3), np.uint8), ["one", "two", "three"], columns=2).size
    (312, 380)
    """
    if len(images) == 0:
        raise InputError("A contact sheet needs at least one image, got none.")
    if texts is not None and len(texts) != len(images):
        raise InputError(
            f"A contact sheet needs one text per image, got {len(texts)} texts for "
            f"{len(images)} images."
        )
    font = _font(TEXT_SIZE)
    text_height = 0 if texts is None else lines * LINE_HEIGHT
    top = 2 * LINE_HEIGHT if title else 0
    n_rows = -(-len(images) // columns)
    width = columns * (size + MARGIN) + MARGIN
    height = top + n_rows * (size + text_height + MARGIN) + MARGIN
    sheet = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN, MARGIN), title, INK, _font(TITLE_SIZE))
    for i, image in enumerate(images):
        x = MARGIN + i % columns * (size + MARGIN)
        y = top + MARGIN + i // columns * (size + text_height + MARGIN)
        _paste(sheet, image, x, y, size)
        if texts is not None:
            shown = _fit(texts[i], font, size, lines)
            draw.multiline_text((x, y + size + 1), shown, INK, font, spacing=2)
    return sheet


def open_thumbnail(content: bytes | None) -> Image.Image:
    """Decode a thumbnail, or return a grey image for an item that has none."""
    if content is None:
        return Image.new("RGB", (16, 16), PLACEHOLDER)
    with Image.open(io.BytesIO(content)) as image:
        return image.convert("RGB")


def save_sheet(sheet: Image.Image, path: Path) -> None:
    """Write a sheet in the format of its file name: JPEG or PNG."""
    check_sheet_name(path)
    with atomic_write(path) as file:
        sheet.save(file, format=FILE_FORMATS[path.suffix.lower()], quality=90)


def check_sheet_name(path: Path) -> None:
    """Raise an error if :func:`save_sheet` cannot write a file of this name."""
    check_suffix(path, list(FILE_FORMATS), "a contact sheet")


@cache
def _font(size: int) -> Any:
    """Return a font that covers Latin, Greek and Cyrillic letters.

    Pillow's own font covers little beyond ASCII and is the last resort.
    """
    for path in (*_matplotlib_font(), *SYSTEM_FONTS):
        with contextlib.suppress(OSError):  # no such font
            return ImageFont.truetype(path, size)
    return ImageFont.load_default(size)


def _matplotlib_font() -> Iterator[str]:
    """DejaVu Sans as matplotlib ships it, if matplotlib is installed; it need not be imported."""
    spec = find_spec("matplotlib")
    if spec is not None and spec.origin is not None:
        yield str(Path(spec.origin).with_name("mpl-data") / "fonts" / "ttf" / "DejaVuSans.ttf")


def _paste(sheet: Image.Image, image: Any, x: int, y: int, size: int) -> None:
    """Scale an image to fit its cell and paste it at the centre."""
    image = image if isinstance(image, Image.Image) else Image.fromarray(np.asarray(image))
    scale = size / max(image.size)
    width, height = (max(1, round(length * scale)) for length in image.size)
    scaled = image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)
    sheet.paste(scaled, (x + (size - width) // 2, y + (size - height) // 2))


def _fit(text: str, font: Font, width: int, lines: int) -> str:
    """Wrap a text and cut it after ``lines`` lines of at most ``width`` pixels."""
    most = min(len(text), width // 3)  # letters are at least about 3 pixels wide
    for letters in range(most, 4, -1):
        wrapped = textwrap.wrap(text, letters, max_lines=lines, placeholder=" …")
        if all(font.getlength(line) <= width for line in wrapped):
            return "\n".join(wrapped)
    return "\n".join(textwrap.wrap(text, 4, max_lines=lines, placeholder=" …"))
