"""Arrays of images, texts and labels in .npz, .mat and .npy files, as hashing papers share them.

Pickled objects are never read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from corrhash._files import open_regular
from corrhash.codes import Codes, check_n_bits
from corrhash.datasets.base import PairedDataset, RetrievalSplit
from corrhash.datasets.feature_cache import UNREADABLE_FEATURES
from corrhash.datasets.formats.base import EVERYTHING, RecordStream, Shard
from corrhash.datasets.formats.matlab import read_matlab
from corrhash.datasets.records import Record, code_rows, dataset_records
from corrhash.datasets.splits import draw_user_split
from corrhash.errors import InputError, did_you_mean

SUFFIXES = (".npz", ".mat", ".npy")
PACKED = "packed_"
"""Prefix of packed codes in the files of :func:`corrhash.save_codes`."""

UNREADABLE_ARRAYS = (*UNREADABLE_FEATURES, AttributeError, struct.error)
"""Exceptions that NumPy, SciPy and h5py raise for damaged files."""

# Names that published files give to the arrays of images, texts and labels.
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
WHOLE_NAMES = (
    *("images texts labels", "images tags labels", "IAll YAll LAll", "XAll YAll LAll"),
    "images texts",
)
NAME_THEM = (
    'Name the image, text and label arrays: --data train="I_tr T_tr L_tr" --data query="I_te T_te '
    'L_te", or --data whole="I T L"'
)
RENAME_THEM = "Save them under the names images, texts and, if there are any, labels."


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
    """Load the pairs in a file of arrays, or in all such files of a folder, for training.

    Common names of arrays are recognized. Others are given as three names separated by spaces, of
    images, texts and labels: ``train="I_tr T_tr L_tr"``.

    Parameters
    ----------
    path : a .npz or .mat file, or a folder of .npy, .npz and .mat files.
    seed : of a drawn split.
    train, query, database : names of the arrays of each part. Without ``database``, all items but
        the queries are the database.
    whole : names of arrays that hold every item; a split is drawn.
    n_query, n_validation, n_train : sizes of a drawn split.
    """
    path = Path(path)
    parts = _read_parts(path, train, query, database, whole, NAME_THEM)
    if "whole" in parts:
        sizes = {"n_query": n_query, "n_validation": n_validation, "n_train": n_train}
        drawn = draw_user_split(parts["whole"], seed, sizes, path.name)
        return replace(drawn, name=path.stem)
    return _join_parts(parts, path.stem)


def read(
    path: Path,
    shard: Shard = EVERYTHING,
    *,
    train: str | None = None,
    query: str | None = None,
    database: str | None = None,
    whole: str | None = None,
    codes: bool = False,
) -> RecordStream:
    """Stream every item of the arrays; the parameters are those of :func:`load`.

    Keys are the name of the file and the number of the row. A shard is every ``count``-th item.
    With ``codes``, the arrays ``image``, ``text`` and ``keys`` have ready codes.
    """
    if codes:
        return _read_codes(path, shard)
    parts = _read_parts(path, train, query, database, whole, RENAME_THEM)
    pairs = parts["whole"] if "whole" in parts else _join_parts(parts, path.stem).pairs
    pairs = replace(pairs, keys=[f"{path.stem}/{row}" for row in range(len(pairs))])
    return RecordStream(shard.select(dataset_records(pairs)), shard.size(len(pairs)))


def _read_codes(path: Path, shard: Shard) -> RecordStream:
    """Stream records with ready codes, as :func:`corrhash.save_codes` writes them."""
    arrays = {name.removeprefix(PACKED): array for name, array in read_arrays(path).items()}
    names = {"image_code": ("image", "images", "codes"), "text_code": ("text", "texts")}
    found: dict[str, Any] = {
        field: _code_array(next(name for name in of if name in arrays), arrays, path)
        for field, of in names.items()
        if any(name in arrays for name in of)
    }
    if not found:
        raise InputError(
            f"{path} has no codes; it contains: {', '.join(sorted(arrays)) or '(none)'}. Save them "
            "as image, text or both, with keys."
        )
    n = len(next(iter(found.values())))
    keys = [str(key) for key in np.ravel(arrays.get("keys", arrays.get("ids", ()))).tolist()]
    keys = keys or [f"{path.stem}/{row}" for row in range(n)]
    for name, codes in (*found.items(), ("keys", keys)):
        if len(codes) != n:
            raise InputError(f"{path} has {n:,} codes, but {name} has {len(codes):,} rows.")
    records = (
        Record(keys[row], **{field: codes[row] for field, codes in found.items()})
        for row in range(n)
    )
    return RecordStream(shard.select(records), shard.size(n))


def _code_array(name: str, arrays: Mapping[str, Any], path: Path) -> Codes:
    """Return the codes of an array: packed with ``n_bits``, or a number per bit."""
    packed = packed_codes(name, arrays)
    return code_rows(np.asarray(arrays[name]), f"{name} in {path}") if packed is None else packed


def packed_codes(name: str, arrays: Mapping[str, Any]) -> Codes | None:
    """Return the codes of an array that is packed with ``n_bits``; None of any other."""
    array = arrays[name]
    if "n_bits" not in arrays or array.dtype != np.uint8 or array.ndim != 2:
        return None
    n_bits = check_n_bits(int(np.ravel(arrays["n_bits"])[0]))
    return Codes(array, n_bits) if array.shape[1] == (n_bits + 7) // 8 else None


def _read_parts(
    path: Path,
    train: str | None,
    query: str | None,
    database: str | None,
    whole: str | None,
    way_out: str,
) -> dict[str, PairedDataset]:
    """Return the pairs of ``train``, ``query`` and perhaps ``database``, or ``whole``.

    ``way_out`` ends the error about arrays whose names are not recognized.
    """
    arrays = read_arrays(path)
    if whole is not None or any(_has(arrays, names) for names in WHOLE_NAMES):
        three = whole or next(names for names in WHOLE_NAMES if _has(arrays, names))
        return _parts(path, arrays, {"whole": three})
    given = {"train": train, "query": query, "database": database}
    names = {part: of for part, of in given.items() if of} or _known(arrays)
    if any(given.values()) and not (train and query):
        passed = ", ".join(part for part, of in given.items() if of)
        raise InputError(f"Pass both --data train=... and --data query=..., got only {passed}.")
    if "train" not in names or "query" not in names:
        raise InputError(
            f"{path} has no arrays with recognized names; it contains: "
            f"{', '.join(sorted(arrays)) or '(none)'}. {way_out}"
        )
    return _parts(path, arrays, names)


def _has(arrays: Mapping[str, Any], names: str) -> bool:
    return set(names.split()) <= set(arrays)


def _known(arrays: Mapping[str, Any]) -> dict[str, str]:
    """Return the first naming whose arrays all exist."""
    for naming in SPLIT_NAMES:
        if _has(arrays, " ".join(naming.values())):
            return naming
    return {}


def _parts(
    path: Path, arrays: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, PairedDataset]:
    """Return the pairs of each part; a label column means the same in every part."""
    taken = {part: _taken(path, arrays, of) for part, of in names.items()}
    tables = label_tables({part: of[2] for part, of in taken.items() if len(of) == 3})
    return {
        part: PairedDataset(_images(images), texts, tables.get(part))
        for part, (images, texts, *_) in taken.items()
    }


def _taken(path: Path, arrays: Mapping[str, Any], names: str) -> list[Any]:
    """Return images, texts and, if they are named, labels."""
    listed = names.split()
    if len(listed) not in (2, 3):
        raise InputError(
            "Expected the names of two or three arrays (images, texts and optionally labels), got "
            f"{names!r}."
        )
    for name in listed:
        if name not in arrays:
            raise InputError(
                f"{path} has no array {name!r}.{did_you_mean(name, arrays)} "
                f"It has: {', '.join(sorted(arrays))}."
            )
    return [arrays[name] for name in listed]


def _images(array: Any) -> Any:
    """Return features as they are, images with the colour channels last."""
    if sp.issparse(array):
        return array.toarray()
    if array.ndim == 4 and array.shape[3] != 3 and array.shape[1] == 3:
        return np.moveaxis(array, 1, 3)
    return array


def label_tables(labels: dict[str, Any]) -> dict[str, Any]:
    """Return an (n, n_classes) matrix of 0 and 1 for each part, also from class numbers.

    Columns are the classes of all parts, since one part may lack some.
    """
    numbers = {part: of.ravel() for part, of in labels.items() if not _is_table(of)}
    if not numbers:
        return labels
    classes = np.unique(np.concatenate(list(numbers.values())))
    if set(classes) <= {0, 1}:  # one label that items have or not
        return labels | {part: of[:, None] for part, of in numbers.items()}
    columns = {part: np.searchsorted(classes, of) for part, of in numbers.items()}
    one_hot = np.eye(len(classes), dtype=np.uint8)
    return labels | {part: one_hot[of] for part, of in columns.items()}


def _is_table(labels: Any) -> bool:
    return sp.issparse(labels) or (labels.ndim == 2 and labels.shape[1] > 1)


def _join_parts(parts: dict[str, PairedDataset], name: str) -> RetrievalSplit:
    """Join all parts; training items that are also in the database are kept once."""
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
    none = np.empty(0, dtype=np.int64)
    return RetrievalSplit(pairs, train, none, rows["query"], database, name=name)


def _rows_of(pairs: PairedDataset, others: PairedDataset) -> np.ndarray | None:
    """Return the row in ``others`` of each pair; None if a pair is missing or repeated."""
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
        ("image features", {part.images.shape[1:] for part in parts}),
        ("text features", {part.texts.shape[1:] for part in parts}),
        ("labels", {table.shape[1:] for table in labels if table is not None}),
    ):
        if len(widths) > 1:
            found = " and ".join(" x ".join(map(str, width)) for width in sorted(widths))
            raise InputError(
                f"All parts must have the same number of {what}, got {found}. Save arrays with the "
                "same number of columns."
            )
    sparse = any(sp.issparse(text) for text in texts)
    return PairedDataset(
        np.concatenate([part.images for part in parts]),
        sp.vstack(texts, format="csr") if sparse else np.concatenate(texts),
        None if any(table is None for table in labels) else sp.vstack(labels, format="csr"),
    )


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Return the arrays in a file or folder by name; a .npy array has the name of its file."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        return {name: array for file in files for name, array in read_arrays(file).items()}
    try:
        return dict(_arrays(path))
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"File not found: {path}. Check the path.") from error
    except UNREADABLE_ARRAYS as error:
        reason = str(error).strip().partition("\n")[0][:300].rstrip(".") or type(error).__name__
        if "pickle" in reason:  # NumPy takes any file that it does not know for a pickle
            reason = "it has no arrays, or pickled objects, which are never read"
        raise InputError(
            f"Cannot read {path}: {reason}. Save its arrays with numpy.savez(path, name=array)."
        ) from error


def _arrays(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix.lower() == ".mat":
        yield from read_matlab(path)
        return
    with open_regular(path) as file:
        content: Any = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            yield path.stem, content
            return
        with content:
            for name in content.files:
                if isinstance(content[name], np.ndarray):  # other members are bytes
                    yield name, content[name]
