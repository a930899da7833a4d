"""Ready features: images, texts and labels as arrays in files, as hashing papers share them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from corrhash.datasets.array_files import read_arrays
from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.splits import draw_own
from corrhash.errors import InputError, did_you_mean

# What people call their arrays: images, texts and labels, of training and query items, and of the
# database where it is kept apart.
SPLIT_NAMES = (
    {"train": "I_tr T_tr L_tr", "query": "I_te T_te L_te", "database": "I_db T_db L_db"},
    {"train": "I_tr T_tr L_tr", "query": "I_te T_te L_te"},
    {"train": "I_train T_train L_train", "query": "I_test T_test L_test"},
    {
        "train": "train_images train_texts train_labels",
        "query": "query_images query_texts query_labels",
        "database": "database_images database_texts database_labels",
    },
    {
        "train": "train_images train_texts train_labels",
        "query": "query_images query_texts query_labels",
    },
    {"train": "XTrain YTrain LTrain", "query": "XTest YTest LTest"},
)
WHOLE_NAMES = ("images texts labels", "images tags labels", "IAll YAll LAll", "XAll YAll LAll")


def load(
    path: str | Path,
    seed: int = 0,
    *,
    train: str | None = None,
    query: str | None = None,
    database: str | None = None,
    whole: str | None = None,
    n_query: int | None = None,
    n_validation: int | None = None,
    n_train: int | None = None,
) -> RetrievalSplit:
    """The pairs in a file of arrays, or in all such files of a folder.

    Arrays that are named as others name theirs are found; for other names, say them: ``train`` is
    three names with spaces between, of images, texts and labels, such as ``"I_tr T_tr L_tr"``.

    Parameters
    ----------
    path : a .npz or .mat file, or a folder of .npy, .npz and .mat files.
    seed : of the split, where one is drawn.
    train, query, database : the names of the arrays of each part. Without ``database`` everything
        but the queries is searched.
    whole : the names of arrays that hold every item; a split is drawn.
    n_query, n_validation, n_train : sizes of a split that is drawn.
    """
    path = Path(path)
    arrays = read_arrays(path)
    sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
    given = {"train": train, "query": query, "database": database}
    if whole is not None or any(_has(arrays, names) for names in WHOLE_NAMES):
        three = whole or next(names for names in WHOLE_NAMES if _has(arrays, names))
        split = draw_own(_parts(path, arrays, {"whole": three})["whole"], seed, sizes)
        return replace(split, name=path.stem)
    names = {part: of for part, of in given.items() if of} or _known(arrays)
    if "train" not in names or "query" not in names:
        raise InputError(
            f"{path} holds the arrays {', '.join(sorted(arrays)) or 'of nobody'}. Say which are "
            'images, texts and labels: --data train="I_tr T_tr L_tr" --data query="I_te T_te '
            'L_te", or --data whole="I T L".'
        )
    return _joined(_parts(path, arrays, names), path.stem)


def _has(arrays: Mapping[str, Any], names: str) -> bool:
    return set(names.split()) <= set(arrays)


def _known(arrays: Mapping[str, Any]) -> dict[str, str]:
    """The first naming all of whose arrays are there."""
    for naming in SPLIT_NAMES:
        if _has(arrays, " ".join(naming.values())):
            return naming
    return {}


def _parts(
    path: Path, arrays: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, PairedDataset]:
    """The pairs of each part, whose columns of labels mean the same in all of them."""
    taken = {part: _taken(path, arrays, of) for part, of in names.items()}
    tables = _label_tables({part: of[2] for part, of in taken.items() if len(of) == 3})
    return {
        part: PairedDataset(_images(images), texts, tables.get(part))
        for part, (images, texts, *_) in taken.items()
    }


def _taken(path: Path, arrays: Mapping[str, Any], names: str) -> list[Any]:
    """Images, texts and labels; labels may be left out."""
    listed = names.split()
    if len(listed) not in (2, 3):
        raise InputError(
            f"Name the arrays of images, texts and labels, with spaces between. Got {names!r}."
        )
    for name in listed:
        if name not in arrays:
            raise InputError(
                f"{path} has no array {name!r}.{did_you_mean(name, arrays)} "
                f"It has: {', '.join(sorted(arrays))}."
            )
    return [arrays[name] for name in listed]


def _images(array: Any) -> Any:
    """Features as they are; pictures with their colours last."""
    if sp.issparse(array):
        return array.toarray()
    if array.ndim == 4 and array.shape[3] != 3 and array.shape[1] == 3:
        return np.moveaxis(array, 1, 3)
    return array


def _label_tables(labels: dict[str, Any]) -> dict[str, Any]:
    """(n, c) of 0 and 1 for each part; a class number for each item becomes such a table.

    A part may lack some classes: its columns are those of the classes of all parts.
    """
    numbers = {part: of.ravel() for part, of in labels.items() if not _is_table(of)}
    if not numbers:
        return labels
    classes = np.unique(np.concatenate(list(numbers.values())))
    if set(classes) <= {0, 1}:  # whether an item carries the one label
        return labels | {part: of[:, None] for part, of in numbers.items()}
    columns = {part: np.searchsorted(classes, of) for part, of in numbers.items()}
    one_a_class = np.eye(len(classes), dtype=np.uint8)
    return labels | {part: one_a_class[of] for part, of in columns.items()}


def _is_table(labels: Any) -> bool:
    return sp.issparse(labels) or (labels.ndim == 2 and labels.shape[1] > 1)


def _joined(parts: dict[str, PairedDataset], name: str) -> RetrievalSplit:
    """All parts in one list of pairs; training items that stand in the database too count once."""
    order = [part for part in ("database", "train", "query") if part in parts]
    train_rows = None
    if "database" in parts:
        train_rows = _rows_of(parts["train"], parts["database"])
        if train_rows is not None:
            order.remove("train")
    pairs = _stacked([parts[part] for part in order])
    ends = np.cumsum([0, *(len(parts[part]) for part in order)])
    rows = {
        part: np.arange(start, end)
        for part, start, end in zip(order, ends[:-1], ends[1:], strict=True)
    }
    train = rows["train"] if train_rows is None else train_rows
    database = np.union1d(rows.get("database", train), train)
    nobody = np.empty(0, dtype=np.int64)
    return RetrievalSplit(pairs, train, nobody, rows["query"], database, name=name)


def _rows_of(pairs: PairedDataset, others: PairedDataset) -> np.ndarray | None:
    """The rows of some pairs among others, known by every byte; None if one is not among them."""
    row_of = {content: row for row, content in reversed([*enumerate(_contents(others))])}
    rows = [row_of.get(content, -1) for content in _contents(pairs)]
    return None if min(rows) < 0 or len(set(rows)) < len(rows) else np.array(rows)


def _contents(pairs: PairedDataset) -> list[bytes]:
    texts = pairs.texts.toarray() if sp.issparse(pairs.texts) else np.asarray(pairs.texts)
    both = zip(pairs.images, texts, strict=True)
    return [image.tobytes() + text.tobytes() for image, text in both]


def _stacked(parts: list[PairedDataset]) -> PairedDataset:
    labels = [part.labels for part in parts]
    texts = [part.texts for part in parts]
    for what, widths in (
        ("features of images", {part.images.shape[1:] for part in parts}),
        ("features of texts", {part.texts.shape[1:] for part in parts}),
        ("labels", {table.shape[1] for table in labels if table is not None}),
    ):
        if len(widths) > 1:
            raise InputError(
                f"The parts have different numbers of {what}: {sorted(widths, key=str)}. "
                "Save arrays of equal width."
            )
    sparse = any(sp.issparse(text) for text in texts)
    return PairedDataset(
        np.concatenate([part.images for part in parts]),
        sp.vstack(texts, format="csr") if sparse else np.concatenate(texts),
        None if any(table is None for table in labels) else sp.vstack(labels, format="csr"),
    )
