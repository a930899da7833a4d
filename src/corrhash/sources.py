"""Where the records of a collection come from: a dataset, a folder of pictures, a list of items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corrhash.datasets import DATASETS, Reader, load_raw
from corrhash.datasets.base import PARTS
from corrhash.datasets.feature_file import read_feature_file
from corrhash.datasets.folder import picture_files, read_captions
from corrhash.datasets.manifest import SUFFIXES
from corrhash.errors import InputError, did_you_mean
from corrhash.records import Record, pair_records

LIST = ".jsonl"
MANIFEST = f"manifest{LIST}"


@dataclass(frozen=True)
class Source:
    """Records in a fixed order, and how many there are."""

    records: Iterator[Record]
    total: int


def open_source(
    source: str,
    reader: Reader,
    *,
    part: str = "database",
    seed: int = 0,
    options: dict[str, Any] | None = None,
    features: Path | None = None,
) -> Source:
    """The records that a name stands for.

    Parameters
    ----------
    source : a folder of pictures; a .jsonl file whose lines hold ``image`` (a path, seen from the
        file), ``text``, ``labels``, ``key`` and any other fields, which become metadata, or the
        folder of one called ``manifest.jsonl``; another manifest; or the name of a dataset.
    reader : of the model, which computes and caches the features of a dataset.
    part, seed, options : of a dataset: which of its items, and how it is split.
    features : a file with a row for each line of a .jsonl file, for models that read such rows.
    """
    path = Path(source)
    if path.is_dir() and (path / MANIFEST).is_file():
        path = path / MANIFEST
    if path.is_dir():
        return _folder(path)
    if path.suffix == LIST:
        return _list(path, features)
    if source in DATASETS or path.suffix in SUFFIXES:
        return _dataset(source, reader, part, seed, options or {})
    raise InputError(
        f"There is no folder, no {LIST} file and no dataset {source!r}."
        f"{did_you_mean(source, DATASETS)} corrhash datasets lists the datasets."
    )


def _folder(folder: Path) -> Source:
    """The pictures below a folder, by their path within it, with the words that go with them."""
    paths = picture_files(folder)
    if not paths:
        raise InputError(f"There are no pictures in {folder}. Check the path.")
    captions = read_captions(paths)
    records = (
        Record(path.relative_to(folder).as_posix(), path, caption)
        for path, caption in zip(paths, captions, strict=True)
    )
    return Source(records, len(paths))


def _list(path: Path, features: Path | None) -> Source:
    try:
        with path.open(encoding="utf-8") as file:
            total = sum(1 for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {path}: {error}. Check the path.") from error
    rows = None if features is None else read_feature_file(features, total)
    return Source(_lines(path, rows), total)


def _lines(path: Path, features: Any) -> Iterator[Record]:
    row = 0
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                content = dict(json.loads(line))
            except (ValueError, TypeError) as error:
                raise InputError(
                    f'Line {number} of {path} is no object of JSON, as {{"image": "a.jpg"}}: '
                    f"{error}."
                ) from error
            yield _record(content, path.parent, None if features is None else features[row])
            row += 1


def _record(content: dict[str, Any], folder: Path, vector: Any) -> Record:
    name = content.pop("image", None)
    picture = None if name is None else folder / name
    known = {each: content.pop(each) for each in ("text", "labels") if content.get(each)}
    key = str(content.pop("key", "") or name or "")
    metadata = {each: value for each, value in content.items() if value not in (None, "", [])}
    if vector is None:
        return Record(key, picture, **known, metadata=metadata)
    return Record(key, vector, **known, metadata=metadata, picture=picture)


def _dataset(name: str, reader: Reader, part: str, seed: int, options: dict[str, Any]) -> Source:
    if part not in PARTS:
        raise InputError(f"There is no part {part!r}. Choose one of: {', '.join(PARTS)}.")
    raw = load_raw(name, seed=seed, **options)
    read = reader.read_split(raw)
    pairs, shown = getattr(read, part), getattr(raw, part)
    return Source(pair_records(pairs, shown), len(pairs))
