"""Item: what an engine keeps beside the codes of one picture, text or pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corrhash.errors import InputError
from corrhash.filters import LARGEST, NAME, RESERVED, Value

SIDES = ("image", "text")
"""An item has the code of its picture, of its text, or of both."""

SHOWN = ("key", "text", "labels", "metadata", "path")
"""What is read of an item unless more is asked for: the rest is large, or for machines."""

FIELDS = (*SHOWN, "thumbnail", "stamp", "image_scores", "text_scores")


@dataclass(frozen=True)
class Item:
    """What is known of an item beside its codes.

    Parameters
    ----------
    key : its name, unique in a collection.
    text : its caption or tags.
    labels : names of what it shows.
    metadata : more fields, by which a search may be filtered: texts, numbers and truths.
    path : where its picture came from.
    thumbnail : a small JPEG of the picture.
    stamp : tells whether the item has changed since it was encoded.
    image_scores, text_scores : float16 scores before they were rounded to codes, if they are kept.

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
    image_scores: bytes | None = field(default=None, repr=False)
    text_scores: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("key", "text", "path", "stamp"):
            _check_text(getattr(self, name), name)
        labels = _as_labels(self.labels)
        for label in labels:
            _check_text(label, "A label")
        object.__setattr__(self, "labels", labels)
        metadata = {name: _check_value(name, value) for name, value in self.metadata.items()}
        object.__setattr__(self, "metadata", metadata)

    def fields(self) -> dict[str, Any]:
        """What filters read, by name."""
        texts = {"key": self.key, "text": self.text, "path": self.path}
        return {**self.metadata, **texts, "labels": self.labels}

    def only(self, names: Sequence[str]) -> Item:
        """The item with these fields alone."""
        empty = Item()
        return replace(self, **{n: getattr(empty, n) for n in FIELDS if n not in names})


def check_fields(names: Sequence[str]) -> tuple[str, ...]:
    """Names of fields, if items have them."""
    for name in names:
        if name not in FIELDS:
            raise InputError(f"Items have no field {name!r}. Choose among: {', '.join(FIELDS)}.")
    return tuple(names)


def check_side(side: str) -> str:
    """The side of an item that is searched, if it is one."""
    if side not in SIDES:
        raise InputError(f"An item has two sides, image and text. Got {side!r}.")
    return side


def _as_labels(labels: Any) -> tuple[Any, ...]:
    if isinstance(labels, str):
        return (labels,)
    if not isinstance(labels, Iterable):
        raise InputError(f"Labels of an item are a list of texts. Got {labels!r}.")
    return tuple(labels)


def _check_text(value: Any, what: str) -> None:
    if not isinstance(value, str) or "\0" in value or not _is_unicode(value):
        raise InputError(
            f"{what} of an item is a text without zero characters or halves of characters. "
            f"Got {value!r}."
        )


def _is_unicode(text: str) -> bool:
    """Whether it can be stored: file names that are not Unicode come as halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_value(name: str, value: Any) -> Value:
    if not isinstance(name, str) or NAME.fullmatch(name) is None or name.lower() in RESERVED:
        raise InputError(
            f"A field of metadata is named with letters a to z, digits and _, and not "
            f"{', '.join(RESERVED)}. Got {name!r}. Choose another name."
        )
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        _check_text(value, f"{name} of the metadata")
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and abs(value) <= LARGEST:  # nor is it nan
        return value
    raise InputError(
        f"Metadata are texts, truths and numbers up to 2^53. Got {value!r} for {name!r}. "
        "Write it as a text, or leave it out."
    )
