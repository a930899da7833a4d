"""Record: a picture, a text or both on their way into a collection."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from corrhash.datasets.base import PairedDataset
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.open_picture import UNREADABLE, as_rgb
from corrhash.datasets.open_picture import open_picture as open_file
from corrhash.errors import InputError
from corrhash.filters import RESERVED, Value
from corrhash.index.item import Item

THUMBNAIL = 256
"""Pixels of the longer side."""

QUALITY = 80

SENT = 1024
"""Pixels of the longer side of pictures that are sent: models look at far smaller ones."""


@dataclass(frozen=True, eq=False)
class Record:
    """One item to add: a picture, a text or both, under a name.

    Parameters
    ----------
    key : its name, unique in the collection; the path of the picture by default.
    image : a path, the bytes of a picture file, an opened picture, an (height, width, 3) array of
        uint8, or the feature vector that the model reads.
    text : a caption, or tags with spaces between.
    words : the word occurrences that the model reads, where there is no text but these.
    labels : names of what it shows.
    metadata : more fields to filter by: texts, numbers and truths.
    picture : what to show where ``image`` is a feature vector; a path, bytes or an opened picture.

    Examples
    --------
    >>> Record(image="photos/dog.jpg", labels=["dog"]).key
    'photos/dog.jpg'
    """

    key: str = ""
    image: Any = None
    text: str = ""
    words: Any = None
    labels: Sequence[str] = ()
    metadata: Mapping[str, Value] = field(default_factory=dict)
    picture: Any = None

    def __post_init__(self) -> None:
        if self.image is None and not self.text and self.words is None:
            raise InputError(f"An item needs a picture or a text. Got neither for {self.key!r}.")
        if not self.key and not self.path:
            raise InputError(
                "An item needs a key, by which it is known. Give one; only pictures from files "
                "have a key by themselves, their path."
            )
        object.__setattr__(self, "key", self.key or self.path)
        self.item()  # refuses what cannot be kept, before any work is done

    @property
    def path(self) -> str:
        """Where the picture came from, if it is a file."""
        shown = self.image if self.picture is None else self.picture
        return str(shown) if isinstance(shown, (str, Path)) else ""

    @property
    def is_vector(self) -> bool:
        """Whether the image is a feature vector."""
        return getattr(self.image, "ndim", 0) == 1

    def item(self, **more: Any) -> Item:
        """What is kept of it beside codes."""
        return Item(self.key, self.text, self.labels, self.metadata, self.path, **more)

    def stamp(self) -> str:
        """Changes when the record does: by it a repeated add knows what it has done before.

        A file is known by its path, its size and the time of its last change, as build tools know
        it: reading every byte would take as long as encoding does.
        """
        digest = hashlib.sha256()
        plain = self.item()  # numbers of numpy as those of Python
        about = [plain.text, list(plain.labels), sorted(plain.metadata.items())]
        digest.update(json.dumps(about).encode())
        for part in (self.image, self.picture, self.words):
            digest.update(_state(part))
        return digest.hexdigest()[:32]


@dataclass(frozen=True)
class Unusable:
    """An item that a source found but could not read, and why."""

    key: str
    reason: str


def as_record(value: Record | Mapping[str, Any]) -> Record:
    """A record from a dictionary of its fields; records pass through."""
    if isinstance(value, Record):
        return value
    names = [each.name for each in fields(Record)]
    if not isinstance(value, Mapping) or set(value) - set(names):
        seen = sorted(set(value) - set(names)) if isinstance(value, Mapping) else value
        raise InputError(
            f"An item is a dictionary with some of: {', '.join(names)}. Got {seen!r}. Put other "
            "fields into metadata."
        )
    return Record(**value)


def pair_records(pairs: PairedDataset, shown: PairedDataset | None = None) -> Iterator[Record]:
    """The items of a dataset as records.

    ``shown`` are the same items before a reader made vectors of them: pictures and strings.
    """
    raw = pairs if shown is None else shown
    keys = pairs.row_keys()
    for row in range(len(pairs)):
        text = raw.texts[row] if isinstance(raw.texts, list) else ""
        extra = raw.items[row] if raw.items is not None else {}
        yield Record(
            keys[row],
            _image_of(pairs, row),
            text,
            words=None if isinstance(pairs.texts, list) else pairs.texts[[row]],
            labels=_labels_of(raw, row),
            metadata={name: v for name, v in extra.items() if name not in RESERVED},
            picture=None if is_vectors(raw.images) else _image_of(raw, row),
        )


def _image_of(pairs: PairedDataset, row: int) -> Any:
    files = isinstance(pairs.images, ImageFiles)
    return pairs.images.paths[row] if files else pairs.images[row]


def _labels_of(pairs: PairedDataset, row: int) -> list[str]:
    if pairs.labels is None or not len(pairs.label_names):
        return []
    columns = pairs.labels[[row]].nonzero()[1]
    return [pairs.label_names[column] for column in columns]


def is_vectors(images: Any) -> bool:
    """Whether images are feature vectors rather than pictures."""
    return getattr(images, "ndim", 0) == 2


def open_picture(source: Any) -> Image.Image:
    """A picture as RGB from a path, bytes, an opened picture or an array.

    Files are read as in training: upright, transparency on white, deep greys in eight bits.
    """
    if isinstance(source, Image.Image):
        return as_rgb(source)
    if isinstance(source, (str, Path)):
        try:
            return open_file(source)
        except FileNotFoundError as error:
            raise InputError(f"There is no picture {source}. Check the path.") from error
        except UNREADABLE as error:
            raise InputError(f"Cannot read the picture {source}: {error}. Repair it.") from error
    if isinstance(source, bytes):
        try:
            return open_file(io.BytesIO(source))
        except UNREADABLE as error:
            raise InputError(
                f"Its {len(source):,} bytes are no picture, or a damaged one. Repair it."
            ) from error
    array = np.asarray(source)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise InputError(
            "A picture is a path, an opened image or an (height, width, 3) array of uint8. "
            f"Got shape {array.shape} of {array.dtype}."
        )
    return Image.fromarray(array)


def as_sent(picture: Image.Image) -> Image.Image:
    """The pixels of a picture alone, not more of them than a service looks at."""
    pixels = picture.copy()
    pixels.thumbnail((SENT, SENT))
    pixels.info.clear()  # comments of cameras and people
    return pixels


def thumbnail(picture: Image.Image) -> bytes:
    """A small JPEG, at most 256 pixels wide and high."""
    small = picture.copy()
    small.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
    small.info.clear()  # a comment in the file would be written along
    file = io.BytesIO()
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def _state(part: Any) -> bytes:
    """What changes when a picture or a vector does."""
    if part is None:
        return b""
    if isinstance(part, bytes):
        return hashlib.sha256(part).digest()
    if isinstance(part, (str, Path)):
        try:
            status = Path(part).stat()
        except OSError:
            return b"missing"  # opening it tells what is wrong
        return f"{Path(part).absolute()} {status.st_size} {status.st_mtime_ns}".encode()
    if hasattr(part, "toarray"):  # a sparse row
        part = part.toarray()
    array = np.asarray(part)
    return f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes()
