"""Folders of images with captions beside them, inside them, or in their file names."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL import Image, IptcImagePlugin

from corrhash._files import is_regular, open_regular, read_lines
from corrhash._progress import report
from corrhash.datasets.base import RetrievalSplit
from corrhash.datasets.formats.base import (
    EVERYTHING,
    RecordStream,
    Shard,
    split_records,
    training_records,
)
from corrhash.datasets.images import IMAGE_SUFFIXES, UNREADABLE
from corrhash.datasets.records import Record, UnreadableRecord
from corrhash.errors import InputError

CAPTION_SUFFIXES = (".txt", ".TXT", ".Txt")
SHOWN = 3
CAPTIONS = ("auto", "beside", "inside", "names")
LABELS = ("none", "folders", "keywords")

# Parts of file names that cameras and phones assign, and that describe nothing.
_CAMERA = re.compile(r"img|dsc[nf]?|dcim|pict?|mvimg|pxl|image|photo|screenshot|wa|p|vid", re.I)
REPORT_EVERY = 200

log = logging.getLogger("corrhash")


def load(
    path: str | Path,
    seed: int = 0,
    *,
    captions: str = "auto",
    labels: str = "none",
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """Load the images in a folder and its subfolders for training.

    Parameters
    ----------
    path : the folder.
    seed : of the split.
    captions : ``beside`` (a ``.txt`` file of the same name), ``inside`` (IPTC, XMP or EXIF),
        ``names`` (of the file or, if it has no words, of its folders), or ``auto``, the first of
        these that an image has.
    labels : ``none``, ``folders`` (the names of its parent folders), or ``keywords`` (embedded in
        the image).
    n_query, n_validation, n_train : sizes of the split.
    """
    path = Path(path)
    stream = read(path, captions=captions, labels=labels)
    for line in folder_content(path).lines():
        log.info("%s", line)
    records = []
    for record in training_records(_readable(stream.records), path):
        records.append(record)
        if len(records) % REPORT_EVERY == 0 or len(records) == stream.total:
            report("Reading captions", len(records), stream.total or 0)
    if not any(record.text for record in records):
        raise InputError(
            f"No text found for any of the {len(records):,} images in {path}. Add a caption file "
            "next to each image (boat.txt for boat.jpg), embed keywords in the images, list the "
            "images and their texts in a table, or search without captions or training: corrhash "
            "index COLLECTION FOLDER --encoder NAME."
        )
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    return split_records(records, path, path.resolve().name, seed, sizes)


def _readable(records: Iterator[Record | UnreadableRecord]) -> Iterator[Record]:
    """Yield records that can be read, and log the others."""
    for record in records:
        if isinstance(record, UnreadableRecord):
            log.warning("Skipping %s: %s", record.key, record.reason)
        else:
            yield record


def read(
    path: Path, shard: Shard = EVERYTHING, *, captions: str = "auto", labels: str = "none"
) -> RecordStream:
    """Stream the images in a folder and its subfolders; the parameters are those of :func:`load`.

    A shard is every ``count``-th image.
    """
    for name, value, known in (("captions", captions, CAPTIONS), ("labels", labels, LABELS)):
        if value not in known:
            raise InputError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
    files = image_files(path)
    if not files:
        raise InputError(
            f"No images found in {path} ({', '.join(IMAGE_SUFFIXES)}). Check the folder."
        )
    records = (_record(path, file, captions, labels) for file in shard.select(files))
    return RecordStream(records, shard.size(len(files)))


def image_files(folder: Path) -> list[Path]:
    """Return the images in a folder and its subfolders, sorted by path; hidden ones are skipped."""
    files = (
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in IMAGE_SUFFIXES
        and not _is_hidden(file, folder)
        and is_regular(file)
    )
    return sorted(files, key=lambda file: file.relative_to(folder).as_posix())


def _record(folder: Path, file: Path, captions: str, labels: str) -> Record | UnreadableRecord:
    try:
        str(file).encode()
    except UnicodeEncodeError:
        shown = ascii(file.relative_to(folder).as_posix())
        return UnreadableRecord(shown, "Its name or folder is not UTF-8. Rename it.")
    needed = {captions, labels} & {"auto", "inside", "keywords"}
    embedded = embedded_text(file) if needed else EmbeddedText()
    name = file.relative_to(folder)
    key = unicodedata.normalize("NFC", name.as_posix())
    named = {"none": (), "folders": name.parts[:-1], "keywords": embedded.keywords}[labels]
    try:
        text = _text(file, captions, embedded, name.parts[:-1])
        return Record(key, file, text, labels=list(named))
    except InputError as error:
        return UnreadableRecord(ascii(key), str(error))


def _text(file: Path, captions: str, embedded: EmbeddedText, folders: Sequence[str]) -> str:
    if captions in ("auto", "beside"):
        beside = caption_file(file)
        text = "" if beside is None else " ".join(read_lines(beside)).strip()
        if text or captions == "beside":
            return text
    if captions in ("auto", "inside") and (embedded.text or captions == "inside"):
        return embedded.text
    return words_in_name(file.stem) or words_in_name(" ".join(folders))


def caption_file(image: Path) -> Path | None:
    """Return the caption file of an image, which has its name and ends in .txt or .TXT."""
    names = (image.with_suffix(suffix) for suffix in CAPTION_SUFFIXES)
    return next((path for path in names if is_regular(path)), None)


@dataclass(frozen=True)
class FolderContent:
    """The files of a folder by what becomes of them.

    Parameters
    ----------
    n_images : files that are read as images.
    n_captions : images with a caption file.
    empty_captions : caption files without any text.
    lone_captions : text files that belong to no image.
    others : files of other kinds, which are not read.
    n_hidden : files whose name, or a folder of theirs, starts with a dot.
    """

    n_images: int
    n_captions: int
    empty_captions: tuple[Path, ...]
    lone_captions: tuple[Path, ...]
    others: tuple[Path, ...]
    n_hidden: int

    def lines(self) -> Iterator[str]:
        """Yield a sentence on the images, and one on each kind of file that is not read."""
        captions = f", {self.n_captions:,} with a caption file" if self.n_captions else ""
        yield f"Folder: {self.n_images:,} images{captions}."
        if self.empty_captions:
            yield f"Empty caption files: {_some(self.empty_captions)}."
        if self.lone_captions:
            yield f"Not read, texts without an image of their name: {_some(self.lone_captions)}."
        if self.others:
            kinds = Counter(path.suffix.lower() or "no suffix" for path in self.others)
            counts = ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())
            yield f"Not read, no known image format: {counts} ({_some(self.others)})."
        if self.n_hidden:
            yield f"Not read, hidden files: {self.n_hidden:,}."


def _some(paths: Sequence[Path]) -> str:
    """Return the number of files and the names of the first ones."""
    names = ", ".join(path.name for path in paths[:SHOWN])
    return f"{len(paths):,}, such as {names}" if len(paths) > SHOWN else names


def folder_content(folder: Path) -> FolderContent:
    """Return what becomes of every file in a folder and its subfolders."""
    images = image_files(folder)
    beside = [found for found in map(caption_file, images) if found is not None]
    used = {*images, *beside}
    files = sorted(path for path in folder.rglob("*") if is_regular(path) and path not in used)
    hidden = [path for path in files if _is_hidden(path, folder)]
    rest = [path for path in files if not _is_hidden(path, folder)]
    return FolderContent(
        n_images=len(images),
        n_captions=len(beside),
        empty_captions=tuple(path for path in beside if not path.read_bytes().strip()),
        lone_captions=tuple(path for path in rest if path.suffix.lower() == ".txt"),
        others=tuple(path for path in rest if path.suffix.lower() != ".txt"),
        n_hidden=len(hidden),
    )


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def words_in_name(stem: str) -> str:
    """Return the words in a file name, without numbers and prefixes of cameras.

    >>> words_in_name("IMG_2041_red-boat at sea (2)")
    'red boat at sea'
    """
    words = re.findall(r"[^\W\d_]+", stem)
    return " ".join(word for word in words if not _CAMERA.fullmatch(word))


@dataclass(frozen=True)
class EmbeddedText:
    """Captions (titles and descriptions) and keywords inside an image file."""

    captions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it in one string, without repetitions."""
        return " ".join(dict.fromkeys((*self.captions, *self.keywords)))


def embedded_text(path: str | Path) -> EmbeddedText:
    """Read IPTC, XMP and EXIF text of an image; empty if the file cannot be read."""
    try:
        with open_regular(path) as file, Image.open(file) as image:
            entries = [*_iptc(image), *_xmp(image), *_exif(image)]
    except UNREADABLE:
        return EmbeddedText()
    found = [(kind, " ".join(text.split())) for kind, text in entries]
    captions, keywords = (
        tuple(dict.fromkeys(text for which, text in found if which == kind and text))
        for kind in ("caption", "keyword")
    )
    return EmbeddedText(captions, keywords)


_IPTC_TITLE, _IPTC_KEYWORDS, _IPTC_CAPTION = (2, 5), (2, 25), (2, 120)
_EXIF_DESCRIPTION = 0x010E
_EXIF_TITLE, _EXIF_KEYWORDS = 0x9C9B, 0x9C9E  # written by Windows, in UTF-16
_DC = "{http://purl.org/dc/elements/1.1/}"
_ITEM = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li"


def _iptc(image: Any) -> Iterator[tuple[str, str]]:
    try:
        entries = IptcImagePlugin.getiptcinfo(image) or {}
    except UNREADABLE:
        return
    kinds = {_IPTC_TITLE: "caption", _IPTC_CAPTION: "caption", _IPTC_KEYWORDS: "keyword"}
    for record, kind in kinds.items():
        values: Any = entries.get(record, [])
        for value in values if isinstance(values, list) else [values]:
            yield kind, _decoded(value)


def _xmp(image: Image.Image) -> Iterator[tuple[str, str]]:
    packet = image.info.get("xmp", b"")
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


def _exif(image: Image.Image) -> Iterator[tuple[str, str]]:
    try:
        tags = image.getexif()
    except UNREADABLE:
        return
    yield "caption", str(tags.get(_EXIF_DESCRIPTION, "")).replace("\x00", "")
    yield "caption", _utf16(tags.get(_EXIF_TITLE, b""))
    for keyword in _utf16(tags.get(_EXIF_KEYWORDS, b"")).split(";"):
        yield "keyword", keyword


def _decoded(value: bytes) -> str:
    """Decode UTF-8 or, from older programs, Latin-1."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _utf16(value: Any) -> str:
    content = bytes(value) if isinstance(value, (bytes, tuple)) else b""
    return content.decode("utf-16-le", "ignore").rstrip("\x00")
