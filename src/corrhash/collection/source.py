"""Sources of a collection: a dataset by name, or a file or folder of any format."""

from __future__ import annotations

import inspect
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.datasets import (
    DATASETS,
    ImageFiles,
    Reader,
    RetrievalSplit,
    dataset_location,
    load_raw,
)
from corrhash.datasets.base import PARTS
from corrhash.datasets.formats import EVERYTHING, RecordStream, Shard, find_format
from corrhash.datasets.image_check import check_images, drop_unreadable
from corrhash.datasets.records import UnreadableRecord, dataset_records
from corrhash.errors import ParameterError

TABLES_ONLY = "applies to tables only"


def open_source(
    source: str,
    reader: Reader,
    *,
    part: str | None = None,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    features: Path | None = None,
    shard: Shard = EVERYTHING,
    codes: bool = False,
) -> RecordStream:
    """Open the records of a source.

    Parameters
    ----------
    source : the name of a dataset; or a folder of images, a table (CSV, TSV, JSON Lines, Parquet),
        WebDataset tar shards or arrays (.npz, .mat), all of whose items are read.
    reader : of the model; it computes and caches the image features of a named dataset.
    part, seed : of a named dataset: ``database`` by default, and the seed of its split.
    options : of the dataset or the file format, as in training.
    features : a file with a feature vector for each item of a table.
    shard : which part of the records this process reads.
    codes : read ready codes from a table or from arrays.
    """
    if dataset_location(source) in DATASETS and not codes:
        if features is not None:
            raise ParameterError(
                "features", f"{TABLES_ONLY}, but {source} is a dataset. Remove this option."
            )
        part = "database" if part is None else part
        return _open_dataset(source, reader, part, seed, options or {}, shard)
    if part is not None:
        raise ParameterError(
            "part",
            f"applies to named datasets only, got {part!r} for {source}. Every item of a file or "
            "folder is read, so remove this option.",
        )
    format, path = find_format(Path(source))
    known = inspect.signature(format.read).parameters
    how = {name: value for name, value in (options or {}).items() if name in known}
    if features is not None:
        if "features" not in known:
            raise ParameterError("features", f"{TABLES_ONLY}, got {source}. Remove this option.")
        how["features"] = features
    if codes:
        if "codes" not in known:
            raise ParameterError(
                "codes", f"applies to tables and arrays only, got {source}. Remove this option."
            )
        how["codes"] = True
    return format.read(path, shard, **how)


def _open_dataset(
    name: str, reader: Reader, part: str, seed: int, options: dict[str, Any], shard: Shard
) -> RecordStream:
    if part not in PARTS:
        raise ParameterError("part", f"must be one of {', '.join(PARTS)}, got {part!r}.")
    raw = load_raw(name, seed=seed, **options)
    features, unreadable = reader.image_features, list[UnreadableRecord]()
    if isinstance(raw.pairs.images, ImageFiles) and features is not None and not features.of_file:
        whole, raw = raw, drop_unreadable(raw)  # features need every image
        unreadable = _unreadable(whole, getattr(whole, f"{part}_rows"))
    read = reader.read_split(raw)
    records = dataset_records(getattr(read, part), getattr(raw, part))
    total = len(getattr(raw, part)) + len(unreadable)
    return RecordStream(shard.select(chain(records, unreadable)), shard.size(total))


def _unreadable(split: RetrievalSplit, rows: np.ndarray) -> list[UnreadableRecord]:
    """Return those of ``rows`` whose images cannot be decoded, with the reasons."""
    keys, paths = split.pairs.row_keys(), split.pairs.images.paths
    check = check_images(split.pairs.images)  # cached by the first check
    reasons = {row: f"Image not found: {paths[row]}." for row in check.missing}
    for row, reason in check.damaged.items():
        reasons[row] = f"Cannot decode the image {paths[row]}: {reason}."
    return [UnreadableRecord(keys[row], reasons[row]) for row in rows.tolist() if row in reasons]
