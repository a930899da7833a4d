"""Repairing a collection in a folder: copy what is whole to a new one, and list what is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._progress import report
from corrhash.codes import Codes
from corrhash.collection.collection import Collection
from corrhash.collection.creating import MODEL_FOLDER
from corrhash.collection.generations import model_folder
from corrhash.errors import InputError, StorageError
from corrhash.index.base import CodeIndex
from corrhash.index.items import MODALITIES, Entries
from corrhash.index.sqlite_connections import reporting
from corrhash.index.sqlite_damage import salvage
from corrhash.index.sqlite_records import salvage_records
from corrhash.index.sqlite_storage import DATABASE_FILE, read_about
from corrhash.methods.base import Hasher
from corrhash.model import Model, as_model

BATCH = 512


@dataclass
class Repaired:
    """The outcome of a repair: the new collection, its size, and what could not be salvaged."""

    collection: Collection
    n_items: int = 0
    problems: list[str] = field(default_factory=list)


def repair(
    folder: str | Path,
    target: str | Path,
    model: Model | str | Path | None = None,
    method: type[Hasher] = Hasher,
) -> Repaired:
    """Copy all undamaged items of a collection in a folder to a new collection.

    The damaged collection is only read. Items keep their ids, so results keep their order.

    Parameters
    ----------
    folder : the damaged collection.
    target : URI of a new collection.
    model : the model of the collection, if the copy in its folder is damaged too.
    method : class of the hasher, if it is not in ``METHODS``.
    """
    folder, path = Path(folder), Path(folder) / DATABASE_FILE
    if not path.is_file():
        raise InputError(f"No collection at {folder}: {path} not found.")
    problems, about = list[str](), dict[str, Any]()
    try:
        about = read_about(path) or {}
    except (InputError, StorageError) as error:
        problems.append(
            f"The description of the collection is damaged: {error} Check the folder that image "
            "paths are relative to: corrhash update --root DIR."
        )
    own = model_folder(folder, about)
    if not about and model is None and len([*folder.glob(f"{MODEL_FOLDER}*")]) > 1:
        raise InputError(
            f"The settings stored in {folder} are damaged, and the folder contains several models. "
            "Pass the one that encoded the items: --model DIR."
        )
    loaded = as_model(own if model is None else model, method)
    if about.get("fingerprint", loaded.fingerprint) != loaded.fingerprint:
        raise InputError(
            f"{folder} was not created with the model in {model or own}: the "
            "fingerprints differ. Pass the original model."
        )
    with reporting(path):
        found = salvage(path, loaded.n_bits)
        first = next(found, None)
        continuous = isinstance(first, Entries) and first.items[0].image_continuous is not None
        copy = Collection.create(
            target,
            loaded,
            store_continuous=about.get("store_continuous", continuous),
            root=about.get("root", folder),
        )
        repaired = Repaired(copy, problems=problems)
        for entries in _joined([] if first is None else [first], found, problems):
            repaired.n_items += _store(copy.index, entries, problems)
            report("Salvaging", repaired.n_items, repaired.n_items)
        records, lost = salvage_records(path)
        problems += lost
        for kind, of_kind in records.items():
            copy.index.append(kind, of_kind)
        if n_judged := about.get("judged"):  # the model was trained on these
            copy.index.describe(judged=n_judged)
    return repaired


def _joined(
    first: list[Entries | str], rest: Iterator[Entries | str], problems: list[str]
) -> Iterator[list[Entries]]:
    """Yield lists of entries, and note the problems between them."""
    batch: list[Entries] = []
    for source in (iter(first), rest):
        for one in source:
            if isinstance(one, str):
                problems.append(one)
                continue
            batch.append(one)
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def _store(index: CodeIndex, batch: list[Entries], problems: list[str]) -> int:
    """Store salvaged entries, together if their keys are distinct; return how many."""
    if len(batch) > 1:
        with suppress(InputError):
            index.upsert(*_stacked(batch, index.n_bits))
            return len(batch)
    n_stored = 0
    for entries in batch:
        try:
            index.upsert(*_stacked([entries], index.n_bits))
            n_stored += 1
        except InputError as error:
            problems.append(f"Item {entries.ids[0]}: {error}")
    return n_stored


def _stacked(batch: list[Entries], n_bits: int) -> tuple[Any, Any, Any]:
    """Return ids, codes by modality and items of entries of one item each."""
    codes = {}
    for modality in MODALITIES:
        rows = [row for row, entries in enumerate(batch) if modality in entries.codes]
        if rows:
            packed = np.concatenate([batch[row].codes[modality].packed for row in rows])
            codes[modality] = (np.array(rows), Codes(packed, n_bits))
    return (
        [int(entries.ids[0]) for entries in batch],
        codes,
        [entries.items[0] for entries in batch],
    )
