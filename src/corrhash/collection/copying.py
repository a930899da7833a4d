"""Copying a collection to another URI, and verifying the copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from corrhash._progress import report
from corrhash.collection.adding import preview_size_of
from corrhash.collection.judging import KIND
from corrhash.errors import InputError
from corrhash.index import engine_of
from corrhash.index.base import checksum

if TYPE_CHECKING:
    from corrhash.collection.collection import Collection


def copy_collection(source: Collection, uri: str) -> Collection:
    """Copy all items with their ids; see :meth:`Collection.copy_to`."""
    if engine_of(uri).look(uri) is None:
        copy = type(source).create(
            uri,
            source.model,
            store_continuous=source.stores_continuous,
            preview_size=preview_size_of(source.index),
            root=source.root,
        )
    elif Path(uri).resolve() == Path(source.uri).resolve():
        raise InputError("The destination is the collection itself. Copy to a new URI.")
    else:
        copy = type(source).open(uri, source.model)
    total, done = len(source), 0
    for entries in source.index.batches():
        codes = {name: (entries.rows[name], of) for name, of in entries.codes.items()}
        copy.index.upsert(entries.ids, codes, entries.items)
        done += len(entries)
        report("Copying", done, max(total, done))
    known = len(copy.index.records(KIND))  # of an interrupted copy
    copy.index.append(KIND, source.index.records(KIND)[known:])
    if n_judged := source.index.about.get("judged"):  # the model was trained on these
        copy.index.describe(judged=n_judged)
    ours, theirs = checksum(source.index), checksum(copy.index)
    if ours != theirs:
        raise InputError(
            f"{uri} differs from {source.uri}: {len(copy):,} and {len(source):,} items, checksums "
            f"{theirs[:12]} and {ours[:12]}. The destination already contained other items, or "
            "one of the two collections changed while copying. Copy to a new URI."
        )
    return copy
