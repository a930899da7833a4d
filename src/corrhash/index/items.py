"""Item and Entries: what an engine stores under an id, alone and in batches with codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrhash.codes import Codes, check_codes, check_same_bits
from corrhash.errors import InputError, ParameterError
from corrhash.index.filters import LARGEST, NAME, RESERVED, Value

MODALITIES = ("image", "text")
"""An item has an image code, a text code, or both."""

SHOWN = ("key", "text", "labels", "metadata", "path")
"""Fields that are read by default; the others are large or internal."""

FIELDS = (*SHOWN, "thumbnail", "stamp", "content", "image_continuous", "text_continuous")


@dataclass(frozen=True)
class Item:
    """The description of an item, stored beside its codes.

    Parameters
    ----------
    key : unique name; an empty key is not unique and names no item.
    text : caption or tags.
    labels : names of classes or topics.
    metadata : further fields for filters, with strings, numbers or booleans as values.
    path : path of the image file, relative to the root of the collection if it lies below.
    thumbnail : JPEG of the image, as large as the collection stores them.
    stamp : fingerprint of the record that the item was made from, to detect changes.
    content : checksum of the image file, by which a moved file is recognized; empty if unknown.
    image_continuous, text_continuous : float16 continuous codes, if they are stored.

    Examples
    --------
    >>> Item("a1", "two dogs", ["dog"], {"year": 2015}).fields()["year"]
    2015
    """

    key: str = ""
    text: str = ""
    labels: Sequence[str] = ()
    metadata: Mapping[str, Value] = field(default_factory=dict)
    path: str = ""
    thumbnail: bytes | None = field(default=None, repr=False)
    stamp: str = field(default="", repr=False)
    content: str = field(default="", repr=False)
    image_continuous: bytes | None = field(default=None, repr=False)
    text_continuous: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("key", "text", "path", "stamp", "content"):
            check_text(getattr(self, name), name)
        labels = _as_labels(self.labels)
        for label in labels:
            check_text(label, "label")
        object.__setattr__(self, "labels", labels)
        metadata = {name: _check_value(name, value) for name, value in self.metadata.items()}
        object.__setattr__(self, "metadata", metadata)

    @classmethod
    def stored(cls, fields: Mapping[str, Any]) -> Item:
        """Return an item from fields that were checked before they were stored."""
        item = object.__new__(cls)
        item.__dict__.update(_EMPTY_FIELDS, **fields)
        return item

    def fields(self) -> dict[str, Any]:
        """Return the fields that filters read, by name."""
        texts = {"key": self.key, "text": self.text, "path": self.path}
        return {**self.metadata, **texts, "labels": self.labels}

    def only(self, names: Sequence[str]) -> Item:
        """Return the item with only these fields filled."""
        empty = Item()
        return replace(self, **{n: getattr(empty, n) for n in FIELDS if n not in names})


def check_fields(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of item fields as a tuple, after checking them."""
    for name in names:
        if name not in FIELDS:
            raise InputError(f"Unknown field {name!r}. Valid fields: {', '.join(FIELDS)}.")
    return tuple(names)


def check_modality(modality: str, name: str = "modality") -> str:
    """Return a modality after checking it; ``name`` is the parameter that it was passed as."""
    if modality not in MODALITIES:
        raise ParameterError(name, f"must be 'image' or 'text', got {modality!r}.")
    return modality


def _as_labels(labels: Any) -> tuple[Any, ...]:
    if isinstance(labels, str):
        return (labels,)
    if not isinstance(labels, Iterable):
        raise InputError(f"labels must be a list of strings, got {labels!r}.")
    return tuple(labels)


def check_text(value: Any, what: str) -> None:
    """Raise an error unless a value is a string that every engine and file can store."""
    if not isinstance(value, str) or "\0" in value or not _is_unicode(value):
        raise InputError(
            f"{what} must be a string without NUL characters or lone surrogates, got {value!r}."
        )


def _is_unicode(text: str) -> bool:
    """Return whether text can be encoded; undecodable file names contain lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_value(name: str, value: Any) -> Value:
    if not isinstance(name, str) or NAME.fullmatch(name) is None or name.lower() in RESERVED:
        raise InputError(
            f"Invalid metadata field name {name!r}: use letters a to z, digits and underscores, "
            f"and none of the reserved names {', '.join(RESERVED)}."
        )
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        check_text(value, f"metadata[{name!r}]")
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and abs(value) <= LARGEST:  # nor is it nan
        return value
    raise InputError(
        f"metadata[{name!r}] must be a string, a boolean or a number up to 2^53, got {value!r}. "
        "Convert it to a string, or omit it."
    )


_EMPTY_FIELDS = vars(Item())

LARGEST_ID = 2**62 - 1
"""Milvus stores the codes of an item under the numbers 2 * id and 2 * id + 1."""

ModalityCodes = Codes | Mapping[str, Codes | tuple[ArrayLike, Codes]]
"""Image codes, or codes by modality; a pair of rows and Codes covers only some of the items."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Items with their ids and codes.

    Parameters
    ----------
    ids : (n,) distinct ids.
    codes : codes by modality.
    rows : by modality, the rows of ``ids`` that the codes belong to.
    items : n items, or none if all of them are empty.
    """

    ids: NDArray[np.int64]
    codes: dict[str, Codes]
    rows: dict[str, NDArray[np.int64]]
    items: Sequence[Item]

    def __len__(self) -> int:
        return len(self.ids)

    def item(self, row: int) -> Item:
        """Return the item of a row."""
        return self.items[row] if self.items else Item()


def as_entries(
    ids: ArrayLike, codes: ModalityCodes, items: Sequence[Item] | None, n_bits: int
) -> Entries:
    """Check ids, codes and items, and return them as Entries."""
    numbers = as_ids(ids)
    given = codes if isinstance(codes, Mapping) else {"image": codes}
    rows: dict[str, NDArray[np.int64]] = {}
    checked: dict[str, Codes] = {}
    for modality, value in given.items():
        some, of_modality = value if isinstance(value, tuple) else (np.arange(len(numbers)), value)
        check_same_bits(check_codes(of_modality).n_bits, n_bits)
        rows[check_modality(modality)] = np.asarray(some, dtype=np.int64)
        if len(rows[modality]) != len(of_modality):
            raise InputError(
                f"Each id needs one {modality} code, got {len(rows[modality])} ids and "
                f"{len(of_modality)} codes."
            )
        _check_distinct(rows[modality], f"Row of {modality} codes")
        checked[modality] = of_modality
    _check_distinct(numbers, "Id")
    if items is not None and len(items) != len(numbers):
        raise InputError(f"Each id needs one item, got {len(numbers)} ids and {len(items)} items.")
    coded = np.unique(np.concatenate([np.empty(0, np.int64), *rows.values()]))
    if not np.array_equal(coded, np.arange(len(numbers))):
        raise InputError(
            f"Each item needs an image code or a text code, got {len(numbers)} items and codes "
            f"for {len(coded)} of them."
        )
    entries = Entries(numbers, checked, rows, () if items is None else list(items))
    _check_distinct_keys(entries.items)
    return entries


def as_ids(ids: ArrayLike) -> NDArray[np.int64]:
    """Return ids as an array of int64, after checking them."""
    numbers = np.asarray(ids)
    if numbers.size == 0:
        return np.empty(0, dtype=np.int64)
    if numbers.ndim != 1:
        raise InputError(f"ids must be a one-dimensional array, got shape {numbers.shape}.")
    if numbers.dtype.kind not in "iu" or numbers.max() > LARGEST_ID or numbers.min() < 0:
        raise InputError(
            "ids must be integers from 0 to 2^62 - 1, "
            f"got an array of {numbers.dtype} that starts with {numbers[0]}."
        )
    return numbers.astype(np.int64)


def _check_distinct(numbers: NDArray[np.int64], what: str) -> None:
    distinct, counts = np.unique(numbers, return_counts=True)
    if len(distinct) != len(numbers):
        raise InputError(f"{what} {distinct[counts > 1][0]} is given more than once.")


def _check_distinct_keys(items: Sequence[Item]) -> None:
    keys = [item.key for item in items if item.key]
    if len(set(keys)) != len(keys):
        twice = next(key for key, n in Counter(keys).items() if n > 1)
        raise InputError(f"Key {twice!r} is given to more than one item.")


def by_modality(entries: Entries) -> list[tuple[str, NDArray[np.int64], Codes]]:
    """Return modality, rows and codes of each modality that occurs, images first."""
    return [
        (modality, entries.rows[modality], entries.codes[modality])
        for modality in MODALITIES
        if modality in entries.codes
    ]
