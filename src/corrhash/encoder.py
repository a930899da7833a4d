"""Encoder: from records to items with their codes, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from PIL import Image

from corrhash.codes import Codes
from corrhash.datasets.base import without_words
from corrhash.datasets.reader import Reader
from corrhash.errors import InputError
from corrhash.index.item import Item
from corrhash.methods.base import Hasher
from corrhash.records import Record, open_picture, thumbnail
from corrhash.rerank import pack_scores


@dataclass(frozen=True)
class Encoded:
    """Items, the codes of each side with the rows of their items, and why others were left out."""

    items: list[Item]
    codes: dict[str, tuple[NDArray[np.int64], Codes]]
    skipped: dict[str, str]


class Pictures:
    """Pictures of records, opened when a network asks for them, so that few are in memory.

    A thumbnail is made of each on the way. One that cannot be read is noted, and a grey dot stands
    in for it, so that it does not end the work on the others.
    """

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.thumbnails: dict[int, bytes] = {}
        self.unreadable: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, row: int) -> Image.Image:
        try:
            picture = open_picture(self.records[row].image)
        except InputError as error:
            self.unreadable[row] = str(error)
            return Image.new("RGB", (8, 8), "grey")
        self.thumbnails[row] = thumbnail(picture)
        return picture

    def __iter__(self) -> Iterator[Image.Image]:
        return map(self.__getitem__, range(len(self)))


@dataclass
class _Side:
    """What is known of one side of a batch, by row."""

    rows: list[int] = field(default_factory=list)
    scores: list[NDArray[Any]] = field(default_factory=list)

    def add(self, rows: list[int], scores: NDArray[Any], kept: NDArray[np.bool_]) -> None:
        self.rows += [row for row, keep in zip(rows, kept, strict=True) if keep]
        self.scores.append(scores[kept])


def encode_records(
    records: list[Record], hasher: Hasher, reader: Reader, *, keep_scores: bool = False
) -> Encoded:
    """Items and codes of records.

    Pictures that cannot be read and texts without a known word give no code; records without any
    code are skipped.
    """
    reasons: dict[int, str] = {}
    thumbnails: dict[int, bytes] = {}
    sides = {"image": _Side(), "text": _Side()}
    _score_pictures(records, hasher, reader, sides["image"], thumbnails, reasons)
    _score_vectors(records, hasher, sides["image"], thumbnails, reasons)
    _score_texts(records, hasher, reader, sides["text"], reasons)
    coded = sorted({*sides["image"].rows, *sides["text"].rows})
    place = {row: at for at, row in enumerate(coded)}
    more: list[dict[str, Any]] = [{"thumbnail": thumbnails.get(row)} for row in coded]
    codes = {}
    for name, side in sides.items():
        if not side.rows:
            continue
        scores = np.concatenate(side.scores)
        at = np.array([place[row] for row in side.rows], dtype=np.int64)
        codes[name] = (at, Codes.from_scores(scores))
        if keep_scores:
            for row, packed in zip(at.tolist(), pack_scores(scores), strict=True):
                more[row][f"{name}_scores"] = packed
    items = [records[row].item(**fields) for row, fields in zip(coded, more, strict=True)]
    skipped = {records[row].key: reasons[row] for row in reasons if row not in place}
    return Encoded(items, codes, skipped)


def _score_pictures(
    records: list[Record],
    hasher: Hasher,
    reader: Reader,
    side: _Side,
    thumbnails: dict[int, bytes],
    reasons: dict[int, str],
) -> None:
    rows = [i for i, r in enumerate(records) if r.image is not None and not r.is_vector]
    if not rows:
        return
    pictures = Pictures([records[row] for row in rows])
    scores = hasher.score_image(reader.read_images(pictures))
    for at, reason in pictures.unreadable.items():
        reasons[rows[at]] = reason
    thumbnails |= {rows[at]: small for at, small in pictures.thumbnails.items()}
    side.add(rows, scores, np.array([at not in pictures.unreadable for at in range(len(rows))]))


def _score_vectors(
    records: list[Record],
    hasher: Hasher,
    side: _Side,
    thumbnails: dict[int, bytes],
    reasons: dict[int, str],
) -> None:
    rows = [i for i, record in enumerate(records) if record.is_vector]
    if not rows:
        return
    vectors = np.stack(_of_one_length([records[row] for row in rows]))
    side.add(rows, hasher.score_image(vectors), np.ones(len(rows), dtype=bool))
    for row in rows:
        if records[row].picture is not None:
            try:
                thumbnails[row] = thumbnail(open_picture(records[row].picture))
            except InputError as error:
                reasons[row] = str(error)


def _of_one_length(records: list[Record]) -> list[NDArray[Any]]:
    """The feature vectors of records."""
    vectors = [np.asarray(record.image) for record in records]
    for record, vector in zip(records, vectors, strict=True):
        if len(vector) != len(vectors[0]):
            raise InputError(
                f"Feature vectors have one length. Got {len(vectors[0])} numbers for "
                f"{records[0].key!r} and {len(vector)} for {record.key!r}."
            )
    return vectors


def _score_texts(
    records: list[Record], hasher: Hasher, reader: Reader, side: _Side, reasons: dict[int, str]
) -> None:
    written = [i for i, record in enumerate(records) if record.text and record.words is None]
    counted = [i for i, record in enumerate(records) if record.words is not None]
    parts: list[tuple[list[int], Any]] = []
    if written:
        parts.append((written, reader.read_texts([records[row].text for row in written])))
    if counted:
        parts.append(
            (counted, sp.vstack([_one_row(records[row].words) for row in counted]).tocsr())
        )
    for rows, texts in parts:
        unknown = without_words(texts)
        side.add(rows, hasher.score_text(texts), ~unknown)
        for row in np.array(rows)[unknown].tolist():
            reasons.setdefault(row, "The model knows no word of its text.")


def _one_row(words: Any) -> sp.csr_array:
    return sp.csr_array(words.reshape(1, -1))
