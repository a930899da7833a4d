"""Contact sheets: pictures in a grid with words beneath, as one picture."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from corrhash.atomic_write import atomic_write
from corrhash.errors import InputError

GAP = 8
TEXT_SIZE = 13
LINE = 17
INK, PAPER, NOTHING = "#222222", "#ffffff", "#eeeeee"


def contact_sheet(
    pictures: Sequence[Any],
    texts: Sequence[str] | None = None,
    *,
    title: str = "",
    columns: int = 6,
    side: int = 144,
    lines: int = 2,
) -> Image.Image:
    """Pictures in rows of ``columns``, each ``side`` pixels, with its text in some lines beneath.

    Pictures are PIL images or (height, width, 3) arrays; they keep their shape.

    >>> contact_sheet(np.zeros((3, 96, 96, 3), np.uint8), ["one", "two", "three"], columns=2).size
    (312, 380)
    """
    if len(pictures) == 0:
        raise InputError("A contact sheet needs at least one picture. Got none.")
    if texts is not None and len(texts) != len(pictures):
        raise InputError(f"Give one text a picture. Got {len(texts)} for {len(pictures)} pictures.")
    font = ImageFont.load_default(TEXT_SIZE)
    below = 0 if texts is None else lines * LINE
    top = 2 * LINE if title else 0
    n_rows = -(-len(pictures) // columns)
    width, height = columns * (side + GAP) + GAP, top + n_rows * (side + below + GAP) + GAP
    sheet = Image.new("RGB", (width, height), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((GAP, GAP), title, INK, ImageFont.load_default(TEXT_SIZE + 4))
    for i, picture in enumerate(pictures):
        left = GAP + i % columns * (side + GAP)
        upper = top + GAP + i // columns * (side + below + GAP)
        _paste(sheet, picture, left, upper, side)
        if texts is not None:
            shown = _fit(texts[i], font, side, lines)
            pen.multiline_text((left, upper + side + 1), shown, INK, font, spacing=2)
    return sheet


def small_picture(content: bytes | None) -> Image.Image:
    """A thumbnail as a picture; a grey one for an item that has none."""
    if content is None:
        return Image.new("RGB", (16, 16), NOTHING)
    with Image.open(io.BytesIO(content)) as picture:
        return picture.convert("RGB")


def save_sheet(sheet: Image.Image, path: Path) -> None:
    """Write a sheet as JPEG or PNG, after the ending of the name."""
    kinds = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"A sheet is written as {', '.join(kinds)}. Got {path.name!r}.")
    with atomic_write(path) as file:
        sheet.save(file, format=kind, quality=90)


def _paste(sheet: Image.Image, picture: Any, left: int, upper: int, side: int) -> None:
    """Put a picture into the middle of its cell, as large as it fits."""
    picture = picture if isinstance(picture, Image.Image) else Image.fromarray(np.asarray(picture))
    scale = side / max(picture.size)
    size = [max(1, round(length * scale)) for length in picture.size]
    small = picture.convert("RGB").resize((size[0], size[1]), Image.Resampling.LANCZOS)
    sheet.paste(small, (left + (side - size[0]) // 2, upper + (side - size[1]) // 2))


def _fit(text: str, font: Any, side: int, lines: int) -> str:
    """As much of a text as fits into some lines of a cell."""
    letters = max(4, int(side / (font.getlength("abcdefghij mnop") / 15)))
    return "\n".join(textwrap.wrap(text, letters, max_lines=lines, placeholder=" …"))
