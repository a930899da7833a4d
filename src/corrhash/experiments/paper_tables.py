"""The tables of a report: those of the paper, and what the paper leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corrhash.experiments.directions import DIRECTIONS
from corrhash.experiments.gathered import VARIANTS, Gathered, title
from corrhash.experiments.published import PUBLISHED
from corrhash.experiments.significance import difference
from corrhash.experiments.tables import (
    Entry,
    Head,
    Table,
    marked,
    mean_and_deviation,
    three_digits,
)

NUMBERS = "MAP over the whole ranking by Hamming distance, expected over ties"


def arrow(direction: str) -> str:
    """``image → text``."""
    return direction.replace("->", " → ")


def map_table(found: Gathered) -> Table:
    """Table 1: MAP of all methods, both directions, all lengths, all datasets."""
    without = [row for row in found.rows if row not in VARIANTS or row == "chn"]
    rows = [row for row in without if row not in found.own_length]
    return _by_length(
        found,
        rows,
        "table1",
        "Table 1. MAP of all methods",
        f"{NUMBERS}. {seeds_note(found, rows)}",
    )


def variants_table(found: Gathered) -> Table | None:
    """Table 2: CHN without one of its parts each, and before its scores are rounded."""
    rows = [row for row in VARIANTS if any(found.has(dataset, row) for dataset in found.datasets)]
    if not set(rows) - {"chn", "chn-b"}:
        return None
    note = (
        "CHN-M has no margins, CHN-I inner products for cosines, CHN-Q no quantization loss; "
        "CHN-B is CHN ranked by the cosine of its scores, before they are rounded to codes."
    )
    note = f"{note} {seeds_note(found, rows)}"
    return _by_length(found, rows, "table2", "Table 2. MAP of CHN and its variants", note)


def _by_length(found: Gathered, rows: Sequence[str], name: str, heading: str, note: str) -> Table:
    """Both directions one below the other; a group of columns for each dataset."""
    columns = [(dataset, b) for dataset in found.datasets for b in found.lengths(dataset)]
    heads = [Head("task"), Head("method")]
    heads += [Head(f"{b} bits", dataset) for dataset, b in columns]
    body: list[list[Entry]] = []
    for direction in DIRECTIONS:
        maps = [[found.maps(data, row, b, direction) for data, b in columns] for row in rows]
        values = [[float(np.mean(m)) if m else np.nan for m in of_row] for of_row in maps]
        texts = [[mean_and_deviation(m) for m in of_row] for of_row in maps]
        for row, entries in zip(rows, marked(values, texts), strict=True):
            body.append([Entry(arrow(direction)), Entry(title(row)), *entries])
    note = f"{note} Best in bold, second underlined."
    return Table(name, heading, heads, body, note, [len(rows)])


def rounding_table(found: Gathered) -> Table | None:
    """Table 3: MAP before and after binarisation, of CHN and CHN-Q."""
    rows = [row for row in ("chn", "chn-q") if any(found.has(d, row) for d in found.datasets)]
    if not rows:
        return None
    columns = [(dataset, b) for dataset in found.datasets for b in found.lengths(dataset)]
    body = []
    for direction in DIRECTIONS:
        for row in rows:
            cells = [
                [found.maps(data, row, b, direction, by) for by in ("cosine", "hamming")]
                for data, b in columns
            ]
            lost = [[b - a for b, a in zip(*both, strict=True)] for both in cells]
            lines = {
                "before": [mean_and_deviation(before) for before, _ in cells],
                "after": [mean_and_deviation(after) for _, after in cells],
                "lost": [three_digits(float(np.mean(gap))) if gap else "-" for gap in lost],
            }
            for what, texts in lines.items():
                first = [arrow(direction), title(row), what]
                body.append([Entry(text) for text in (*first, *texts)])
    heads = [Head("task"), Head("method"), Head("binarisation")]
    heads += [Head(f"{b} bits", dataset) for dataset, b in columns]
    note = (
        "Before: ranked by the cosine of the scores. After: by the Hamming distance of codes. "
        f"{seeds_note(found, rows)}"
    )
    rules = range(3, len(body), 3)
    heading = "Table 3. MAP before and after binarisation"
    return Table("table3", heading, heads, body, note, list(rules))


def beyond_table(found: Gathered, dataset: str) -> Table:
    """What MAP alone hides: trained items in the database, unseen labels, collapse, cost."""
    length = found.shown_length(dataset)
    body = []
    for row in found.rows:
        lengths = sorted({b for data, name, b in found.cells if (data, name) == (dataset, row)})
        if not lengths:
            continue
        own = length if length in lengths else lengths[0]
        body.append(_beyond_row(found, dataset, row, own))
    kinds = ("MAP", "new", "unseen")
    heads = [Head(text) for text in ("method", "bits", "images as")]
    heads += [Head(kind, arrow(direction)) for direction in DIRECTIONS for kind in kinds]
    heads += [Head(text, "") for text in ("distinct codes", "fit, s", "encode, s", "peak, MB")]
    note = (
        "New: the database without what was trained on. Unseen: a quarter of the "
        "labels is held out of training, and only they are asked for; their MAP compares with "
        "that of other methods in the same column alone. Distinct codes: different image codes "
        "among the items of the database, of which few mean a collapse. Seconds, "
        "where given, are those of one thread by the clock. "
        f"{seeds_note(found, found.rows, dataset)}"
    )
    return Table(f"beyond-{dataset}", f"Beyond the paper: {dataset}", heads, body, note)


def _beyond_row(found: Gathered, dataset: str, row: str, n_bits: int) -> list[Entry]:
    results = found.cells[dataset, row, n_bits]
    unseen = found.unseen.get((dataset, row, n_bits), [])
    texts = [title(row), str(n_bits), results[0].facts["dataset"]["image_features"]]
    for direction in DIRECTIONS:
        texts.append(mean_and_deviation([r.map(direction) for r in results]))
        texts.append(mean_and_deviation([r.map_without_trained(direction) for r in results]))
        texts.append(mean_and_deviation([r.map(direction) for r in unseen]))
    scores = [r.scores("text->image", "hamming") for r in results]
    distinct = np.mean([s["n_distinct_database"] for s in scores])
    texts.append(f"{distinct:,.0f} of {scores[0]['n_database']:,}")
    for stage in ("fit", "encode"):
        texts.append(f"{np.mean([r.facts['seconds'][stage] for r in results]):,.1f}")
    texts.append(f"{max(max(r.facts['peak_mb'].values()) for r in results):,.0f}")
    return [Entry(text) for text in texts]


def significance_table(found: Gathered, row: str = "chn") -> Table | None:
    """CHN minus each other method, with intervals over queries and tests over seeds."""
    others = [name for name in found.rows if name != row and name not in found.own_length]
    columns = [(d, b) for d in found.datasets for b in found.lengths(d) if found.has(d, row)]
    if not columns or not others:
        return None
    body = []
    for direction in DIRECTIONS:
        for other in others:
            texts = [_difference(found, d, b, direction, row, other) for d, b in columns]
            body.append([Entry(t) for t in (arrow(direction), title(other), *texts)])
    heads = [Head("task"), Head(f"{title(row)} minus")]
    heads += [Head(f"{b} bits", dataset) for dataset, b in columns]
    note = (
        "Mean difference of MAP and, in brackets, 95 % of 2,000 resamples of the queries; p of a "
        "t-test paired over seeds, where there are several. A bracket that holds zero decides "
        f"nothing. {seeds_note(found, [row, *others])}"
    )
    heading = f"What is better than what: {title(row)} against each"
    return Table("significance", heading, heads, body, note, [len(others)])


def _difference(
    found: Gathered, dataset: str, n_bits: int, direction: str, row: str, other: str
) -> str:
    one, two = (
        found.average_precisions(dataset, name, [n_bits], direction) for name in (row, other)
    )
    gap = difference(one, two, same_queries=found.fixed_split(dataset))
    if gap is None:
        return "-"
    text = f"{three_digits(gap.mean, sign=True)} [{three_digits(gap.low, sign=True)}, "
    text += f"{three_digits(gap.high, sign=True)}]"
    return text if gap.p_seeds is None else f"{text}, p {three_digits(gap.p_seeds)}"


def published_table(found: Gathered, dataset: str) -> Table | None:
    """Our numbers beside those of the paper, where the dataset is one of its two."""
    if dataset not in PUBLISHED:
        return None
    lengths = [b for b in found.lengths(dataset) if b in (16, 32, 64, 128)]
    body = []
    for direction in DIRECTIONS:
        for row, printed in PUBLISHED[dataset][direction].items():
            texts = []
            for b in lengths:
                ours = found.maps(dataset, row, b, direction)
                texts.append(three_digits(float(np.mean(ours))) if ours else "-")
                texts.append(f"{printed[b]:.4f}".lstrip("0"))
            body.append([Entry(t) for t in (arrow(direction), title(row), *texts)])
    heads = [Head("task"), Head("method")]
    heads += [Head(text, f"{b} bits") for b in lengths for text in ("ours", "paper")]
    note = (
        "The paper does not say which reading of MAP it prints, nor how it treats ties: compare "
        "ranks and trends."
    )
    half = len(body) // 2
    heading = f"Beside the published numbers: {dataset}"
    return Table(f"published-{dataset}", heading, heads, body, note, [half])


def settings_table(found: Gathered, dataset: str, trials: Sequence[dict[str, Any]]) -> Table:
    """Which settings each method ran with, how many were compared, and the files to look into."""
    body = []
    for row in found.rows:
        cells = [
            r for (d, name, _), rs in found.cells.items() if (d, name) == (dataset, row) for r in rs
        ]
        if not cells:
            continue
        tried = [
            t
            for t in trials
            if (t["experiment"]["dataset"], t["experiment"]["row"]) == (dataset, row)
        ]
        chosen = ", ".join(f"{name} = {value}" for name, value in cells[0].experiment.params)
        literal = "published settings" if cells[0].experiment.literal else "defaults"
        notes = sorted({note for r in cells for note in r.facts["notes"]})
        texts = [title(row), str(len(tried) or "-"), chosen or literal, cells[0].path.stem]
        body.append([Entry(text) for text in (*texts, " ".join(notes) or "-")])
    heads = [Head(t) for t in ("method", "settings compared", "chosen", "first file", "warnings")]
    note = (
        "Settings were compared on validation items at 32 bits with the first seed, at most eight "
        "a method, and serve all lengths and seeds; what is not listed has its default."
    )
    return Table(f"settings-{dataset}", f"Settings: {dataset}", heads, body, note)


def seeds_note(found: Gathered, rows: Sequence[str], dataset: str | None = None) -> str:
    """How often each row was run, and what the runs vary."""
    notes = []
    for name in found.datasets if dataset is None else [dataset]:
        times: dict[str, int] = {}  # the least of all lengths
        for (data, row, _), cell in found.cells.items():
            if data == name and row in rows:
                times[row] = min(times.get(row, len(cell)), len(cell))
        most = max(times.values(), default=0)
        runs = f"{name}: {most} run{'s' if most > 1 else ''}"
        fewer = "; ".join(f"{title(row)}: {n}" for row, n in times.items() if n < most)
        runs += f" ({fewer})" if fewer else ""
        if found.fixed_split(name):
            runs += (
                " on the split that the dataset fixes, which vary initialisation and sampling "
                "only (methods without chance show no deviation)"
            )
        elif most > 1:
            runs += ", each with a split of its own; mean and standard deviation"
        notes.append(f"{runs}.")
    return " ".join(notes)
