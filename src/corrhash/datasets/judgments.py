"""Relevance judgments: files of image key, text key and 1 or -1, such as click logs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import read_text
from corrhash.datasets.base import RetrievalSplit
from corrhash.errors import InputError, did_you_mean
from corrhash.similarity import Similarity

MODALITIES = ("image", "text")
VALUES = {"1": 1, "+1": 1, "-1": -1}
FIELDS = "image key, text key and 1 or -1, separated by commas or tabs."


@dataclass(frozen=True, eq=False)
class Judgments:
    """Relevance judgments about the images and texts of a dataset.

    Parameters
    ----------
    triples : (n, 3) row of the image, row of the text, and 1 or -1; each pair once.
    repeated : numbers of the lines that repeat an earlier one.
    """

    triples: np.ndarray
    repeated: list[int]


def read_judgments(path: str | Path, keys: Sequence[str]) -> Judgments:
    """Read a file separated by commas or tabs; ``keys`` are those of the rows of the dataset.

    A first line that is not a judgment is a heading. Pairs that are not listed are unknown.
    """
    row_of = _rows_by_key(keys)
    lines = _lines(path, row_of)
    _check_keys(path, lines, row_of)
    _check_values(path, lines)
    judged: dict[tuple[int, int], _Line] = {}
    repeated = []
    for line in lines:
        before = judged.setdefault((row_of[line.image], row_of[line.text]), line)
        if line.value != before.value:
            raise InputError(
                f"Lines {before.number} and {line.number} of {path} contradict each other about "
                f"the image {line.image!r} and the text {line.text!r}. Keep one of them."
            )
        if before is not line:
            repeated.append(line.number)
    triples = [(*pair, line.value) for pair, line in judged.items()]
    return Judgments(np.array(triples, dtype=np.int64), repeated)


@dataclass(frozen=True)
class _Line:
    number: int
    image: str
    text: str
    judgment: str

    @property
    def value(self) -> int | None:
        """1 or -1; None for anything else."""
        return VALUES.get(self.judgment)


def _lines(path: str | Path, row_of: dict[str, int]) -> list[_Line]:
    """Return the lines of the file, without the heading and empty lines."""
    first, *others = read_text(path).split("\n")
    reader = csv.reader([first, *others], delimiter="\t" if "\t" in first else ",")
    lines = []
    try:
        for cells in reader:
            if cells and len(cells) != 3:
                n_fields = f"{len(cells)} field{'s' * (len(cells) != 1)}"
                raise InputError(
                    f"Line {reader.line_num} of {path} has {n_fields}, expected 3: {FIELDS}"
                )
            if cells:
                lines.append(_Line(reader.line_num, *(cell.strip() for cell in cells)))
    except csv.Error as error:
        raise InputError(f"Cannot read line {reader.line_num} of {path}: {error}.") from error
    if lines and lines[0].value is None and lines[0].image not in row_of:
        del lines[0]  # the heading
    if not lines:
        raise InputError(
            f"{path} contains no judgments. Each line must have these fields: {FIELDS}"
        )
    return lines


def _check_keys(path: str | Path, lines: list[_Line], row_of: dict[str, int]) -> None:
    named = [
        (line.number, modality, getattr(line, modality))
        for line in lines
        for modality in MODALITIES
    ]
    unknown = [entry for entry in named if entry[2] not in row_of]
    if unknown:
        number, modality, key = unknown[0]
        raise InputError(
            f"Line {number} of {path}: the {modality} {key!r}{_others(unknown)} is not in the "
            f"dataset.{did_you_mean(key, row_of)} Correct or delete the line."
        )


def _check_values(path: str | Path, lines: list[_Line]) -> None:
    wrong = [line for line in lines if line.value is None]
    if wrong:
        raise InputError(
            f"A judgment must be 1 or -1, got {wrong[0].judgment!r} in line {wrong[0].number} of "
            f"{path}{_others(wrong)}. Delete lines without a judgment."
        )


def _others(mistakes: list[Any]) -> str:
    return "" if len(mistakes) == 1 else f" (and {len(mistakes) - 1:,} more)"


def _rows_by_key(keys: Sequence[str]) -> dict[str, int]:
    """Return the row of each key, which must be unique."""
    row_of: dict[str, int] = {}
    for row, key in enumerate(keys):
        before = row_of.setdefault(key, row)
        if before != row:
            raise InputError(
                f"Rows {before} and {row} of the dataset have the same key {key!r}, so judgments "
                "are ambiguous. Give each row its own key."
            )
    return row_of


@dataclass(frozen=True, eq=False)
class SplitJudgments:
    """Judgments about training items and about validation items; those across parts are skipped.

    Parameters
    ----------
    train, validation : judgments about two items of the part, by their rows in the part.
    n_of_queries : number of judgments about a query.
    n_across : number of others that are not about two items of one part.
    """

    train: Similarity
    validation: Similarity
    n_of_queries: int
    n_across: int


def split_judgments(triples: np.ndarray, split: RetrievalSplit) -> SplitJudgments:
    """Split (n, 3) triples of image row, text row and 1 or -1, by rows of ``split.pairs``."""
    items = triples[:, :2]
    of_query = np.isin(items, split.query_rows).any(axis=1)
    inside = [
        np.isin(items, rows).all(axis=1) for rows in (split.train_rows, split.validation_rows)
    ]
    return SplitJudgments(
        train=_among(triples[inside[0]], split.train_rows),
        validation=_among(triples[inside[1]], split.validation_rows),
        n_of_queries=int(of_query.sum()),
        n_across=int(np.sum(~(of_query | inside[0] | inside[1]))),
    )


def _among(triples: np.ndarray, rows: np.ndarray) -> Similarity:
    """Return judgments by position in ``rows`` instead of rows of the dataset."""
    order = np.argsort(rows)
    positions = order[np.searchsorted(rows, triples[:, :2], sorter=order)]
    return Similarity.from_judgments(
        np.column_stack([positions, triples[:, 2]]), (len(rows), len(rows))
    )
