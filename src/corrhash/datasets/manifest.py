"""Manifests: a CSV, Parquet or JSON Lines file that lists pictures, texts, labels and parts."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.datasets.base import PARTS, PairedDataset, RetrievalSplit
from corrhash.datasets.image_files import ImageFiles
from corrhash.datasets.label_names import label_table
from corrhash.datasets.splits import draw_own, split_of
from corrhash.datasets.text_files import read_text
from corrhash.errors import InputError, did_you_mean

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
NAMES = tuple(f"manifest{suffix}" for suffix in SUFFIXES)
"""What a manifest is called where a folder is named in its place."""

BETWEEN_LABELS = re.compile(r"[|;,]")
PART_OF = {
    **{part: part for part in PARTS},
    **dict.fromkeys(("training", "restval"), "train"),
    **dict.fromkeys(("val", "valid", "dev"), "validation"),
    **dict.fromkeys(("test", "queries"), "query"),
    **dict.fromkeys(("retrieval", "gallery", ""), "database"),
}
"""Words for the parts of a split, as people write them."""


def load(
    path: str | Path,
    seed: int = 0,
    *,
    image: str = "image",
    text: str = "text",
    labels: str = "labels",
    split: str = "split",
    pictures: str = ".",
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """The pairs that a manifest lists; lines of the same picture are one item.

    Parameters
    ----------
    path : the file.
    seed : of the split, if the manifest names none.
    image, text, labels, split : what its columns are called; the last two may be missing.
    pictures : the folder that paths start from, relative to that of the manifest.
    n_query, n_validation, n_train : sizes of a split that is drawn.
    """
    path = Path(path)
    columns = {"image": image, "text": text, "labels": labels, "split": split}
    items = _items(path, columns)
    home = path.parent / pictures
    named = [item.labels for item in items]
    label_names, table = label_table(named) if any(named) else ([], None)
    pairs = PairedDataset(
        images=ImageFiles([home / item.image for item in items]),
        texts=[" ".join(item.texts) for item in items],
        labels=table,
        keys=[item.key for item in items],
        label_names=label_names,
    )
    name = path.parent.resolve().name if path.name in NAMES else path.stem
    parts = [item.part for item in items]
    if any(part is not None for part in parts):
        return _given_split(path, pairs, name, parts)
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    return replace(draw_own(pairs, seed, sizes), name=name)


@dataclass
class _Item:
    """A picture and all that the lines about it say."""

    image: str
    key: str
    part: str | None
    texts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


def _items(path: Path, columns: Mapping[str, str]) -> list[_Item]:
    items: dict[str, _Item] = {}
    for number, line in _lines(path):
        if number == 1 or columns["image"] not in line:
            _check_columns(path, number, line, columns)
        image = str(line[columns["image"]] or "").strip().replace("\\", "/")
        if not image or "://" in image:
            raise InputError(
                f"Line {number} of {path} has {image!r} for a picture. Give the path of a file; "
                "download what is on the web first."
            )
        part = _part(path, number, line.get(columns["split"]))
        # One form of each letter: file systems write the accents of names in two ways.
        key = unicodedata.normalize("NFC", image)
        item = items.setdefault(key, _Item(image, key, part))
        if item.part != part:
            raise InputError(
                f"{path} puts {image!r} into two parts, {item.part} and {part} (line {number}). "
                "Lines of the same picture belong together: name one part."
            )
        item.texts += _text(line.get(columns["text"]))
        item.labels += _labels(line.get(columns["labels"]))
    if not items:
        raise InputError(f"{path} lists nothing. Write a line for each picture.")
    return list(items.values())


def _check_columns(path: Path, number: int, line: Mapping[str, Any], columns: Any) -> None:
    for kind in ("image", "text"):
        if columns[kind] not in line:
            raise InputError(
                f"Line {number} of {path} has no {columns[kind]!r}, but: {', '.join(line)}."
                f"{did_you_mean(columns[kind], line)} Say what the column is called: "
                f"--data {kind}=NAME."
            )


def _part(path: Path, number: int, value: Any) -> str | None:
    """The part that a line names; None if it has no such column."""
    if value is None:
        return None
    part = PART_OF.get(str(value).strip().lower())
    if part is None:
        raise InputError(
            f"Line {number} of {path} has the split {value!r}. Use one of: {', '.join(PARTS)}."
        )
    return part


def _text(value: Any) -> list[str]:
    if value is None:
        return []
    return [*map(str, value)] if isinstance(value, list) else [str(value).strip()]


def _labels(value: Any) -> list[str]:
    """A list of names, or names in one string with | ; or , between."""
    if value is None:
        return []
    values = value if isinstance(value, list) else BETWEEN_LABELS.split(str(value))
    return [name for name in (str(each).strip() for each in values) if name]


def _given_split(
    path: Path, pairs: PairedDataset, name: str, parts: list[str | None]
) -> RetrievalSplit:
    of_row = np.array([part or "database" for part in parts])
    rows = {part: np.flatnonzero(of_row == part) for part in PARTS}
    for part in ("train", "query"):
        if not len(rows[part]):
            raise InputError(
                f"No line of {path} has the split {part!r}. Name some, or leave the column out: "
                "then a split is drawn."
            )
    return split_of(
        pairs, name, train=rows["train"], validation=rows["validation"], query=rows["query"]
    )


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every line with its number and its cells by the names of their columns."""
    if path.suffix.lower() == ".parquet":
        return _parquet(path)
    return _json_lines(path) if path.suffix.lower() in (".jsonl", ".ndjson") else _csv(path)


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            cells = json.loads(line)
        except ValueError as error:
            raise InputError(f"Line {number} of {path} is not JSON: {error}.") from error
        if not isinstance(cells, dict):
            raise InputError(
                f"Line {number} of {path} is not an object. Write "
                '{"image": "a.jpg", "text": "a boat", "labels": ["boat"]}.'
            )
        yield number, cells


def _csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = read_text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    heading = lines[0]
    delimiter = max("\t;,", key=heading.count)
    reader = csv.DictReader(
        (f"{line}\n" for line in lines), delimiter=delimiter, restkey="", strict=True
    )
    reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
    try:
        for number, cells in enumerate(reader, 1):
            if cells.pop("", None):
                raise InputError(
                    f"Item {number} of {path} has more cells than the heading. Put texts that "
                    f"contain {delimiter!r} into quotes."
                )
            yield number, cells
    except csv.Error as error:
        raise InputError(f"Line {reader.line_num} of {path} cannot be read: {error}.") from error


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}.") from error
    rows = (cells for batch in table.to_batches() for cells in batch.to_pylist())
    yield from enumerate(rows, 1)
