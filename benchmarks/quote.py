"""Copy tables and figures of committed results into the documents that quote them.

``python -m benchmarks.quote`` reads ``benchmarks/results`` and replaces the text between

    <!-- quote benchmarks/results/coco table1 -->
    <!-- end of quote -->

in README.md and docs/, so that documents always show the committed numbers.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.report.audit import audit_table
from corrhash.experiments.report.claims import claims_table
from corrhash.experiments.report.figures import draw_figures
from corrhash.experiments.report.paper_tables import (
    beyond_table,
    binarization_table,
    map_table,
    published_table,
    settings_table,
    task,
    variants_table,
)
from corrhash.experiments.report.tables import Table, mean_and_deviation, three_digits
from corrhash.experiments.result_files import load_results, load_trials
from corrhash.experiments.results import VARIANTS, StudyResults, title

ROOT = Path(__file__).parent.parent
QUOTE = re.compile(r"<!-- quote (\S+) (\S+) -->\n(.*?)<!-- end of quote -->", re.DOTALL)
WIDTH = 100

NOT_MEASURED = "*The committed results have no rows for this table yet.*\n"
"""Stands for a table of methods that a study does not have."""

OMITTED_COLUMNS = {
    "claims": ("dataset", "p over seeds", "paper"),
    "beyond": ("bits", "image features", "mAP", "fit (s)", "encode (s)", "peak memory (MB)"),
    "settings": ("first experiment", "warnings"),
}
"""Columns that would make a table too wide for a document, by the start of the table's name."""

FIGURES = {
    "docs/images/coco-curves.png": ("benchmarks/results/coco", "curves"),
    "docs/images/coco-bits.png": ("benchmarks/results/coco", "bits"),
    "docs/images/coco-distances.png": ("benchmarks/results/coco", "distances"),
}
"""Images in documents, and the study and figure they show."""


def main() -> None:
    for path in documents():
        text = path.read_text()
        if with_quotes(text) != text:
            path.write_text(with_quotes(text))
            print(path.relative_to(ROOT))
    for image, (results, name) in FIGURES.items():
        figures = {figure: png for figure, _, png in draw_figures(_study(results))}
        (ROOT / image).write_bytes(figures[name])


def documents() -> Iterable[Path]:
    """Return the documents that can contain quotes."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def with_quotes(text: str) -> str:
    """Return a document with its quotes replaced by the current tables."""
    return QUOTE.sub(lambda quote: _quote(quote[1], quote[2]), text)


def _quote(results: str, name: str) -> str:
    return f"<!-- quote {results} {name} -->\n{quoted(results, name)}<!-- end of quote -->"


@cache
def quoted(results: str, name: str) -> str:
    """Return one table of a study as Markdown."""
    study = _study(results)
    (dataset,) = study.datasets
    if name in DOCUMENT_TABLES:
        return DOCUMENT_TABLES[name](study, dataset)
    makers: dict[str, Callable[[], Table | None]] = {
        "table1": lambda: map_table(study),
        "table2": lambda: variants_table(study),
        "table3": lambda: binarization_table(study),
        "claims": lambda: claims_table(study),
        "audit": lambda: audit_table(study, dataset),
        "published": lambda: published_table(study, dataset),
        "beyond": lambda: beyond_table(study, dataset),
        "settings": lambda: settings_table(study, dataset, load_trials(ROOT / f"{results}.json")),
    }
    table = makers[name]()
    if table is None:
        return NOT_MEASURED
    return _wrapped(_narrowed(table, dataset).as_markdown())


@cache
def _study(results: str) -> StudyResults:
    return StudyResults(load_results(ROOT / f"{results}.json"))


def _narrowed(table: Table, dataset: str) -> Table:
    """Remove wide columns, and the dataset from the heads, because a document has only one."""
    omitted = next((n for start, n in OMITTED_COLUMNS.items() if table.name.startswith(start)), ())
    kept = [column for column, head in enumerate(table.heads) if head.text not in omitted]
    heads = [table.heads[column] for column in kept]
    heads = [replace(head, group="" if head.group == dataset else head.group) for head in heads]
    return replace(
        table, heads=heads, rows=[[row[column] for column in kept] for row in table.rows]
    )


def _wrapped(text: str) -> str:
    """Wrap sentences at 100 columns and keep table rows."""
    return "".join(
        (line if line.startswith("|") else textwrap.fill(line, WIDTH, break_on_hyphens=False))
        + "\n"
        for line in text.splitlines()
    )


def both_directions(study: StudyResults, dataset: str) -> str:
    """Return mAP by method and code length, both directions in a cell, the best in bold."""
    lengths = study.code_lengths(dataset)
    excluded = {*VARIANTS, *study.label_length_rows} - {"chn"}
    rows = [row for row in study.rows if row not in excluded]
    maps = np.array(
        [[[_mean(study, dataset, row, b, d) for d in DIRECTIONS] for b in lengths] for row in rows]
    )  # (n_rows, n_lengths, 2)
    best = np.nanmax(maps, axis=0)
    tasks = " / ".join(task(direction) for direction in DIRECTIONS)
    lines = [f"| mAP@all, {tasks} | {' | '.join(f'{b} bits' for b in lengths)} |"]
    lines.append("|---" * (len(lengths) + 1) + "|")
    for row, of_row in zip(rows, maps, strict=True):
        cells = [
            " / ".join(_cell(value, top) for value, top in zip(*both, strict=True))
            for both in zip(of_row, best, strict=True)
        ]
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def against_first_row(study: StudyResults, dataset: str) -> str:
    """Return mAP of every row at the only code length, and its difference to the first row."""
    (n_bits,) = study.code_lengths(dataset)
    first = {d: _mean(study, dataset, study.rows[0], n_bits, d) for d in DIRECTIONS}
    n_seeds = min(len(results) for results in study.cells.values())
    tasks = " | | ".join(task(direction) for direction in DIRECTIONS)
    lines = [f"| mAP@all, {n_bits} bits, {n_seeds} seeds | {tasks} | |", "|---" * 5 + "|"]
    for row in study.rows:
        cells: list[str] = []
        for direction in DIRECTIONS:
            maps = study.maps(dataset, row, n_bits, direction)
            gain = float(np.mean(maps)) - first[direction]
            cells += [mean_and_deviation(maps), three_digits(gain, sign=True)]
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _mean(study: StudyResults, dataset: str, row: str, n_bits: int, direction: str) -> float:
    maps = study.maps(dataset, row, n_bits, direction)
    return float(np.mean(maps)) if maps else np.nan


def _cell(value: float, best: float) -> str:
    return f"**{three_digits(value)}**" if value == best else three_digits(value)


def both_directions_with_papers(study: StudyResults, dataset: str) -> str:
    """Return the same, with method names as links that the document defines."""
    head, rule, *rows = both_directions(study, dataset).splitlines()
    linked = [re.sub(r"^\| ([\w ]+) \|", r"| [\1] |", row) for row in rows]
    return "\n".join([head, rule, *linked, ""])


DOCUMENT_TABLES = {
    "both-directions": both_directions,
    "both-directions-with-papers": both_directions_with_papers,
    "parts": against_first_row,
}
"""Tables of documents that a report does not have."""


if __name__ == "__main__":
    main()
