"""Items that come over the wire, as records for a collection."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from corrhash.errors import InputError
from corrhash.records import Record
from corrhash.service.limits import Limits
from corrhash.service.messages import NewItem, NewItems
from corrhash.service.uploads import read_picture


def new_records(new: NewItems, limits: Limits) -> list[Record]:
    """The items as records, each picture decoded under the limits; none where one is wrong."""
    return list(_records(new.items, limits))


def _records(items: list[NewItem], limits: Limits) -> Iterator[Record]:
    for item in items:
        try:
            image = None if item.image is None else read_picture(_bytes_of(item.image), limits)
            yield Record(item.key, image, item.text, labels=item.labels, metadata=item.metadata)
        except InputError as error:
            raise InputError(f"Item {item.key!r}: {error}") from error


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("The picture is not in base64. Encode its file.") from error
