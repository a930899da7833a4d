"""Updating items of a collection: new texts, images, labels or metadata, encoded where needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from corrhash.codes import Codes
from corrhash.collection.adding import preview_size_of, root_of, stored_path
from corrhash.collection.base import Added
from corrhash.collection.encoding import encode_records
from corrhash.collection.generations import Encoder, check_generation
from corrhash.collection.search import stores_continuous
from corrhash.datasets.records import Record, parse_labels
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.index.items import FIELDS, MODALITIES, Item
from corrhash.model import Model

UPDATABLE = ("image", "text", "labels", "metadata")

_New = dict[str, tuple[Codes, Item]]
"""The code of a new image or text, and the item that holds what belongs to it, by key."""


def update_batch(index: CodeIndex, encoder: Encoder, changes: Iterable[Mapping[str, Any]]) -> Added:
    """Change fields of items in one transaction; items that cannot be changed are skipped.

    Raises SwitchedError if the model of the collection is replaced meanwhile.
    """
    merged = _merged(changes)
    new, skipped = _encode(index, encoder.model, merged)
    with index.writing():
        check_generation(index, encoder.generation)
        ids = {key: n for key, n in index.ids_of(list(merged)).items() if key not in skipped}
        items = dict(zip(ids, index.get(list(ids.values()), FIELDS), strict=True))
        codes = {modality: _codes_by_key(index, ids, modality) for modality in MODALITIES}
        changed: dict[str, Item] = {}
        for key, change in merged.items():
            old = items.get(key)
            if old is None:
                skipped.setdefault(key, "No item has this key.")
                continue
            item = _changed(old, change, {name: of.get(key) for name, of in new.items()})
            for modality in MODALITIES:
                if key in new[modality]:
                    codes[modality][key] = new[modality][key][0]
            if change.get("text") == "":
                codes["text"].pop(key, None)
            if not any(key in of_modality for of_modality in codes.values()):
                skipped[key] = "It would have neither an image nor a text. Delete it instead."
            elif item != old:
                changed[key] = item
        _store(index, {key: ids[key] for key in changed}, changed, codes)
    n_unchanged = len(merged) - len(changed) - len(skipped)
    return Added(updated=len(changed), unchanged=n_unchanged, skipped=skipped)


def _merged(changes: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check changes, and merge those of one key."""
    merged: dict[str, dict[str, Any]] = {}
    for change in changes:
        one = dict(change)
        key = one.pop("key", None)
        if not isinstance(key, str) or not key:
            raise InputError(f"Each change must have a 'key' that identifies an item, got {key!r}.")
        for name in one:
            if name not in UPDATABLE:
                raise InputError(
                    f"Cannot update {name!r}. Fields that can change: {', '.join(UPDATABLE)}."
                )
        if "labels" in one:
            one["labels"] = parse_labels(one["labels"])
        metadata = one.get("metadata", {})
        if not isinstance(metadata, Mapping):
            raise InputError(f"metadata must be a dictionary of fields to set, got {metadata!r}.")
        set_fields = {name: value for name, value in metadata.items() if value is not None}
        Item(key, one.get("text", ""), one.get("labels", ()), set_fields)  # validates
        before = merged.get(key, {"metadata": {}})
        merged[key] = {**before, **one, "metadata": {**before["metadata"], **metadata}}
    return merged


def _encode(
    index: CodeIndex, model: Model, changes: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, _New], dict[str, str]]:
    """Encode new images and texts; return them by modality, and the reasons of those that fail."""
    new: dict[str, _New] = {}
    skipped: dict[str, str] = {}
    # Each modality on its own: a record with both would be kept if only one can be encoded.
    images = [Record(key, one["image"]) for key, one in changes.items() if "image" in one]
    texts = [Record(key, text=one["text"]) for key, one in changes.items() if one.get("text")]
    for modality, records in zip(MODALITIES, (images, texts), strict=True):
        contents = [record.content() for record in records]
        encoded = encode_records(
            records,
            model,
            store_continuous=stores_continuous(index),
            preview_size=preview_size_of(index),
            contents=contents,
        )
        checksums = {record.key: c for record, c in zip(records, contents, strict=True)}
        skipped |= encoded.skipped
        new[modality] = {}
        if modality not in encoded.codes:
            continue
        rows, codes = encoded.codes[modality]
        for at, row in enumerate(rows.tolist()):
            item = encoded.items[row]
            path = stored_path(item.path, root_of(index))
            item = replace(item, path=path, content=checksums[item.key])
            new[modality][item.key] = codes[[at]], item
    return new, skipped


def _changed(
    old: Item, change: Mapping[str, Any], new: Mapping[str, tuple[Codes, Item] | None]
) -> Item:
    """Return an item with the changes; the stamp stays, so that adding its record keeps them."""
    metadata = {**old.metadata, **change["metadata"]}
    fields = {
        "text": change.get("text", old.text),
        "labels": tuple(change.get("labels", old.labels)),
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }
    if change.get("text") == "":
        fields["text_continuous"] = None
    if (text := new["text"]) is not None:
        fields["text_continuous"] = text[1].text_continuous
    if (image := new["image"]) is not None:
        for name in ("path", "thumbnail", "content", "image_continuous"):
            fields[name] = getattr(image[1], name)
    return replace(old, **fields)


def _codes_by_key(index: CodeIndex, ids: Mapping[str, int], modality: str) -> dict[str, Codes]:
    keys = list(ids)
    rows, codes = index.codes_of(list(ids.values()), modality)
    return {keys[row]: codes[[at]] for at, row in enumerate(rows.tolist())}


def _store(
    index: CodeIndex,
    ids: Mapping[str, int],
    items: Mapping[str, Item],
    codes: Mapping[str, Mapping[str, Codes]],
) -> None:
    if not items:
        return
    given = {}
    for modality, of_modality in codes.items():
        coded = [(row, of_modality[key]) for row, key in enumerate(items) if key in of_modality]
        if coded:
            packed = np.concatenate([code.packed for _, code in coded])
            given[modality] = ([row for row, _ in coded], Codes(packed, index.n_bits))
    index.upsert(list(ids.values()), given, list(items.values()))
