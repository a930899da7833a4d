"""Where the records of a collection come from: datasets, folders of pictures, lists, shards."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.datasets import DATASETS, ImageFiles, Reader, RetrievalSplit, load_raw
from corrhash.datasets.base import PARTS
from corrhash.datasets.folder import picture_files, read_captions
from corrhash.datasets.manifest import SUFFIXES
from corrhash.datasets.picture_check import check_pictures, leave_out_unreadable
from corrhash.errors import InputError, did_you_mean
from corrhash.records import Record, Unusable, pair_records
from corrhash.sources.base import EVERYTHING, Share, Source
from corrhash.sources.lists import SUFFIX, open_list
from corrhash.sources.parquet import open_parquet
from corrhash.sources.tar_shards import open_tar_shards

MANIFEST = f"manifest{SUFFIX}"

__all__ = ["Share", "Source", "open_source"]


def open_source(
    source: str,
    reader: Reader,
    *,
    part: str = "database",
    seed: int = 0,
    options: dict[str, Any] | None = None,
    features: Path | None = None,
    share: Share = EVERYTHING,
) -> Source:
    """The records that a name stands for.

    Parameters
    ----------
    source : a folder of pictures; a .jsonl file whose lines hold ``image`` (a path, seen from the
        file), ``text``, ``labels``, ``key`` and any other fields, which become metadata, or one
        that ``corrhash export`` wrote; the folder of one called ``manifest.jsonl``; tar shards or
        Parquet files, one or a folder of them; another manifest; or the name of a dataset.
    reader : of the model, which computes and caches the features of a dataset.
    part, seed, options : of a dataset: which of its items, and how it is split.
    features : a file with a row for each line of a .jsonl file, for models that read such rows.
    share : what this process reads, where several work on one source: whole files of a folder of
        shards, else every so many'th item.
    """
    path = Path(source)
    if path.is_dir() and (path / MANIFEST).is_file():
        path = path / MANIFEST
    if path.suffix == SUFFIX:
        return open_list(path, features, share)
    if shards := open_tar_shards(path, share) or open_parquet(path, share):
        return shards
    if path.is_dir():
        return _folder(path, share)
    if source in DATASETS or path.suffix in SUFFIXES:
        return _dataset(source, reader, part, seed, options or {}, share)
    raise InputError(
        f"There is no folder, no {SUFFIX} file and no dataset {source!r}."
        f"{did_you_mean(source, DATASETS)} corrhash datasets lists the datasets."
    )


def _folder(folder: Path, share: Share) -> Source:
    """The pictures below a folder, by their path within it, with the words that go with them."""
    paths = picture_files(folder)
    if not paths:
        raise InputError(f"There are no pictures in {folder}. Check the path.")
    own = list(share.of(paths))
    records = (
        Record(path.relative_to(folder).as_posix(), path, caption)
        for path, caption in zip(own, read_captions(own), strict=True)
    )
    return Source(records, len(own))


def _dataset(
    name: str, reader: Reader, part: str, seed: int, options: dict[str, Any], share: Share
) -> Source:
    if part not in PARTS:
        raise InputError(f"There is no part {part!r}. Choose one of: {', '.join(PARTS)}.")
    raw = load_raw(name, seed=seed, **options)
    features, unusable = reader.image_features, list[Unusable]()
    if isinstance(raw.pairs.images, ImageFiles) and features is not None and not features.of_file:
        whole, raw = raw, leave_out_unreadable(raw)  # features are computed of all or none
        unusable = _unreadable(whole, getattr(whole, f"{part}_rows"))
    read = reader.read_split(raw)
    records = pair_records(getattr(read, part), getattr(raw, part))
    total = len(getattr(raw, part)) + len(unusable)
    return Source(share.of(chain(records, unusable)), share.size(total))


def _unreadable(split: RetrievalSplit, rows: np.ndarray) -> list[Unusable]:
    """Those of some items whose pictures cannot be read, each with the reason."""
    keys, paths = split.pairs.row_keys(), split.pairs.images.paths
    check = check_pictures(split.pairs.images)  # just made: its list is read
    reasons = {row: f"There is no picture {paths[row]}. Check the path." for row in check.missing}
    for row, reason in check.damaged.items():
        reasons[row] = f"Cannot read the picture {paths[row]}: {reason}. Repair it."
    return [Unusable(keys[row], reasons[row]) for row in rows.tolist() if row in reasons]
