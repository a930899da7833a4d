"""Copy tables and figures of committed results into the documents that quote them.

``python -m benchmarks.quote`` reads ``benchmarks/results`` and replaces the text between

    <!-- quote benchmarks/results/coco table1 -->
    <!-- end of quote -->

in README.md and docs/, so that documents always show the committed numbers.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.options import method_class
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

CONTROLLED = ("dcmh", "chn-plus")
"""Methods of which a study has controls, rows such as ``chn-plus, no query refinement``."""

PAPER_VARIANTS = {"dcmh": "dcmh", "@50": "hashnet@50", "first@5000": "first@5000"}
"""Definitions of mAP in public code: their names in studies, and in a document."""

OUR_RANKINGS = {"hamming": "all", "without_trained": "without training items"}
"""Rankings of a study that have mAP@all: their names in studies, and in a document."""

OMITTED_COLUMNS = {
    "claims": ("dataset", "p over seeds", "paper"),
    "beyond": ("bits", "image features", "mAP", "fit (s)", "encode (s)", "peak memory (MB)"),
    "settings": ("first experiment", "warnings"),
}
"""Columns that would make a table too wide for a document, by the start of the table's name."""

FIGURES = {
    "docs/images/mirflickr-curves.png": ("benchmarks/results/mirflickr", "curves"),
    "docs/images/mirflickr-bits.png": ("benchmarks/results/mirflickr", "bits"),
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


def both_directions(study: StudyResults, dataset: str) -> str:
    """Return mAP by method and code length, both directions in a cell, the best in bold."""
    columns = {(dataset, n_bits): f"{n_bits} bits" for n_bits in study.code_lengths(dataset)}
    return _both_directions(study, columns)


def by_dataset(study: StudyResults) -> str:
    """Return mAP by method and dataset at the plotted code length, the best in bold."""
    columns = {(d, study.plotted_bits(d)): d.partition(", ")[2] or d for d in study.datasets}
    return _both_directions(study, columns)


def _both_directions(study: StudyResults, columns: dict[tuple[str, int], str]) -> str:
    """Return mAP by method and column, a dataset and a code length; incomplete rows are omitted."""
    excluded = {*VARIANTS, *study.label_length_rows} - {"chn"}
    rows = [row for row in study.rows if row not in excluded]
    rows = [r for r in rows if all((d, r, b) in study.cells for d, b in columns)] or rows
    maps = np.array(
        [[[_mean(study, d, row, b, way) for way in DIRECTIONS] for d, b in columns] for row in rows]
    )  # (n_rows, n_columns, 2)
    best = np.nanmax(maps, axis=0)
    tasks = " / ".join(task(direction) for direction in DIRECTIONS)
    lines = [f"| mAP@all, {tasks} | {' | '.join(columns.values())} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for row, of_row in zip(rows, maps, strict=True):
        cells = [
            " / ".join(_cell(value, top) for value, top in zip(*both, strict=True))
            for both in zip(of_row, best, strict=True)
        ]
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def costs(study: StudyResults, dataset: str) -> str:
    """Return time and memory of training, and the number of distinct codes, by method."""
    n_bits = study.plotted_bits(dataset)
    heads = "training (s) | encoding (s) | peak memory (GB) | distinct codes"
    lines = [f"| {n_bits} bits | {heads} |", "|---" * 5 + "|"]
    for row in study.rows:
        results = study.cells[dataset, row, n_bits]
        seconds = [
            f"{np.mean([r.facts['seconds'][stage] for r in results]):,.0f}"
            for stage in ("fit", "encode")
        ]
        memory = max(max(r.facts["peak_mb"].values()) for r in results) / 1000
        distinct = np.mean([r.scores("text->image")["n_distinct_database"] for r in results])
        cells = [title(row), *seconds, f"{memory:.1f}", f"{distinct:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def first_results(study: StudyResults, dataset: str) -> str:
    """Return precision at ranks 1 and 10, of the seeds for which it was measured, by method."""
    n_bits = study.plotted_bits(dataset)
    names = [f"precision_at_{rank}" for rank in (1, 10)]
    heads = [f"{n.removeprefix('precision_at_')}, {task(d)}" for n in names for d in DIRECTIONS]
    rows = [row for row in study.rows if row not in study.label_length_rows]
    values = np.array(
        [
            [_mean_score(study, (dataset, row, n_bits), d, n) for n in names for d in DIRECTIONS]
            for row in rows
        ]
    )
    measured = ~np.isnan(values).all(axis=1)
    kept = [row for row, known in zip(rows, measured, strict=True) if known]
    if not kept:
        return NOT_MEASURED
    return _best_in_bold(f"precision at, {n_bits} bits", heads, kept, values[measured])


def controls(study: StudyResults, dataset: str) -> str:
    """Return mAP of DCMH, CHN-plus and their controls, on the splits that all of them share."""
    n_bits = study.plotted_bits(dataset)
    rows = [row for row in study.rows if row.partition(", ")[0] in CONTROLLED]
    cells = {row: study.cells.get((dataset, row, n_bits), []) for row in rows}
    seeds = [{result.experiment.seed for result in results} for results in cells.values()]
    shared = set.intersection(*seeds) if seeds else set()
    if not shared or len(rows) <= len(CONTROLLED):
        return NOT_MEASURED
    tasks = " | ".join(task(direction) for direction in DIRECTIONS)
    lines = [f"| mAP@all, {n_bits} bits, {len(shared)} seeds | {tasks} |", "|---" * 3 + "|"]
    for row, results in cells.items():
        used = [result for result in results if result.experiment.seed in shared]
        maps = [mean_and_deviation([result.map(d) for result in used]) for d in DIRECTIONS]
        lines.append(f"| {title(row)} | {' | '.join(maps)} |")
    return "\n".join([*lines, ""])


def _mean_score(
    study: StudyResults, cell: tuple[str, str, int], direction: str, name: str
) -> float:
    """Return the mean of a metric over the seeds that have it; NaN if none has."""
    scores = [result.scores(direction).get(name) for result in study.cells.get(cell, [])]
    known = [score for score in scores if score is not None]
    return float(np.mean(known)) if known else np.nan


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


def feature_sets(study: StudyResults, ranking: str = "hamming") -> str:
    """Return mAP by method and dataset, the mean of both directions and all code lengths.

    Methods that learn from labels have a table of their own. The last column is the mean over the
    datasets. ``ranking`` is one of ``OUR_RANKINGS``.
    """
    tables = []
    for name, with_labels in (("without labels", False), ("with labels", True)):
        rows = [row for row in study.rows if _learns_from_labels(study, row) == with_labels]
        maps = np.array(
            [[_overall(study, d, row, ranking) for d in study.datasets] for row in rows]
        )
        if rows:
            means = maps.mean(axis=1, keepdims=True)
            columns = [*study.datasets, "mean"]
            tables.append(_best_in_bold(name, columns, rows, np.hstack([maps, means])))
    return "\n".join(tables)


def _learns_from_labels(study: StudyResults, row: str) -> bool:
    experiment = next(
        result.experiment
        for results in study.cells.values()
        for result in results
        if result.experiment.row == row
    )
    needed = method_class(experiment.method).needs_labels
    return needed and experiment.supervision == "labels"


def definitions(study: StudyResults) -> str:
    """Return mAP of each method under published definitions, at the plotted code length.

    The last column is the number of distinct codes in the database, of the first direction.
    """
    names = [*OUR_RANKINGS, *PAPER_VARIANTS]
    rows = [row for row in study.rows if row not in study.label_length_rows]
    tables = []
    for dataset in study.datasets:
        n_bits = study.plotted_bits(dataset)
        cells = [(dataset, row, n_bits) for row in rows]
        maps = np.array([[_defined(study, cell, name) for name in names] for cell in cells])
        if np.isnan(maps[:, len(OUR_RANKINGS) :]).all():
            continue
        heads = [*OUR_RANKINGS.values(), *PAPER_VARIANTS.values()]
        lines = _best_in_bold(f"{dataset}, {n_bits} bits", heads, rows, maps).splitlines()
        ends = [" distinct codes |", "---|"]
        for cell in cells:
            n = _mean_score(study, cell, DIRECTIONS[0], "n_distinct_database")
            ends.append(" - |" if np.isnan(n) else f" {n:,.0f} |")
        tables += [line + end for line, end in zip(lines, ends, strict=True)] + [""]
    return "\n".join(tables) if tables else NOT_MEASURED


def training_times(study: StudyResults) -> str:
    """Return the seconds of training by method and dataset, at the plotted code length."""
    lines = [
        f"| seconds | {' | '.join(study.datasets)} |",
        "|---" * (len(study.datasets) + 1) + "|",
    ]
    for row in study.rows:
        cells = []
        for dataset in study.datasets:
            results = study.cells.get((dataset, row, study.plotted_bits(dataset)), [])
            seconds = [result.facts["seconds"]["fit"] for result in results]
            mean = np.mean(seconds) if seconds else np.nan
            cells.append("-" if np.isnan(mean) else "<1" if mean < 1 else f"{mean:,.0f}")
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _best_in_bold(
    corner: str, columns: Sequence[str], rows: Sequence[str], values: np.ndarray
) -> str:
    """Return a table of (n_rows, n_columns) values, NaN where there is none."""
    kept = [column for column in range(len(columns)) if not np.isnan(values[:, column]).all()]
    best = np.nanmax(values[:, kept], axis=0)
    lines = [f"| {corner} | {' | '.join(columns[column] for column in kept)} |"]
    lines.append("|---" * (len(kept) + 1) + "|")
    for row, of_row in zip(rows, values[:, kept], strict=True):
        cells = [_cell(value, top) for value, top in zip(of_row, best, strict=True)]
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _overall(study: StudyResults, dataset: str, row: str, ranking: str) -> float:
    """Return the mean mAP over directions and code lengths; NaN if one is missing."""
    lengths = study.code_lengths(dataset)
    return float(np.mean([_defined(study, (dataset, row, n_bits), ranking) for n_bits in lengths]))


def _defined(study: StudyResults, cell: tuple[str, str, int], definition: str) -> float:
    """Return the mean mAP over directions and seeds under one definition; NaN if not measured."""
    results = study.cells.get(cell, [])
    if definition in OUR_RANKINGS:
        maps = [
            result.facts["directions"][direction].get(definition, {}).get("map", np.nan)
            for result in results
            for direction in DIRECTIONS
        ]
    else:
        maps = [
            result.map_variants(direction).get(definition, np.nan)
            for result in results
            for direction in DIRECTIONS
        ]
    return float(np.mean(maps)) if maps else np.nan


def _mean(study: StudyResults, dataset: str, row: str, n_bits: int, direction: str) -> float:
    maps = study.maps(dataset, row, n_bits, direction)
    return float(np.mean(maps)) if maps else np.nan


def _cell(value: float, best: float) -> str:
    text = three_digits(value)
    return f"**{text}**" if text == three_digits(best) else text


def both_directions_with_papers(study: StudyResults, dataset: str) -> str:
    """Return the same, with method names as links that the document defines."""
    head, rule, *rows = both_directions(study, dataset).splitlines()
    linked = [re.sub(r"^\| ([\w ]+) \|", r"| [\1] |", row) for row in rows]
    return "\n".join([head, rule, *linked, ""])


DOCUMENT_TABLES = {
    "both-directions": both_directions,
    "both-directions-with-papers": both_directions_with_papers,
    "costs": costs,
    "parts": against_first_row,
    "first-results": first_results,
    "controls": controls,
}
"""Tables of documents that a report does not have, of studies with one dataset."""

STUDY_TABLES = {
    "by-dataset": by_dataset,
    "feature-sets": feature_sets,
    "feature-sets-without-training-items": partial(feature_sets, ranking="without_trained"),
    "definitions": definitions,
    "training-times": training_times,
}
"""The same, of studies with several datasets."""


if __name__ == "__main__":
    main()
