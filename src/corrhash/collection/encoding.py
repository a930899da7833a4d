"""Encoding records: from images and texts to items with their codes, one batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from PIL import Image

from corrhash._progress import report
from corrhash.codes import Codes
from corrhash.collection.search import pack_continuous
from corrhash.datasets.base import is_empty_text
from corrhash.datasets.images import PREVIEW_SIZE, n_threads, open_image, preview
from corrhash.datasets.records import Record
from corrhash.errors import InputError
from corrhash.index.items import Item
from corrhash.methods.ready_codes import NO_CODE, ReadyCodes
from corrhash.model import Model

MakePreview = Callable[[Image.Image], bytes]
"""Makes the JPEG of an image that a collection stores."""


@dataclass(frozen=True)
class Encoded:
    """A batch of encoded records.

    Parameters
    ----------
    items : the records that have at least one code.
    codes : per modality, the rows of ``items`` that have a code, and the codes.
    skipped : reason per key of a record without a code.
    """

    items: list[Item]
    codes: dict[str, tuple[NDArray[np.int64], Codes]]
    skipped: dict[str, str]


@dataclass(frozen=True)
class KnownImage:
    """The code of an image that is stored already, its thumbnail and its continuous code."""

    code: Codes
    thumbnail: bytes | None
    continuous: bytes | None


class LazyImages:
    """The images of records, opened one at a time while the hasher iterates over them.

    Each opened image also yields a thumbnail. An unreadable image is noted in ``unreadable`` and
    replaced by a grey one, so that it does not abort the batch.
    """

    def __init__(self, records: list[Record], make_preview: MakePreview) -> None:
        self.records = records
        self.make_preview = make_preview
        self.thumbnails: dict[int, bytes] = {}
        self.unreadable: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, row: int) -> Image.Image:
        try:
            image = open_image(self.records[row].image)
        except InputError as error:
            self.unreadable[row] = str(error)
            return Image.new("RGB", (8, 8), "grey")
        self.thumbnails[row] = self.make_preview(image)
        return image

    def __iter__(self) -> Iterator[Image.Image]:
        return map(self.__getitem__, range(len(self)))

    def open_all(self) -> None:
        """Open every image, in threads, for the thumbnails."""
        with ThreadPoolExecutor(n_threads()) as pool:
            opened = pool.map(lambda row: bool(self[row]), range(len(self)))
            for n_done, _ in enumerate(opened, start=1):
                report("Making thumbnails", n_done, len(self))


@dataclass
class _Modality:
    """Rows of a batch that have a code of one modality, their codes and packed continuous codes."""

    rows: list[int] = field(default_factory=list)
    packed: list[NDArray[np.uint8]] = field(default_factory=list)
    continuous: list[bytes | None] = field(default_factory=list)

    def add(self, rows: list[int], continuous: NDArray[Any], kept: NDArray[np.bool_]) -> None:
        self.rows += [row for row, keep in zip(rows, kept, strict=True) if keep]
        self.packed.append(Codes.from_continuous(continuous[kept]).packed)
        self.continuous += pack_continuous(continuous[kept])


def encode_records(
    records: list[Record],
    model: Model,
    *,
    store_continuous: bool = False,
    preview_size: int = PREVIEW_SIZE,
    contents: Sequence[str] | None = None,
    known: Mapping[str, KnownImage] | None = None,
) -> Encoded:
    """Encode a batch of records.

    Texts without a known term have no code. Records without any code are skipped, and those whose
    image is missing or cannot be decoded: a photo that is found only by its text would be a
    surprise.

    Parameters
    ----------
    store_continuous : also pack the continuous codes into the items.
    preview_size : longest side of the thumbnails, in pixels.
    contents : checksums of the records' images, empty if unknown.
    known : images by checksum that need not be encoded.
    """
    contents, known = contents or [""] * len(records), known or {}
    reasons: dict[int, str] = {}
    thumbnails: dict[int, bytes] = {}
    modalities = {"image": _Modality(), "text": _Modality()}
    make_preview = partial(preview, size=preview_size)
    _take_ready_codes(records, model, make_preview, modalities, thumbnails, reasons)
    if isinstance(model.hasher, ReadyCodes):
        return _collected(records, modalities, thumbnails, reasons, model.n_bits, store_continuous)
    _copy_images(contents, known, modalities["image"], thumbnails)
    _encode_images(records, model, contents, make_preview, modalities["image"], thumbnails, reasons)
    lost = set(reasons)
    _encode_feature_vectors(records, model, make_preview, modalities["image"], thumbnails, reasons)
    _encode_texts(records, model, modalities["text"], reasons, lost)
    return _collected(records, modalities, thumbnails, reasons, model.n_bits, store_continuous)


def _collected(
    records: list[Record],
    modalities: Mapping[str, _Modality],
    thumbnails: Mapping[int, bytes],
    reasons: Mapping[int, str],
    n_bits: int,
    store_continuous: bool,
) -> Encoded:
    """Return the items of records that have a code, with their codes."""
    coded = sorted({*modalities["image"].rows, *modalities["text"].rows})
    position = {row: at for at, row in enumerate(coded)}
    fields: list[dict[str, Any]] = [{"thumbnail": thumbnails.get(row)} for row in coded]
    codes = {}
    for name, modality in modalities.items():
        if not modality.rows:
            continue
        at = np.array([position[row] for row in modality.rows], dtype=np.int64)
        codes[name] = (at, Codes(np.concatenate(modality.packed), n_bits))
        if store_continuous:
            for row, packed in zip(at.tolist(), modality.continuous, strict=True):
                fields[row][f"{name}_continuous"] = packed
    items = [records[row].item(**more) for row, more in zip(coded, fields, strict=True)]
    skipped = {records[row].key: reasons[row] for row in reasons if row not in position}
    return Encoded(items, codes, skipped)


def _take_ready_codes(
    records: list[Record],
    model: Model,
    make_preview: MakePreview,
    modalities: Mapping[str, _Modality],
    thumbnails: dict[int, bytes],
    reasons: dict[int, str],
) -> None:
    """Take the codes of records that have some; their images are opened for thumbnails only."""
    for name, modality in modalities.items():
        codes = {row: getattr(record, f"{name}_code") for row, record in enumerate(records)}
        ready = {row: code for row, code in codes.items() if code is not None}
        for row, code in ready.items():
            if code.n_bits != model.n_bits:
                raise InputError(
                    f"{name}_code of {records[row].key!r} has {code.n_bits} bits, but the codes of "
                    f"this collection have {model.n_bits}. Use codes of the same length."
                )
        if ready:
            packed = np.concatenate([code.packed for code in ready.values()])
            signs = Codes(packed, model.n_bits).signs()
            modality.add(list(ready), signs, np.ones(len(ready), dtype=bool))
    shown = [row for row in modalities["image"].rows if _has_picture(records[row])]
    images = LazyImages([records[row] for row in shown], make_preview)
    if shown:
        images.open_all()
    thumbnails |= {shown[at]: small for at, small in images.thumbnails.items()}
    if isinstance(model.hasher, ReadyCodes):
        coded = {*modalities["image"].rows, *modalities["text"].rows}
        reasons |= {row: NO_CODE for row in range(len(records)) if row not in coded}


def _has_picture(record: Record) -> bool:
    return record.image is not None and not record.is_vector


def _copy_images(
    contents: Sequence[str],
    known: Mapping[str, KnownImage],
    modality: _Modality,
    thumbnails: dict[int, bytes],
) -> None:
    ready = {*modality.rows}
    for row, content in enumerate(contents):
        if content in known and row not in ready:
            image = known[content]
            modality.rows.append(row)
            modality.packed.append(image.code.packed)
            modality.continuous.append(image.continuous)
            if image.thumbnail is not None:
                thumbnails[row] = image.thumbnail


def _encode_images(
    records: list[Record],
    model: Model,
    contents: Sequence[str],
    make_preview: MakePreview,
    modality: _Modality,
    thumbnails: dict[int, bytes],
    reasons: dict[int, str],
) -> None:
    copied, rows = set(modality.rows), list[int]()
    for row, record in enumerate(records):
        if isinstance(record.image, (str, Path)) and not Path(record.image).exists():
            reasons[row] = f"Image not found: {record.image}. Check the path."
        elif record.image is not None and not record.is_vector and row not in copied:
            rows.append(row)
    features = model.reader.image_features
    cached = features.cached([contents[row] for row in rows]) if features is not None else {}
    for part in (list(cached), [at for at in range(len(rows)) if at not in cached]):
        if not part:
            continue
        of_part = [rows[at] for at in part]
        images = LazyImages([records[row] for row in of_part], make_preview)
        if part[0] in cached:
            read = np.stack([cached[at] for at in part])
            images.open_all()
        else:
            read = model.reader.read_images(images)
            if features is not None:
                unreadable = images.unreadable
                checksums = [
                    "" if at in unreadable else contents[row] for at, row in enumerate(of_part)
                ]
                features.store(checksums, read)
        continuous = model.hasher.embed_image(read)
        reasons |= {of_part[at]: reason for at, reason in images.unreadable.items()}
        thumbnails |= {of_part[at]: small for at, small in images.thumbnails.items()}
        readable = np.array([at not in images.unreadable for at in range(len(part))])
        modality.add(of_part, continuous, readable)


def _encode_feature_vectors(
    records: list[Record],
    model: Model,
    make_preview: MakePreview,
    modality: _Modality,
    thumbnails: dict[int, bytes],
    reasons: dict[int, str],
) -> None:
    ready = {*modality.rows}
    rows = [i for i, record in enumerate(records) if record.is_vector and i not in ready]
    if not rows:
        return
    vectors = _stack_vectors([records[row] for row in rows])
    modality.add(rows, model.hasher.embed_image(vectors), np.ones(len(rows), dtype=bool))
    for row in rows:
        if records[row].preview is not None:
            try:
                thumbnails[row] = make_preview(open_image(records[row].preview))
            except InputError as error:
                reasons[row] = str(error)


def _stack_vectors(records: list[Record]) -> NDArray[Any]:
    vectors = [np.asarray(record.image) for record in records]
    for record, vector in zip(records, vectors, strict=True):
        if len(vector) != len(vectors[0]):
            raise InputError(
                f"Feature vectors must have the same length, got {len(vectors[0])} numbers for "
                f"{records[0].key!r} and {len(vector)} for {record.key!r}."
            )
    return np.stack(vectors)


def _encode_texts(
    records: list[Record],
    model: Model,
    modality: _Modality,
    reasons: dict[int, str],
    lost: set[int],
) -> None:
    lost = {*lost, *modality.rows}  # those with a ready code need none
    rest = [(row, record) for row, record in enumerate(records) if row not in lost]
    strings = [row for row, record in rest if record.text and record.term_vector is None]
    vectors = [row for row, record in rest if record.term_vector is not None]
    parts: list[tuple[list[int], Any]] = []
    if strings:
        texts = [records[row].text for row in strings]
        parts.append((strings, model.reader.read_texts(texts, use_cache=len(texts) > 1)))
    if vectors:
        terms = sp.vstack([_as_sparse_row(records[row].term_vector) for row in vectors]).tocsr()
        parts.append((vectors, terms))
    for rows, texts in parts:
        empty = is_empty_text(texts)
        modality.add(rows, model.hasher.embed_text(texts), ~empty)
        for row in np.array(rows)[empty].tolist():
            reasons.setdefault(row, "None of the terms in its text are in the model's vocabulary.")


def _as_sparse_row(terms: Any) -> sp.csr_array:
    return sp.csr_array(terms.reshape(1, -1))
