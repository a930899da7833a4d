"""Adding records to a collection: which of them are new, changed or moved, and must be encoded.

An item stores a *stamp* of the record it was made from, and a checksum of its image file, its
*content*. A record with the stamp of its item is unchanged. An image whose content is stored under
any key is not encoded again: its code is copied. If the file of that item is gone, it has moved.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash._files import absolute_path
from corrhash.codes import Codes
from corrhash.collection.base import Added
from corrhash.collection.encoding import KnownImage, encode_records
from corrhash.collection.generations import Encoder, check_generation
from corrhash.collection.search import stores_continuous
from corrhash.datasets.images import PREVIEW_SIZE, THUMBNAIL_SIZE
from corrhash.datasets.records import Record
from corrhash.errors import ParameterError
from corrhash.index.base import CodeIndex
from corrhash.index.items import FIELDS, MODALITIES, Item

SMALLEST_PREVIEW, LARGEST_PREVIEW = THUMBNAIL_SIZE, 2048


def stored_path(path: str, root: str) -> str:
    """Return how a path is stored: relative to ``root`` if it lies below, else absolute.

    >>> stored_path("/photos/2015/dog.jpg", "/photos"), stored_path("/tmp/cat.jpg", "/photos")
    ('2015/dog.jpg', '/tmp/cat.jpg')
    """
    if not path:
        return ""
    absolute = absolute_path(path)
    if root and absolute.is_relative_to(root):
        return absolute.relative_to(root).as_posix()
    return absolute.as_posix()


def root_of(index: CodeIndex) -> str:
    """Return the folder that the paths of items are relative to."""
    return str(index.about.get("root", ""))


def preview_size_of(index: CodeIndex) -> int:
    """Return the longest side of stored images, in pixels."""
    return int(index.about.get("preview_size", PREVIEW_SIZE))


def check_preview_size(size: int) -> int:
    """Return the longest side of stored images, after checking it."""
    if not isinstance(size, int) or not SMALLEST_PREVIEW <= size <= LARGEST_PREVIEW:
        raise ParameterError(
            "preview_size",
            f"must be an integer from {SMALLEST_PREVIEW} to {LARGEST_PREVIEW}, got {size!r}.",
        )
    return size


_EMPTY = Item()


@dataclass
class _Change:
    """A record to add, how it is stored, and the item that it replaces, if any."""

    record: Record
    path: str
    stamp: str
    content: str = ""
    number: int | None = None
    old: Item = _EMPTY

    @property
    def is_move(self) -> bool:
        """Whether the item is stored under another key until now."""
        return self.number is not None and self.old.key != self.record.key

    @property
    def keeps_codes(self) -> bool:
        """Whether the file has another path or modification time, and nothing else changed."""
        same_record = self.old.stamp.partition(":")[0] == self.stamp.partition(":")[0]
        return self.content != "" and self.content == self.old.content and same_record

    def fields(self) -> dict[str, Any]:
        """Return the fields of the item that depend on the file's place."""
        return {"key": self.record.key, "path": self.path, "stamp": self.stamp}


def add_batch(index: CodeIndex, encoder: Encoder, records: Iterable[Record]) -> Added:
    """Encode those of some records that are new or changed, and store them in one transaction.

    Raises SwitchedError if the model of the collection is replaced meanwhile.
    """
    root, changes = root_of(index), dict[str, _Change]()
    for record in records:  # the last of equal keys wins
        path = stored_path(record.path, root)
        changes[record.key] = _Change(record, path, record.stamp(path))
    for key, (number, item) in _by_key(index, list(changes)).items():
        changes[key].number, changes[key].old = number, item
    changed = {key: one for key, one in changes.items() if one.stamp != one.old.stamp}
    for one in changed.values():
        one.content = one.record.content()
    twins = _by_content(index, {one.content for one in changed.values()})
    _find_moves(changed, twins, set(changes), root)
    kept = [one for one in changed.values() if one.keeps_codes]
    rest = {key: one for key, one in changed.items() if not one.keeps_codes}
    encoded = encode_records(
        [one.record for one in rest.values()],
        encoder.model,
        store_continuous=stores_continuous(index),
        preview_size=preview_size_of(index),
        contents=[one.content for one in rest.values()],
        known=_known_images(index, twins, rest.values()),
    )
    items = [
        replace(item, **rest[item.key].fields(), content=rest[item.key].content)
        for item in encoded.items
    ]
    moves = {key: one.number for key, one in rest.items() if one.is_move and one.number is not None}
    n_updated = n_moved = 0
    if kept or items:
        with index.writing():
            check_generation(index, encoder.generation)
            _relocate(index, kept)
            n_updated, n_moved = _store(index, items, encoded.codes, moves)
    n_touched = sum(one.path == one.old.path for one in kept)
    return Added(
        new=len(items) - n_updated - n_moved,
        updated=n_updated,
        moved=n_moved + len(kept) - n_touched,
        unchanged=len(changes) - len(changed) + n_touched,
        skipped=encoded.skipped,
    )


def _by_key(index: CodeIndex, keys: list[str]) -> dict[str, tuple[int, Item]]:
    """Return id and item of the keys that exist."""
    ids = index.ids_of(keys)
    items = index.get(list(ids.values()), ["key", "path", "stamp", "content"])
    return {
        key: (number, item)
        for (key, number), item in zip(ids.items(), items, strict=True)
        if item is not None
    }


def _by_content(index: CodeIndex, contents: set[str]) -> dict[str, list[tuple[int, Item]]]:
    """Return ids and items of the files that have one of these checksums."""
    found = index.ids_of_content(sorted(contents))
    ids = [number for numbers in found.values() for number in numbers]
    items = dict(zip(ids, index.get(ids, ["key", "path", "stamp", "content"]), strict=True))
    twins = {
        content: [(number, item) for number in numbers if (item := items[number]) is not None]
        for content, numbers in found.items()
    }
    return {content: some for content, some in twins.items() if some}


def _find_moves(
    changed: Mapping[str, _Change],
    twins: Mapping[str, list[tuple[int, Item]]],
    keys: set[str],
    root: str,
) -> None:
    """Let records under new keys replace the items whose files they were before."""
    taken = set[int]()
    for key, one in changed.items():
        if one.number is not None or not _is_named_by_path(key, one.path):
            continue
        for number, item in twins.get(one.content, []):
            if number in taken or item.key in keys or not _is_named_by_path(item.key, item.path):
                continue
            if not Path(root, item.path).exists():
                one.number, one.old = number, item
                taken.add(number)
                break


def _is_named_by_path(key: str, path: str) -> bool:
    """Return whether a key is the end of a path, as folders of images give it."""
    names = [unicodedata.normalize("NFC", name) for name in (key, path)]
    return bool(path) and f"/{names[1]}".endswith(f"/{names[0]}")


def _known_images(
    index: CodeIndex,
    twins: Mapping[str, list[tuple[int, Item]]],
    changes: Iterable[_Change],
) -> dict[str, KnownImage]:
    """Return the stored codes of images, by checksum."""
    ids = {twins[one.content][0][0]: one.content for one in changes if one.content in twins}
    numbers = list(ids)
    items = index.get(numbers, ["thumbnail", "image_continuous"])
    rows, codes = index.codes_of(numbers, "image")
    known = {}
    for at, row in enumerate(rows.tolist()):
        if (item := items[row]) is not None:
            image = KnownImage(codes[[at]], item.thumbnail, item.image_continuous)
            known[ids[numbers[row]]] = image
    return known


def _relocate(index: CodeIndex, changes: list[_Change]) -> None:
    """Store new keys, paths and stamps of items; their codes and other fields stay."""
    new = {one.number: one.fields() for one in changes if one.number is not None}
    items = zip(new, index.get(list(new), FIELDS), strict=True)
    existing = {number: item for number, item in items if item is not None}
    if existing:
        codes = {name: index.codes_of(list(existing), name) for name in MODALITIES}
        replaced = [replace(item, **new[number]) for number, item in existing.items()]
        index.upsert(list(existing), codes, replaced)


def _store(
    index: CodeIndex,
    items: list[Item],
    codes: Mapping[str, tuple[NDArray[np.int64], Codes]],
    moves: Mapping[str, int],
) -> tuple[int, int]:
    """Store items under the ids of their keys, of moved items, or new ones.

    Returns how many keys existed and how many items moved.
    """
    if not items:
        return 0, 0
    known = index.ids_of([item.key for item in items])
    moved = [item.key for item in items if item.key in moves and item.key not in known]
    ids = {**known, **{key: moves[key] for key in moved}}
    new = [item.key for item in items if item.key not in ids]
    ids |= dict(zip(new, index.new_ids(new).tolist(), strict=True))
    index.upsert([ids[item.key] for item in items], codes, items)
    return len(known), len(moved)
