"""The report of a study: tables and figures as one HTML page, Markdown, LaTeX and CSV."""

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
from corrhash._files import atomic_write, make_folder
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
    significance_table,
    variants_table,
)
from corrhash.experiments.report.tables import Table
from corrhash.experiments.result_files import load_results, load_trials, save_study
from corrhash.experiments.results import Result, StudyResults

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 86rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; }
nav a { margin-right: 1rem; display: inline-block; }
figure { margin: 2rem 0; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .5rem; text-align: left; white-space: nowrap; }
thead { border-top: 2px solid; border-bottom: 1px solid; }
tbody { border-bottom: 2px solid; } tr.rule { border-top: 1px solid; }
tr.groups th { text-align: center; }
figcaption { color: #555; font-size: .85rem; max-width: 60rem; }
img { max-width: 100%; height: auto; }
"""


def write_report(results: str | Path, folder: str | Path) -> Path:
    """Write the report of a study into a folder and return the path of its HTML page.

    ``results`` is the folder of a study or its packed JSON file. The report contains the packed
    results, ``results.json`` and ``results.npz``, from which it can be written again.
    """
    loaded, trials = load_results(results), load_trials(results)
    study = StudyResults(loaded)
    folder = make_folder(folder)
    tables = list(all_tables(study, trials))
    figures = list(draw_figures(study))
    facts = list(facts_of(study))
    for table in tables:
        _write(folder / f"{table.name}.csv", table.as_csv())
        _write(folder / f"{table.name}.tex", table.as_latex())
    for name, _, png in figures:
        with atomic_write(folder / f"{name}.png") as file:
            file.write(png)
    _write(folder / "results.csv", results_csv(loaded))
    save_study(folder / "results.json", study, trials)
    _write(folder / "report.tex", as_latex(tables))
    _write(folder / "report.md", as_markdown(facts, tables, figures))
    _write(folder / "index.html", as_html(facts, tables, figures))
    return folder / "index.html"


def all_tables(study: StudyResults, trials: Sequence[dict[str, Any]]) -> Iterator[Table]:
    """Yield every table that the results allow, in the order of the report."""
    tables = [
        map_table(study),
        variants_table(study),
        binarization_table(study),
        claims_table(study),
    ]
    tables += [published_table(study, dataset) for dataset in study.datasets]
    tables += [audit_table(study, dataset) for dataset in study.datasets]
    tables += [beyond_table(study, dataset) for dataset in study.datasets]
    tables.append(significance_table(study))
    tables += [settings_table(study, dataset, trials) for dataset in study.datasets]
    return (table for table in tables if table is not None)


def facts_of(study: StudyResults) -> Iterator[str]:
    """Describe the data and the metrics of each dataset."""
    for dataset in study.datasets:
        results = study.of_dataset(dataset)
        if not results:
            continue
        first = results[0]
        data, scores = first.facts["dataset"], first.scores("image->text", "hamming")
        sizes = ", ".join(f"{part} {n:,}" for part, n in data["sizes"].items())
        yield (
            f"{dataset}: {sizes}; {data['n_labels']} labels. Two training items share a label with "
            f"probability {data['share_similar_training_pairs']:.3f}. mAP definition "
            f"{scores['definition']}, ties {scores['ties']}, {_depth(scores)}; sign rule: "
            f"{first.facts['sign']}. "
            f"Fingerprints (seed {first.experiment.seed}): features and labels "
            f"{data['fingerprint']}, split {data['split']}."
        )
        mixed = study.seeds_with_mixed_splits(dataset)
        if mixed:
            seeds = ", ".join(map(str, mixed))
            yield (
                f"Warning: results on {dataset} with seed {seeds} use different splits and cannot "
                "be compared. Run the plan into a new folder."
            )


def _depth(scores: Any) -> str:
    return "whole ranking" if scores["depth"] is None else f"top {scores['depth']:,}"


def results_csv(results: Sequence[Result]) -> str:
    """Return one line per result and direction."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = "dataset method bits seed unseen direction map map_without_trained map_cosine "
    names += "n_queries n_without_relevant n_empty_text distinct_codes fit_seconds experiment"
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
                    scores["n_without_relevant"],
                    scores["n_empty_text"],
                    scores["n_distinct_database"],
                    result.facts["seconds"]["fit"],
                    experiment.name,
                ]
            )
    return file.getvalue()


Figures = Sequence[tuple[str, str, bytes]]


def as_markdown(facts: Sequence[str], tables: Sequence[Table], figures: Figures) -> str:
    """Return the report as Markdown with links to the figures."""
    lines = ["# Report", "", *(f"- {fact}" for fact in facts), ""]
    lines += [table.as_markdown() for table in tables]
    lines += [f"![{caption}]({name}.png)\n\n{caption}.\n" for name, caption, _ in figures]
    return "\n".join(lines)


def as_latex(tables: Sequence[Table]) -> str:
    """Return a LaTeX document that includes all tables."""
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
    """Return one HTML page with embedded figures."""
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
    body.append(f"<p><small>Written by corrhash {__version__}.</small></p>")
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
    """Return the start of a caption, as the text of a link."""
    return re.split("[:;,]", caption)[0]


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())
