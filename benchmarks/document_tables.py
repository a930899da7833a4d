"""Markdown tables for documents, of results that a report does not show in this form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import numpy as np

from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.options import method_class
from corrhash.experiments.report.paper_tables import task
from corrhash.experiments.report.tables import mean_and_deviation, three_digits
from corrhash.experiments.results import VARIANTS, Result, StudyResults, title

NOT_MEASURED = "*The committed results have no rows for this table yet.*\n"
"""Stands for a table of methods that a study does not have."""

CONTROLLED = ("dcmh", "chn-plus")
"""Methods of which a study has controls, rows such as ``chn-plus, no query refinement``."""

PAPER_VARIANTS = {"dcmh": "dcmh", "@50": "hashnet@50", "first@5000": "first@5000"}
"""Definitions of mAP in public code: their names in studies, and in a document."""

OUR_RANKINGS = {"hamming": "all", "without_trained": "without training items"}
"""Rankings of a study that have mAP@all: their names in studies, and in a document."""


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
        [
            [[_mean_map(study, (d, row, b), [way]) for way in DIRECTIONS] for d, b in columns]
            for row in rows
        ]
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
        results = study.cells.get((dataset, row, n_bits), [])
        if not results:
            continue
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
    first = {d: _mean_map(study, (dataset, study.rows[0], n_bits), [d]) for d in DIRECTIONS}
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

    Methods that learn from labels have a table of their own. The last columns are the mean over the
    datasets, its deviation over the seeds, and the number of cells (a dataset, a code length and a
    direction) in which a method is first. ``ranking`` is one of ``OUR_RANKINGS``.
    """
    tables = []
    for name, with_labels in (("without labels", False), ("with labels", True)):
        rows = [row for row in study.rows if _learns_from_labels(study, row) == with_labels]
        if rows:
            tables.append(_feature_sets(study, ranking, name, rows))
    return "\n".join(tables)


def _feature_sets(study: StudyResults, ranking: str, corner: str, rows: Sequence[str]) -> str:
    by_dataset = [
        np.array(
            [
                [_mean_map(study, (d, row, b), [way], ranking) for row in rows]
                for b in study.code_lengths(d)
                for way in DIRECTIONS
            ]
        )
        for d in study.datasets
    ]  # (n_cells, n_rows) each
    means = np.array([maps.mean(axis=0) for maps in by_dataset])  # (n_datasets, n_rows)
    cells = np.vstack(by_dataset)
    firsts = np.nanargmax(cells[~np.isnan(cells).all(axis=1)], axis=1)  # of the measured cells
    n_first = np.bincount(firsts, minlength=len(rows))
    more = {
        "deviation": [_deviation_over_seeds(study, ranking, row) for row in rows],
        f"first (of {len(firsts)} cells)": [str(n) for n in n_first],
    }
    values = np.vstack([means, means.mean(axis=0)]).T
    return _best_in_bold(corner, [*study.datasets, "mean"], rows, values, more)


def _deviation_over_seeds(study: StudyResults, ranking: str, row: str) -> str:
    """Return the deviation of the mean over all cells; none if cells have different seeds."""
    results = [r for (_, of, _), cell in study.cells.items() if of == row for r in cell]
    by_seed: dict[int, list[Result]] = {}
    for result in results:
        by_seed.setdefault(result.experiment.seed, []).append(result)
    if len(by_seed) < 2 or len({len(of_seed) for of_seed in by_seed.values()}) > 1:
        return "-"
    means = [np.mean(_maps(of_seed, ranking, DIRECTIONS)) for of_seed in by_seed.values()]
    return three_digits(float(np.std(means, ddof=1)))


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
        maps = np.array(
            [[_mean_map(study, cell, definition=name) for name in names] for cell in cells]
        )
        if np.isnan(maps[:, len(OUR_RANKINGS) :]).all():
            continue
        heads = [*OUR_RANKINGS.values(), *PAPER_VARIANTS.values()]
        n_distinct = [_mean_score(study, c, DIRECTIONS[0], "n_distinct_database") for c in cells]
        more = {"distinct codes": ["-" if np.isnan(n) else f"{n:,.0f}" for n in n_distinct]}
        tables.append(_best_in_bold(f"{dataset}, {n_bits} bits", heads, rows, maps, more))
    return "\n".join(tables) if tables else NOT_MEASURED


def training_times(study: StudyResults) -> str:
    """Return the seconds of training by method and dataset, at the plotted code length.

    They are medians over the seeds, because other work on the machine disturbs single runs.
    """
    lines = [
        f"| seconds | {' | '.join(study.datasets)} |",
        "|---" * (len(study.datasets) + 1) + "|",
    ]
    for row in study.rows:
        cells = []
        for dataset in study.datasets:
            results = study.cells.get((dataset, row, study.plotted_bits(dataset)), [])
            seconds = [result.facts["seconds"]["fit"] for result in results]
            median = np.median(seconds) if seconds else np.nan
            cells.append("-" if np.isnan(median) else "<1" if median < 1 else f"{median:,.0f}")
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _best_in_bold(
    corner: str,
    columns: Sequence[str],
    rows: Sequence[str],
    values: np.ndarray,
    more: dict[str, list[str]] | None = None,
) -> str:
    """Return a table of (n_rows, n_columns) values, NaN where there is none.

    ``more`` has further columns of one text for each row. Columns without values are omitted.
    """
    kept = [column for column in range(len(columns)) if not np.isnan(values[:, column]).all()]
    best = np.nanmax(values[:, kept], axis=0)
    others = {head: texts for head, texts in (more or {}).items() if {*texts} != {"-"}}
    heads = [corner, *(columns[column] for column in kept), *others]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for i, (row, of_row) in enumerate(zip(rows, values[:, kept], strict=True)):
        cells = [_cell(value, top) for value, top in zip(of_row, best, strict=True)]
        cells += [texts[i] for texts in others.values()]
        lines.append(f"| {title(row)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _mean_map(
    study: StudyResults,
    cell: tuple[str, str, int],
    directions: Sequence[str] = DIRECTIONS,
    definition: str = "hamming",
) -> float:
    """Return the mean mAP over directions and seeds under one definition; NaN if not measured."""
    maps = _maps(study.cells.get(cell, []), definition, directions)
    return float(np.mean(maps)) if maps else np.nan


def _maps(results: Sequence[Result], definition: str, directions: Sequence[str]) -> list[float]:
    """Return the mAP of each result and direction under one definition; NaN if not measured."""
    if definition in OUR_RANKINGS:
        return [
            result.facts["directions"][direction].get(definition, {}).get("map", np.nan)
            for result in results
            for direction in directions
        ]
    return [
        result.map_variants(direction).get(definition, np.nan)
        for result in results
        for direction in directions
    ]


def _cell(value: float, best: float) -> str:
    text = three_digits(value)
    return f"**{text}**" if text == three_digits(best) else text


def both_directions_with_papers(study: StudyResults, dataset: str) -> str:
    """Return :func:`both_directions` with method names as links that the document defines."""
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
