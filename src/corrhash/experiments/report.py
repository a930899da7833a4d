"""A report: the tables and figures of some results, as Markdown, LaTeX, CSV and one HTML page."""

from __future__ import annotations

import base64
import csv
import html
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from corrhash import __version__
from corrhash.atomic_write import atomic_write, make_folder
from corrhash.experiments.claims import claims_table
from corrhash.experiments.directions import DIRECTIONS
from corrhash.experiments.figures import draw_figures
from corrhash.experiments.gathered import Gathered
from corrhash.experiments.paper_tables import (
    beyond_table,
    map_table,
    published_table,
    rounding_table,
    settings_table,
    significance_table,
    variants_table,
)
from corrhash.experiments.results import Result, load_results, load_trials
from corrhash.experiments.tables import Table

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 86rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; }
nav a { margin-right: 1rem; display: inline-block; }
figure { margin: 2rem 0; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .5rem; text-align: left; white-space: nowrap; }
td.words { white-space: normal; min-width: 12rem; }
thead { border-top: 2px solid; border-bottom: 1px solid; }
tbody { border-bottom: 2px solid; } tr.rule { border-top: 1px solid; }
tr.groups th { text-align: center; }
figcaption { color: #555; font-size: .85rem; max-width: 60rem; }
img { max-width: 100%; height: auto; }
"""


def write_report(results: str | Path, folder: str | Path) -> Path:
    """Write everything about the results in one folder into another; the page to open."""
    found, trials = Gathered(load_results(results)), load_trials(results)
    folder = make_folder(folder)
    tables = list(all_tables(found, trials))
    figures = list(draw_figures(found))
    facts = list(facts_of(found))
    for table in tables:
        _write(folder / f"{table.name}.csv", table.as_csv())
        _write(folder / f"{table.name}.tex", table.as_latex())
    for name, _, png in figures:
        with atomic_write(folder / f"{name}.png") as file:
            file.write(png)
    _write(folder / "results.csv", results_csv(load_results(results)))
    _write(folder / "report.tex", as_latex(tables))
    _write(folder / "report.md", as_markdown(facts, tables, figures))
    _write(folder / "index.html", as_html(facts, tables, figures))
    return folder / "index.html"


def all_tables(found: Gathered, trials: Sequence[dict[str, Any]]) -> Iterator[Table]:
    """Every table that the results allow, in the order of the report."""
    tables = [map_table(found), variants_table(found), rounding_table(found), claims_table(found)]
    tables += [published_table(found, dataset) for dataset in found.datasets]
    tables += [beyond_table(found, dataset) for dataset in found.datasets]
    tables.append(significance_table(found))
    tables += [settings_table(found, dataset, trials) for dataset in found.datasets]
    return (table for table in tables if table is not None)


def facts_of(found: Gathered) -> Iterator[str]:
    """What the numbers rest on, a sentence or two for each dataset."""
    for dataset in found.datasets:
        results = found.results(dataset)
        if not results:
            continue
        first = results[0]
        data, scores = first.facts["dataset"], first.scores("image->text", "hamming")
        sizes = ", ".join(f"{part} {n:,}" for part, n in data["sizes"].items())
        yield (
            f"{dataset}: {sizes}; {data['n_labels']} labels. Two training items share a label with "
            f"probability {data['share_similar_training_pairs']:.3f}. Reading {scores['reading']}, "
            f"ties {scores['ties']}, {_cut(scores)}; sign rule: {first.facts['sign']}. "
            f"Fingerprint of the data of seed {first.experiment.seed}: {data['fingerprint']}."
        )
        mixed = found.mixed_data(dataset)
        if mixed:
            seeds = ", ".join(map(str, mixed))
            yield (
                f"Beware: results on {dataset} with seed {seeds} rest on different splits and must "
                "not be compared. Run the plan into a new folder."
            )


def _cut(scores: Any) -> str:
    return "no cut" if scores["depth"] is None else f"cut at {scores['depth']:,}"


def results_csv(results: Sequence[Result]) -> str:
    """Every result and direction on a line, with the file that it comes from."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = "dataset method bits seed unseen direction map map_without_trained map_cosine "
    names += "n_queries n_empty n_untagged distinct_codes fit_seconds file"
    writer.writerow(names.split())
    for result in results:
        experiment = result.experiment
        for direction in DIRECTIONS:
            scores = result.scores(direction, "hamming")
            writer.writerow(
                [
                    experiment.dataset,
                    experiment.row,
                    result.n_bits,
                    experiment.seed,
                    experiment.unseen,
                    direction,
                    result.map(direction),
                    result.map_without_trained(direction),
                    result.map(direction, "cosine"),
                    scores["n_queries"],
                    scores["n_empty"],
                    scores["n_untagged"],
                    scores["n_distinct_database"],
                    result.facts["seconds"]["fit"],
                    result.path.name,
                ]
            )
    return file.getvalue()


Figures = Sequence[tuple[str, str, bytes]]


def as_markdown(facts: Sequence[str], tables: Sequence[Table], figures: Figures) -> str:
    """The report with links to the pictures beside it."""
    lines = ["# Report", "", *(f"- {fact}" for fact in facts), ""]
    lines += [table.as_markdown() for table in tables]
    lines += [f"![{caption}]({name}.png)\n\n{caption}.\n" for name, caption, _ in figures]
    return "\n".join(lines)


def as_latex(tables: Sequence[Table]) -> str:
    """A document that holds all tables, to be compiled beside their files."""
    inputs = [rf"\input{{{table.name}.tex}}" for table in tables]
    return "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[utf8]{inputenc}",
            r"\usepackage[landscape,margin=1cm]{geometry}",
            r"\begin{document}",
            *inputs,
            r"\end{document}",
            "",
        ]
    )


def as_html(facts: Sequence[str], tables: Sequence[Table], figures: Figures) -> str:
    """One page that needs nothing else: pictures are part of it."""
    body = [
        "<h1>Report</h1>",
        "<ul>",
        *(f"<li>{html.escape(fact)}</li>" for fact in facts),
        "</ul>",
    ]
    links = [(t.name, t.title) for t in tables] + [
        (n, _short(caption)) for n, caption, _ in figures
    ]
    body.append(
        "<nav>" + "".join(f'<a href="#{n}">{html.escape(t)}</a>' for n, t in links) + "</nav>"
    )
    body += ["<h2>Tables</h2>", *(table.as_html() for table in tables), "<h2>Figures</h2>"]
    for name, caption, png in figures:
        source = base64.b64encode(png).decode()
        body.append(
            f'<figure id="{name}"><img alt="{html.escape(caption)}" '
            f'src="data:image/png;base64,{source}"><figcaption>{html.escape(caption)}.</figcaption>'
            "</figure>"
        )
    body.append(f"<p><small>Made by corrhash {__version__} from result files alone.</small></p>")
    head = f'<meta charset="utf-8"><title>Report</title><style>{STYLE}</style>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head>{head}{view}</head><body>',
            *body,
            "</body></html>",
        ]
    )


def _short(caption: str) -> str:
    """The beginning of a caption, as the text of a link."""
    return re.split("[:;,]", caption)[0]


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())
