"""Files of judged pairs: the key of an image, the key of a text, and 1 or -1, one pair a line."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corrhash.datasets.text_files import read_text
from corrhash.errors import InputError, did_you_mean

SIDES = ("image", "text")
VALUES = {"1": 1, "+1": 1, "-1": -1}
LAYOUT = "Write image key, text key and 1 or -1 in each line, with commas or tabs between."


@dataclass(frozen=True, eq=False)
class Judgements:
    """Judged pairs of the images and texts of a dataset.

    Parameters
    ----------
    triples : (n, 3) row of the image, row of the text, and 1 or -1; each pair once.
    repeated : the lines that say again what another line said before.
    """

    triples: np.ndarray
    repeated: list[int]


def read_judgements(path: str | Path, keys: Sequence[str]) -> Judgements:
    """The judged pairs of a file with commas or tabs; ``keys`` name the rows of the dataset.

    A first line that is not a judgement is taken as the heading. Pairs that the file does not
    have are unknown.
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
                f"Lines {before.number} and {line.number} of {path} judge the image "
                f"{line.image!r} and the text {line.text!r} both similar and dissimilar. "
                "Keep one of the two."
            )
        if before is not line:
            repeated.append(line.number)
    triples = [(*pair, line.value) for pair, line in judged.items()]
    return Judgements(np.array(triples, dtype=np.int64), repeated)


@dataclass(frozen=True)
class _Line:
    number: int
    image: str
    text: str
    judgement: str

    @property
    def value(self) -> int | None:
        """1 or -1; None for anything else."""
        return VALUES.get(self.judgement)


def _lines(path: str | Path, row_of: dict[str, int]) -> list[_Line]:
    """The lines of the file, without the heading and without empty ones."""
    first, *others = read_text(path).split("\n")
    reader = csv.reader([first, *others], delimiter="\t" if "\t" in first else ",")
    lines = []
    for cells in reader:
        if cells and len(cells) != 3:
            raise InputError(f"Line {reader.line_num} of {path} has {len(cells)} cells. {LAYOUT}")
        if cells:
            lines.append(_Line(reader.line_num, *(cell.strip() for cell in cells)))
    if lines and lines[0].value is None and lines[0].image not in row_of:
        del lines[0]  # the heading
    if not lines:
        raise InputError(f"{path} has no judged pair. {LAYOUT}")
    return lines


def _check_keys(path: str | Path, lines: list[_Line], row_of: dict[str, int]) -> None:
    """Every key must be one of the dataset."""
    named = [(line.number, side, getattr(line, side)) for line in lines for side in SIDES]
    unknown = [entry for entry in named if entry[2] not in row_of]
    if unknown:
        number, side, key = unknown[0]
        raise InputError(
            f"Line {number} of {path} names the {side} {key!r}{_others(unknown)}, which the "
            f"dataset does not have.{did_you_mean(key, row_of)} Correct or delete the line."
        )


def _check_values(path: str | Path, lines: list[_Line]) -> None:
    """Every judgement must be 1 or -1."""
    wrong = [line for line in lines if line.value is None]
    if wrong:
        raise InputError(
            f"A judgement must be 1 or -1. Got {wrong[0].judgement!r} in line {wrong[0].number} "
            f"of {path}{_others(wrong)}. Leave unknown pairs out."
        )


def _others(mistakes: list[Any]) -> str:
    """How many there are beside the first."""
    return "" if len(mistakes) == 1 else f" (and {len(mistakes) - 1:,} more like it)"


def _rows_by_key(keys: Sequence[str]) -> dict[str, int]:
    """The row of each key; a key of two rows would leave open which is meant."""
    row_of: dict[str, int] = {}
    for row, key in enumerate(keys):
        before = row_of.setdefault(key, row)
        if before != row:
            raise InputError(
                f"Rows {before} and {row} of the dataset have the same key {key!r}, so that a "
                "file of judged pairs cannot tell them apart. Give each row a key of its own."
            )
    return row_of
