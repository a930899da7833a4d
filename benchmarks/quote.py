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

from benchmarks.document_tables import DOCUMENT_TABLES, NOT_MEASURED, STUDY_TABLES
from corrhash.experiments.report.audit import audit_table
from corrhash.experiments.report.claims import claims_table
from corrhash.experiments.report.figures import draw_figures
from corrhash.experiments.report.paper_tables import (
    beyond_table,
    binarization_table,
    map_table,
    published_table,
    settings_table,
    variants_table,
)
from corrhash.experiments.report.tables import Table
from corrhash.experiments.result_files import load_results, load_trials
from corrhash.experiments.results import StudyResults

ROOT = Path(__file__).parent.parent
QUOTE = re.compile(r"<!-- quote (\S+) (\S+) -->\n(.*?)<!-- end of quote -->", re.DOTALL)
WIDTH = 100

OMITTED_COLUMNS = {
    "claims": ("dataset", "p over seeds", "paper"),
    "beyond": ("bits", "image features", "mAP", "fit (s)", "encode (s)", "peak memory (MB)"),
    "settings": ("first experiment", "warnings"),
}
"""Columns that would make a table too wide for a document, by the start of the table's name."""

FIGURES = {
    "docs/images/mirflickr-curves.png": ("benchmarks/results/mirflickr", "curves"),
    "docs/images/mirflickr-bits.png": ("benchmarks/results/mirflickr", "bits"),
    "docs/images/modern-bits.png": ("benchmarks/results/modern", "bits"),
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
    if not (ROOT / f"{results}.json").exists():
        return NOT_MEASURED
    study = _study(results)
    if name in STUDY_TABLES:
        return STUDY_TABLES[name](study)
    (dataset,) = study.datasets
    if name != "controls":
        study = _without_controls(study, dataset)
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


def _without_controls(study: StudyResults, dataset: str) -> StudyResults:
    """Return a study without the controls that have only some of its code lengths."""
    lengths = study.code_lengths(dataset)
    rows = {
        row
        for row in study.rows
        if ", " not in row
        or row in study.label_length_rows
        or all((dataset, row, n_bits) in study.cells for n_bits in lengths)
    }
    cells = [*study.cells.values(), *study.unseen.values()]
    return StudyResults(r for results in cells for r in results if r.experiment.row in rows)


def _narrowed(table: Table, dataset: str) -> Table:
    """Remove wide and empty columns, and the dataset from the heads: a document has only one."""
    omitted = next((n for start, n in OMITTED_COLUMNS.items() if table.name.startswith(start)), ())
    kept = [
        column
        for column, head in enumerate(table.heads)
        if head.text not in omitted and any(row[column].text != "-" for row in table.rows)
    ]
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


if __name__ == "__main__":
    main()
