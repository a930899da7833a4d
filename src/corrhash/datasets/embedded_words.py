"""Words that cameras and photo programs write into pictures: IPTC, XMP and EXIF."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL import Image, IptcImagePlugin

from corrhash.datasets.open_picture import UNREADABLE

# IPTC: record 2 of the standard.
_IPTC_TITLE, _IPTC_KEYWORDS, _IPTC_CAPTION = (2, 5), (2, 25), (2, 120)

# EXIF: the description, and what Windows writes, in UTF-16.
_EXIF_DESCRIPTION = 0x010E
_EXIF_TITLE, _EXIF_KEYWORDS = 0x9C9B, 0x9C9E

_DC = "{http://purl.org/dc/elements/1.1/}"
_ITEM = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li"


@dataclass(frozen=True)
class EmbeddedWords:
    """What a picture says of itself: sentences (titles, descriptions) and keywords."""

    captions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it in one string; nothing twice."""
        return " ".join(dict.fromkeys((*self.captions, *self.keywords)))


def embedded_words(path: str | Path) -> EmbeddedWords:
    """The words in a picture file; none if it has none or cannot be read."""
    try:
        with Image.open(path) as picture:
            all_words = [*_iptc(picture), *_xmp(picture), *_exif(picture)]
    except UNREADABLE:
        return EmbeddedWords()
    found = [(kind, " ".join(text.split())) for kind, text in all_words]
    captions, keywords = (
        tuple(dict.fromkeys(text for which, text in found if which == kind and text))
        for kind in ("caption", "keyword")
    )
    return EmbeddedWords(captions, keywords)


def _iptc(picture: Any) -> Iterator[tuple[str, str]]:
    try:
        entries = IptcImagePlugin.getiptcinfo(picture) or {}
    except UNREADABLE:
        return
    kinds = {_IPTC_TITLE: "caption", _IPTC_CAPTION: "caption", _IPTC_KEYWORDS: "keyword"}
    for place, kind in kinds.items():
        values: Any = entries.get(place, [])
        for value in values if isinstance(values, list) else [values]:
            yield kind, _decoded(value)


def _xmp(picture: Image.Image) -> Iterator[tuple[str, str]]:
    packet = picture.info.get("xmp", b"")
    packet = packet.encode() if isinstance(packet, str) else packet
    packet = packet.rstrip(b"\x00 \t\r\n")
    if not packet or b"<!DOCTYPE" in packet or b"<!ENTITY" in packet:  # entities can explode
        return
    try:
        tree = ElementTree.fromstring(packet)
    except ElementTree.ParseError:
        return
    for name, kind in (("title", "caption"), ("description", "caption"), ("subject", "keyword")):
        for element in tree.iter(f"{_DC}{name}"):
            yield from ((kind, item.text or "") for item in element.iter(_ITEM))


def _exif(picture: Image.Image) -> Iterator[tuple[str, str]]:
    try:
        tags = picture.getexif()
    except UNREADABLE:
        return
    yield "caption", str(tags.get(_EXIF_DESCRIPTION, "")).replace("\x00", "")
    yield "caption", _utf16(tags.get(_EXIF_TITLE, b""))
    for keyword in _utf16(tags.get(_EXIF_KEYWORDS, b"")).split(";"):
        yield "keyword", keyword


def _decoded(value: bytes) -> str:
    """UTF-8 or, from older programs, Latin-1."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _utf16(value: Any) -> str:
    content = bytes(value) if isinstance(value, (bytes, tuple)) else b""
    return content.decode("utf-16-le", "ignore").rstrip("\x00")
