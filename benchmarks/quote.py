"""Tables of committed results, written into the documents that quote them.

``python -m benchmarks.quote`` reads the result files and writes what stands between

    <!-- quote benchmarks/results/coco table1 -->
    <!-- end of quote -->

in README.md and docs/, so that no number there is older than its files.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from corrhash.experiments.claims import claims_table
from corrhash.experiments.directions import DIRECTIONS
from corrhash.experiments.figures import draw_figures
from corrhash.experiments.gathered import VARIANTS, Gathered, title
from corrhash.experiments.paper_tables import (
    beyond_table,
    map_table,
    rounding_table,
    settings_table,
    variants_table,
)
from corrhash.experiments.results import load_results, load_trials
from corrhash.experiments.tables import Table, mean_and_deviation, three_digits

ROOT = Path(__file__).parent.parent
QUOTE = re.compile(r"<!-- quote (\S+) (\S+) -->\n(.*?)<!-- end of quote -->", re.DOTALL)

LEFT_OUT = {
    "claims": ("dataset", "p over seeds", "paper"),
    "beyond": ("bits", "images as", "MAP", "fit, s", "encode, s", "peak, MB"),
    "settings": ("first file", "warnings"),
}
"""Columns of tables that would be too wide for a document."""

FIGURES = {
    "docs/images/coco-curves.png": ("benchmarks/results/coco", "curves"),
    "docs/images/coco-bits.png": ("benchmarks/results/coco", "bits"),
    "docs/images/coco-distances.png": ("benchmarks/results/coco", "distances"),
}
"""Pictures in documents, and the figures of a report that they are."""


def documents() -> Iterable[Path]:
    """Where quotes may stand."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def with_quotes(text: str) -> str:
    """A document with its quotes as the result files have them now."""
    return QUOTE.sub(lambda found: _quote(found[1], found[2]), text)


def _quote(folder: str, name: str) -> str:
    return f"<!-- quote {folder} {name} -->\n{quoted(folder, name)}<!-- end of quote -->"


@cache
def quoted(folder: str, name: str) -> str:
    """One table of the results in a folder, as Markdown."""
    found = _gathered(folder)
    (dataset,) = found.datasets
    makers: dict[str, Callable[[], Table | None]] = {
        "table1": lambda: map_table(found),
        "table2": lambda: variants_table(found),
        "table3": lambda: rounding_table(found),
        "claims": lambda: claims_table(found),
        "beyond": lambda: beyond_table(found, dataset),
        "settings": lambda: settings_table(found, dataset, load_trials(ROOT / folder)),
    }
    if name in OF_DOCUMENTS:
        return OF_DOCUMENTS[name](found, dataset)
    table = makers[name]()
    assert table is not None, f"{folder} does not have what {name} tells"
    return _wrapped(_narrow(table, dataset).as_markdown())


def _narrow(table: Table, dataset: str) -> Table:
    """The table for a document: without some columns, and without the name of the one dataset."""
    left_out = next((n for start, n in LEFT_OUT.items() if table.name.startswith(start)), ())
    kept = [at for at, head in enumerate(table.heads) if head.text not in left_out]
    heads = [table.heads[at] for at in kept]
    heads = [replace(h, group="" if h.group == dataset else _short(h.group)) for h in heads]
    rows = [[row[at] for at in kept] for row in table.rows]
    if left_out:
        rows = [[replace(entry, text=_short(entry.text)) for entry in row] for row in rows]
    return replace(table, heads=heads, rows=rows)


def _short(text: str) -> str:
    return text.replace("image → text", "i → t").replace("text → image", "t → i")


def _wrapped(text: str) -> str:
    """Sentences in lines of 100 columns; tables as they are."""
    lines = text.splitlines()
    return "".join(
        (line if line.startswith("|") else textwrap.fill(line, 100)) + "\n" for line in lines
    )


@cache
def _gathered(folder: str) -> Gathered:
    return Gathered(load_results(ROOT / folder))


def both_directions(found: Gathered, dataset: str) -> str:
    """A row a method and a column a length; the best of each direction in bold."""
    lengths = found.lengths(dataset)
    rows = [row for row in found.rows if row not in (*VARIANTS, *found.own_length) or row == "chn"]
    maps = np.array(
        [[[_mean(found, dataset, row, b, d) for d in DIRECTIONS] for b in lengths] for row in rows]
    )  # (n_rows, n_lengths, 2)
    best = np.nanmax(maps, axis=0)
    lines = [f"| MAP, image→text / text→image | {' | '.join(f'{b} bits' for b in lengths)} |"]
    lines.append("|---" * (len(lengths) + 1) + "|")
    for row, of_row in zip(rows, maps, strict=True):
        cells = [
            " / ".join(_cell(value, top) for value, top in zip(*both, strict=True))
            for both in zip(of_row, best, strict=True)
        ]
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def beside_the_first(found: Gathered, dataset: str) -> str:
    """A row for every row, and how far its mean lies from that of the first."""
    (n_bits,) = found.lengths(dataset)
    first = {d: _mean(found, dataset, found.rows[0], n_bits, d) for d in DIRECTIONS}
    n_seeds = {len(results) for results in found.cells.values()}
    lines = [f"| MAP, {n_bits} bits, {min(n_seeds)} seeds | image → text | | text → image | |"]
    lines.append("|---" * 5 + "|")
    for row in found.rows:
        cells: list[str] = []
        for direction in DIRECTIONS:
            maps = found.maps(dataset, row, n_bits, direction)
            gained = float(np.mean(maps)) - first[direction]
            cells += [mean_and_deviation(maps), three_digits(gained, sign=True)]
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _mean(found: Gathered, dataset: str, row: str, n_bits: int, direction: str) -> float:
    maps = found.maps(dataset, row, n_bits, direction)
    return float(np.mean(maps)) if maps else np.nan


def _cell(value: float, best: float) -> str:
    return f"**{three_digits(value)}**" if value == best else three_digits(value)


OF_DOCUMENTS = {"both-directions": both_directions, "parts": beside_the_first}
"""Tables that reports do not have."""


def main() -> None:
    for path in documents():
        text = path.read_text()
        if with_quotes(text) != text:
            path.write_text(with_quotes(text))
            print(path.relative_to(ROOT))
    for picture, (folder, name) in FIGURES.items():
        drawn = {figure: png for figure, _, png in draw_figures(_gathered(folder))}
        (ROOT / picture).write_bytes(drawn[name])


if __name__ == "__main__":
    main()
