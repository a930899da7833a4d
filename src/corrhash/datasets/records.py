"""Record: an image, a text or both, as file formats yield it and a collection stores it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import content_checksum
from corrhash.codes import Codes
from corrhash.datasets.base import PairedDataset, is_vectors
from corrhash.datasets.images import ImageFiles
from corrhash.errors import InputError
from corrhash.index.filters import RESERVED, Value
from corrhash.index.items import Item

LABEL_SEPARATORS = re.compile(r"[|;,]")


@dataclass(frozen=True, eq=False)
class Record:
    """One item: an image, a text or both, under a key.

    Parameters
    ----------
    key : identifier, unique in a collection. Defaults to the path of the image.
    image : a path, the bytes of an image file, a PIL image, an (height, width, 3) uint8 array, or
        the feature vector that the model reads.
    text : a caption, or tags separated by spaces.
    term_vector : the term occurrences that the model reads, for items without a text.
    labels : class names, as a sequence or as one string separated by ``|``, ``;`` or ``,``.
    metadata : further fields to filter by: strings, numbers and booleans.
    preview : image to show when ``image`` is a feature vector: a path, bytes or a PIL image.
    image_code, text_code : ready codes, stored as they are instead of encoding the image or the
        text: hexadecimal digits, ``Codes`` with one row, or an array of -1 and 1, 0 and 1, or real
        numbers, which are binarized by their sign.

    Examples
    --------
    >>> Record(image="photos/dog.jpg", labels="dog|beach").labels
    ['dog', 'beach']
    """

    key: str = ""
    image: Any = None
    text: str = ""
    term_vector: Any = None
    labels: Sequence[str] = ()
    metadata: Mapping[str, Value] = field(default_factory=dict)
    preview: Any = None
    image_code: Any = None
    text_code: Any = None

    def __post_init__(self) -> None:
        given = self.image, self.text or None, self.term_vector, self.image_code, self.text_code
        if all(value is None for value in given):
            raise InputError(f"An item needs an image or a text, got neither for {self.key!r}.")
        for name in ("image_code", "text_code"):
            object.__setattr__(self, name, _as_code(getattr(self, name), f"{name} of {self.key!r}"))
        if not self.key and not self.path:
            raise InputError(
                "An item needs a key. Only images read from files have a default key, their path."
            )
        object.__setattr__(self, "key", self.key or self.path)
        if isinstance(self.labels, str):
            object.__setattr__(self, "labels", parse_labels(self.labels))
        self.item()  # validates every field before any work is done

    @property
    def path(self) -> str:
        """Path of the image, if it is a file."""
        shown = self.image if self.preview is None else self.preview
        return str(shown) if isinstance(shown, (str, Path)) else ""

    @property
    def is_vector(self) -> bool:
        """Whether the image is a feature vector."""
        return getattr(self.image, "ndim", 0) == 1

    def item(self, **more: Any) -> Item:
        """Return what an index stores beside the codes."""
        return Item(self.key, self.text, self.labels, self.metadata, self.path, **more)

    def merge(self, other: Record) -> Record:
        """Return this record with the text, labels and further metadata of another one added."""
        return replace(
            self,
            image=other.image if self.image is None else self.image,
            text=" ".join(text for text in (self.text, other.text) if text),
            labels=list(dict.fromkeys((*self.labels, *other.labels))),
            metadata={**other.metadata, **self.metadata},
            preview=other.preview if self.preview is None else self.preview,
            image_code=other.image_code if self.image_code is None else self.image_code,
            text_code=other.text_code if self.text_code is None else self.text_code,
        )

    def stamp(self, path: str) -> str:
        """Return a digest that changes when the record does, so unchanged items can be skipped.

        The part before the colon covers text, labels and metadata, the other part the image. A
        file is identified by ``path``, size and modification time, as build tools do.
        """
        item = self.item()  # converts NumPy scalars to Python numbers
        about = [item.text, list(item.labels), sorted(item.metadata.items())]
        described = hashlib.sha256(json.dumps(about).encode())
        for value in (self.term_vector, self.text_code):
            described.update(_state(value))
        image = hashlib.sha256(path.encode())
        for value in (self.image, self.preview, self.image_code):
            image.update(_state(value))
        return f"{described.hexdigest()[:16]}:{image.hexdigest()[:16]}"

    def content(self) -> str:
        """Return a checksum of the image file, wherever it lies; empty for images in memory."""
        if not isinstance(self.image, (str, Path, bytes)):
            return ""
        try:
            return content_checksum(Path(self.image) if isinstance(self.image, str) else self.image)
        except OSError:
            return ""  # opening the file reports the reason


@dataclass(frozen=True)
class UnreadableRecord:
    """An item that a file lists but that cannot be read, with the reason."""

    key: str
    reason: str


def as_record(value: Record | Mapping[str, Any]) -> Record:
    """Build a record from a dictionary of its fields; records pass through."""
    if isinstance(value, Record):
        return value
    names = [each.name for each in fields(Record)]
    if not isinstance(value, Mapping) or set(value) - set(names):
        found = sorted(set(value) - set(names)) if isinstance(value, Mapping) else value
        raise InputError(
            f"An item must be a dictionary with fields from {', '.join(names)}, got {found!r}. "
            "Put other fields into metadata."
        )
    return Record(**value)


def parse_labels(value: Any) -> list[str]:
    """Return label names from a list, or from one string separated by ``|``, ``;`` or ``,``.

    >>> parse_labels("boat| sea"), parse_labels(["sea, calm"]), parse_labels(None)
    (['boat', 'sea'], ['sea, calm'], [])
    """
    if value is None:
        return []
    values = value if isinstance(value, (list, tuple)) else LABEL_SEPARATORS.split(str(value))
    return [name for name in (str(each).strip() for each in values) if name]


def dataset_records(pairs: PairedDataset, raw: PairedDataset | None = None) -> Iterator[Record]:
    """Yield the items of a dataset as records.

    ``raw`` holds the same items before a reader turned them into vectors: images and strings.
    """
    raw = pairs if raw is None else raw
    keys = pairs.row_keys()
    for row in range(len(pairs)):
        extra = raw.items[row] if raw.items is not None else {}
        yield Record(
            keys[row],
            _image(pairs, row),
            raw.texts[row] if isinstance(raw.texts, list) else "",
            term_vector=None if isinstance(pairs.texts, list) else pairs.texts[[row]],
            labels=_label_names(raw, row),
            metadata={name: value for name, value in extra.items() if name not in RESERVED},
            preview=None if is_vectors(raw.images) else _image(raw, row),
        )


def _image(pairs: PairedDataset, row: int) -> Any:
    files = isinstance(pairs.images, ImageFiles)
    return pairs.images.paths[row] if files else pairs.images[row]


def _label_names(pairs: PairedDataset, row: int) -> list[str]:
    if pairs.labels is None or not len(pairs.label_names):
        return []
    columns = pairs.labels[[row]].nonzero()[1]
    return [pairs.label_names[column] for column in columns]


def _as_code(value: Any, name: str) -> Codes | None:
    """Return one ready code, in any of the forms that :class:`Record` accepts."""
    if value is None or isinstance(value, Codes):
        code = value
    elif isinstance(value, str):
        code = Codes.from_hex([value.strip()], 4 * len(value.strip()))
    else:
        code = code_rows(np.asarray(value)[None], name)
    if code is not None and len(code) != 1:
        raise InputError(f"{name} must be one code, got {len(code)}.")
    return code


def code_rows(array: np.ndarray, name: str) -> Codes:
    """Return (n, n_bits) numbers as codes: of -1 and 1, 0 and 1, or real numbers by their sign."""
    check_signs(array, name)
    return Codes.from_continuous(array)


def check_signs(array: np.ndarray, name: str) -> None:
    """Raise an error if no number is negative but some are neither 0 nor 1."""
    if array.dtype.kind in "fiub" and array.size and array.min() >= 0:
        other = array[(array != 0) & (array != 1)]
        if other.size:
            raise InputError(
                f"{name} has no negative value but others than 0 and 1, such as {other[0]:g}. Save "
                "-1 and 1, or 0 and 1; or packed codes with n_bits."
            )


def _state(value: Any) -> bytes:
    """Return bytes that change when an image or a vector does."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return hashlib.sha256(value).digest()
    if isinstance(value, (str, Path)):
        try:
            status = Path(value).stat()
        except OSError:
            return b"missing"  # opening the file reports the reason
        return f"{status.st_size} {status.st_mtime_ns}".encode()
    if isinstance(value, Codes):
        value = value.packed
    if hasattr(value, "toarray"):  # a sparse row
        value = value.toarray()
    array = np.asarray(value)
    return f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes()
