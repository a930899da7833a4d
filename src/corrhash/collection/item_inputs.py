"""Inputs of the networks for stored items and judged queries, to train on them and encode again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from PIL import Image

from corrhash._progress import report
from corrhash.collection.adding import root_of
from corrhash.collection.judging import Judgment
from corrhash.datasets.base import is_empty_text
from corrhash.datasets.images import open_image
from corrhash.datasets.records import Record, UnreadableRecord
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.index.items import Item
from corrhash.methods.fine_tuning import NO_ROW, JudgedData, JudgedItem, JudgedQuery
from corrhash.model import Model

MAX_PAIRS = 10_000
"""Image-text pairs of a collection that training draws from."""

BATCH = 512

log = logging.getLogger("corrhash")

Rows = tuple[NDArray[np.int64], Any]
"""Which of some ids have an input, and the inputs, one row each."""


@dataclass(eq=False)
class ItemInputs:
    """Feature vectors of the images and vectors of the texts of stored items.

    The features of an image come from the cache, else from its file, else from its stored preview.

    Parameters
    ----------
    index : the index of the collection.
    model : its reader computes the inputs.
    records : of the source of the collection. Their vectors are used for the items with the same
        keys.
    """

    index: CodeIndex
    model: Model
    records: Iterable[Record | UnreadableRecord] = ()
    _images: dict[str, Any] = field(default_factory=dict)
    _texts: dict[str, Any] = field(default_factory=dict)
    _uses_previews: bool = False

    def __post_init__(self) -> None:
        for record in self.records:
            if isinstance(record, Record) and record.is_vector:
                self._images[record.key] = np.asarray(record.image)
            if isinstance(record, Record) and record.term_vector is not None:
                self._texts[record.key] = sp.csr_array(record.term_vector.reshape(1, -1))

    def images(self, ids: NDArray[np.int64]) -> Rows:
        """Return the feature vectors of those ids that have an image code."""
        rows, _ = self.index.codes_of(ids, "image")
        found = zip(rows, self.index.get(ids[rows], ["key", "path", "content"]), strict=True)
        items = [(int(row), item) for row, item in found if item is not None]
        vectors: dict[int, Any] = {
            row: self._images[item.key] for row, item in items if item.key in self._images
        }
        features = self.model.reader.image_features
        rest = [(row, item) for row, item in items if row not in vectors]
        if rest and features is not None:
            cached = features.cached([item.content for _, item in rest])
            vectors |= {rest[at][0]: vector for at, vector in cached.items()}
            rest = [one for at, one in enumerate(rest) if at not in cached]
        if rest:
            read = self._computed([item for _, item in rest], ids[[row for row, _ in rest]])
            vectors |= zip((row for row, _ in rest), read, strict=True)
        order = sorted(vectors)
        none = np.empty((0, 0), np.float32)
        return np.array(order, np.int64), np.stack(
            [vectors[row] for row in order]
        ) if order else none

    def _computed(self, items: Sequence[Item], ids: NDArray[np.int64]) -> Any:
        """Compute the features of images that are not in the cache, and store them there."""
        features = self.model.reader.image_features
        if features is None or features.of_file:
            raise InputError(
                "The model needs feature vectors from a file, and the collection does not store "
                f"that of {items[0].key!r}. Pass the source of the collection, with the --features "
                "of corrhash index: corrhash improve COLLECTION SOURCE --features FILE."
            )
        opened, previews = list[Image.Image](), set[int]()
        for at, (item, number) in enumerate(zip(items, ids.tolist(), strict=True)):
            image, is_preview = self._open(item, number)
            opened.append(image)
            previews |= {at} if is_preview else set()
        if previews and not self._uses_previews:
            self._uses_previews = True
            log.info(
                "Some images have no file, such as %s. Their stored previews are used instead.",
                items[min(previews)].key,
            )
        read = self.model.reader.read_images(opened)
        contents = ["" if at in previews else item.content for at, item in enumerate(items)]
        features.store(contents, read)
        return read

    def _open(self, item: Item, number: int) -> tuple[Image.Image, bool]:
        """Return the image of an item, and whether it is only the preview."""
        path = Path(root_of(self.index), item.path)
        if item.path and path.is_file():
            try:
                return open_image(path), False
            except InputError:
                pass  # damaged since it was added
        (stored,) = self.index.get([number], ["thumbnail"])
        if stored is None or stored.thumbnail is None:
            raise InputError(
                f"The image of {item.key!r} cannot be read again: it has no preview and no file at "
                f"{path}. Restore the file, or delete the item."
                if item.path
                else f"The image of {item.key!r} cannot be read again, because the collection "
                "stores only its code. Add the item with its image, or delete it."
            )
        return open_image(stored.thumbnail), True

    def texts(self, ids: NDArray[np.int64]) -> Rows:
        """Return the vectors of the texts of those ids that have a text code."""
        rows, _ = self.index.codes_of(ids, "text")
        found = zip(rows, self.index.get(ids[rows], ["key", "text"]), strict=True)
        items = [(int(row), item) for row, item in found if item is not None]
        strings = [(row, item.text) for row, item in items if item.text]
        terms = [(row, item) for row, item in items if not item.text]
        for _, item in terms:
            if item.key not in self._texts:
                raise InputError(
                    f"The text of {item.key!r} was added as a term vector, which the collection "
                    "does not store. Pass its source: corrhash improve COLLECTION SOURCE."
                )
        parts = [self.read_texts([text for _, text in strings])] if strings else []
        parts += [self._texts[item.key] for _, item in terms]
        order = [row for row, _ in (*strings, *terms)]
        return np.array(order, np.int64), stacked(parts)

    def read_texts(self, texts: list[str]) -> Any:
        """Return the vectors of strings."""
        return self.model.reader.read_texts(texts, use_cache=True)

    def pair_ids(self) -> NDArray[np.int64]:
        """Return the ids of up to 10,000 items that have an image and a text, evenly spaced."""
        both = [np.empty(0, np.int64)]
        for entries in self.index.batches(fields=["key"]):
            images, texts = (entries.rows.get(name, both[0]) for name in ("image", "text"))
            both.append(entries.ids[np.intersect1d(images, texts)])
        ids = np.concatenate(both)
        return ids[:: max(1, -(-len(ids) // MAX_PAIRS))]


def stacked(parts: Sequence[Any], width: int = 0) -> Any:
    """Return rows of vectors below each other, sparse if any of them are.

    Without any part, the result has ``width`` columns.
    """
    if not parts:
        return np.empty((0, width), np.float32)
    if any(sp.issparse(part) for part in parts):
        return sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts]))
    return np.concatenate(parts)


class _Vectors:
    """Vectors of one modality that are collected under names, and their rows."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.row_of: dict[Any, int] = {}

    def add(self, names: Sequence[Any], vectors: Any) -> None:
        start = len(self.row_of)
        self.row_of |= {name: start + at for at, name in enumerate(names)}
        self.parts.append(vectors)


def judged_data(
    judgments: Sequence[Judgment],
    inputs: ItemInputs,
    first_new: Sequence[bool],
    widths: Mapping[str, int],
) -> JudgedData:
    """Return judgments with the vectors of their queries and items, and of a sample of pairs.

    Judgments about items that do not exist any more are skipped, and so are queries without a term
    that the model knows, and images whose features come from another encoder. ``first_new`` marks
    the judgments that no model was trained on. ``widths`` are the lengths of the vectors by
    modality.
    """
    index, images, texts = inputs.index, _Vectors(), _Vectors()
    keys = {one.item for one in judgments} | {one.query for one in judgments if one.kind == "key"}
    id_of = index.ids_of(sorted(keys))
    pair_ids = inputs.pair_ids()
    ids = np.union1d(pair_ids, np.array(sorted(id_of.values()), np.int64))
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        for vectors, (rows, found) in ((images, inputs.images(some)), (texts, inputs.texts(some))):
            if len(rows):
                vectors.add(some[rows].tolist(), found)
        report("Reading items", min(len(ids), start + BATCH), len(ids))
    strings = sorted({one.query for one in judgments if one.kind == "text"})
    if strings:
        read = inputs.read_texts(strings)
        known = np.flatnonzero(~is_empty_text(read))
        texts.add([strings[at] for at in known], read[known])
    groups: dict[tuple[str, int], dict[JudgedItem, None]] = {}
    for one, is_new in zip(judgments, first_new, strict=True):
        query = _query_row(one, id_of, images, texts, widths["image"])
        number = id_of.get(one.item)
        image, text = (vectors.row_of.get(number, NO_ROW) for vectors in (images, texts))
        if one.find == "text" and text != NO_ROW:  # its text was found, whatever its image shows
            image = NO_ROW
        item = JudgedItem(image, text, one.verdict, is_new)
        if query is not None and (item.image, item.text) != (NO_ROW, NO_ROW):
            groups.setdefault(query, {})[item] = None
    pairs = [
        (images.row_of[number], texts.row_of[number])
        for number in pair_ids.tolist()
        if number in images.row_of and number in texts.row_of
    ]
    return JudgedData(
        stacked(images.parts, widths["image"]),
        stacked(texts.parts, widths["text"]),
        np.array(pairs, np.int64).reshape(-1, 2),
        [JudgedQuery(*query, list(items)) for query, items in groups.items()],
    )


def _query_row(
    judgment: Judgment, id_of: dict[str, int], images: _Vectors, texts: _Vectors, width: int
) -> tuple[str, int] | None:
    """Return the modality and the row of a query; None if its vector is unknown."""
    if judgment.kind == "text":
        row = texts.row_of.get(judgment.query)
        return None if row is None else ("text", row)
    name: Any = id_of.get(judgment.query) if judgment.kind == "key" else judgment.query
    if judgment.kind == "image" and name not in images.row_of:
        vector = judgment.vector
        if vector is None or len(vector) != width or not np.isfinite(vector).all():
            return None
        images.add([name], vector[None])
    if name in images.row_of:
        return "image", images.row_of[name]
    return ("text", texts.row_of[name]) if name in texts.row_of else None
