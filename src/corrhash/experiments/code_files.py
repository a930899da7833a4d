"""Codes of any program: queries, database and what is relevant, read from files of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from corrhash.codes import Codes, as_matrix
from corrhash.datasets.base import RetrievalSplit, is_empty_text
from corrhash.datasets.formats.arrays import PACKED, label_tables, packed_codes, read_arrays
from corrhash.datasets.records import check_signs
from corrhash.errors import InputError
from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.metrics import Scores, evaluate
from corrhash.similarity import Similarity

ALIASES = {
    "query_image": ("query_images", "q_img", "Qi"),
    "query_text": ("query_texts", "q_txt", "Qt"),
    "database_image": ("database_images", "r_img", "Di"),
    "database_text": ("database_texts", "r_txt", "Dt"),
    "query_labels": ("q_l", "query_L"),
    "database_labels": ("r_l", "retrieval_L"),
    "judgments": (),
    "image": ("images",),
    "text": ("texts",),
    "keys": (),
    "n_bits": (),
}
"""Names of arrays, and those that public programs give to them (DCHMT, DSPH, SSAH)."""

PARTS = ("query", "database")
MODALITIES = ("image", "text")


@dataclass(frozen=True, eq=False)
class ForeignCodes:
    """Codes to score, and what is relevant to a query.

    Parameters
    ----------
    query, database : codes, or continuous codes, of ``image`` and ``text``; one can be missing.
    query_labels, database_labels : (n, n_classes) of 0 and 1.
    similarity : relevance judgments, instead of labels.
    empty_text : (n_queries,) text queries without a known term, which do not count.
    ignored : arrays of the file that have no known name.
    """

    query: Mapping[str, Any]
    database: Mapping[str, Any]
    query_labels: Any = None
    database_labels: Any = None
    similarity: Similarity | None = None
    empty_text: np.ndarray | None = None
    ignored: tuple[str, ...] = ()

    def scores(self, **options: Any) -> dict[str, Scores]:
        """Return the metrics of each direction; the options are those of :func:`evaluate`."""
        scores = {}
        for direction in DIRECTIONS:
            asked, ranked = direction.split("->")
            if asked not in self.query or ranked not in self.database:
                continue
            scores[direction] = evaluate(
                self.query[asked],
                self.database[ranked],
                self.query_labels,
                self.database_labels,
                similarity=self.similarity,
                empty_text=self.empty_text if asked == "text" else None,
                **options,
            )
        return scores


def read_queries_and_database(path: str | Path, *, cosine: bool = False) -> ForeignCodes:
    """Read a file with the codes of queries and database, and with labels or judgments.

    Parameters
    ----------
    path : a .npz or .mat file, or a folder of .npy files, with the arrays ``query_image`` and
        ``database_text``, ``query_text`` and ``database_image``, or all four; ``query_labels`` and
        ``database_labels``, or ``judgments``, (m, 3) of query row, database row, and 1 or -1. With
        neither, database row i is paired with query i. Codes are (n, n_bits) arrays of -1 and 1, of
        0 and 1, or of real numbers, which are binarized by their sign; or packed, with ``n_bits``.
    cosine : keep real numbers, to rank by cosine.
    """
    arrays = _known_arrays(path)
    codes = {
        part: {
            modality: _values(f"{part}_{modality}", arrays, path, cosine)
            for modality in MODALITIES
            if f"{part}_{modality}" in arrays
        }
        for part in PARTS
    }
    ignored = tuple(sorted(set(arrays) - set(ALIASES)))
    directions = [direction.split("->") for direction in DIRECTIONS]
    if not any(
        asked in codes["query"] and ranked in codes["database"] for asked, ranked in directions
    ):
        raise InputError(
            f"{path} needs the arrays query_image and database_text, or query_text and "
            f"database_image; it contains: {', '.join(sorted(read_arrays(path))) or '(none)'}. "
            "Rename its arrays, or score the codes of a dataset (--dataset)."
        )
    labels = {f"{part}_labels": arrays.get(f"{part}_labels") for part in PARTS}
    if all(of is not None for of in labels.values()):
        labels = label_tables(labels)
    sizes = _check_shapes(codes, labels, path)
    relevance: dict[str, Any] = {}
    if "judgments" in arrays:
        relevance["similarity"] = Similarity.from_judgments(arrays["judgments"], sizes)
    elif all(of is not None for of in labels.values()):
        relevance = labels
    elif any(of is not None for of in labels.values()):
        there, missing = sorted(labels, key=lambda name: labels[name] is None)
        raise InputError(f"{path} has {there} but not {missing}. Save both, or neither.")
    elif sizes[0] != sizes[1]:
        raise InputError(
            f"{path} has no query_labels and database_labels and no judgments, and its "
            f"{sizes[0]:,} queries are not paired with its {sizes[1]:,} database items. Add one "
            "of them."
        )
    query, database = ({m: _ranked(v, cosine) for m, v in codes[part].items()} for part in PARTS)
    return ForeignCodes(query, database, **relevance, ignored=ignored)


def _check_shapes(
    codes: Mapping[str, Mapping[str, np.ndarray]], labels: Mapping[str, Any], path: str | Path
) -> tuple[int, int]:
    """Return the numbers of queries and database items; raise if arrays do not fit together."""
    shapes = {
        f"{part}_{modality}": array.shape
        for part in PARTS
        for modality, array in codes[part].items()
    }
    first = {part: next(name for name in shapes if name.startswith(part)) for part in PARTS}
    labelled = {name: of.shape for name, of in labels.items() if of is not None}
    first_labels = next(iter(labelled), "")
    for name, shape in (shapes | labelled).items():
        like = first[name.partition("_")[0]]
        same_width = first_labels if name in labelled else first["query"]
        what = "n_classes" if name in labelled else "n_bits"
        for axis, other in ((0, like), (1, same_width)):
            expected = (shapes | labelled)[other]
            if shape[axis:] and shape[axis] != expected[axis]:
                raise InputError(
                    f"{path}: {name} has the shape {shape}, and {other} {expected}. {name} must be "
                    f"(n, {what}) with as many {'columns' if axis else 'rows'} as {other}; "
                    "transpose it if its rows are not the items."
                )
    return shapes[first["query"]][0], shapes[first["database"]][0]


def read_codes_of_dataset(
    paths: Sequence[str | Path], split: RetrievalSplit, *, cosine: bool = False
) -> ForeignCodes:
    """Read codes of the items of a dataset, whose split defines queries, database and labels.

    Parameters
    ----------
    paths : files with the arrays ``image``, ``text`` and ``keys``, as :func:`corrhash.save_codes`
        writes them. Together they contain all queries and database items. Without ``keys``, row i
        belongs to item i of the dataset as it is loaded.
    split : the dataset.
    cosine : keep real numbers, to rank by cosine.
    """
    keys: list[str] = []
    values: dict[str, list[np.ndarray]] = {modality: [] for modality in MODALITIES}
    for path in paths:
        arrays = _known_arrays(path)
        of_file = np.ravel(arrays.get("keys", ())).tolist() or list(split.pairs.row_keys())
        keys += of_file
        for modality in MODALITIES:
            if modality not in arrays:
                raise InputError(
                    f"{path} needs the arrays image and text; it contains: "
                    f"{', '.join(sorted(arrays)) or '(none)'}. Save the codes of both modalities."
                )
            of_modality = _values(modality, arrays, path, cosine)
            values[modality].append(of_modality)
            if len(of_modality) != len(of_file):
                raise InputError(
                    f"{path} has {len(of_modality):,} codes of {modality}s for {len(of_file):,} "
                    "items. Save the array keys, the key of each item, too."
                )
    widths = {array.shape[1] for parts in values.values() for array in parts}
    if len(widths) > 1:
        raise InputError(
            f"All codes must have the same length, got {', '.join(map(str, sorted(widths)))} bits. "
            "Pass the files of one code length."
        )
    stacked = {modality: np.concatenate(parts) for modality, parts in values.items()}
    row_of = {str(key): row for row, key in enumerate(keys)}
    query = split.query
    database = query if query.labels is None else split.database  # paired: as evaluate does
    of_query, of_database = (
        {
            modality: _ranked(array[_rows(pairs.row_keys(), row_of, what)], cosine)
            for modality, array in stacked.items()
        }
        for what, pairs in (("query", query), ("database", database))
    )
    return ForeignCodes(
        of_query,
        of_database,
        query.labels,
        database.labels,
        empty_text=is_empty_text(query.texts),
    )


def _known_arrays(path: str | Path) -> dict[str, Any]:
    """Return the arrays of a file, known ones under their first name."""
    names = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}
    return {
        names.get(name.removeprefix(PACKED), name): array
        for name, array in read_arrays(path).items()
    }


def _values(name: str, arrays: Mapping[str, Any], path: str | Path, cosine: bool) -> np.ndarray:
    """Return (n, n_bits) codes as numbers; packed codes as -1 and 1."""
    packed = packed_codes(name, arrays)
    if packed is not None:
        return packed.signs()
    array = arrays[name].toarray() if sp.issparse(arrays[name]) else arrays[name]
    array = as_matrix(array, f"{name} in {path}")
    if not cosine:
        check_signs(array, f"{name} in {path}")
    return array


def _ranked(values: np.ndarray, cosine: bool) -> Any:
    """Return codes, or the numbers themselves to rank by cosine."""
    return values.astype(np.float64) if cosine else Codes.from_continuous(values)


def _rows(wanted: Sequence[str], row_of: Mapping[str, int], part: str) -> np.ndarray:
    """Return the rows of the codes of these items."""
    missing = [key for key in wanted if key not in row_of]
    if missing:
        raise InputError(
            f"The codes of {len(missing):,} of {len(wanted):,} {part} items are missing, the first "
            f"is {missing[0]!r}. Pass all files of codes, and check dataset, options and seed."
        )
    return np.array([row_of[key] for key in wanted], dtype=np.int64)
