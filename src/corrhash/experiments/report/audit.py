"""Audit of printed results: mAP of one study under every definition in use."""

from __future__ import annotations

import numpy as np

from corrhash.experiments.evaluation import ALL_QUERIES, DIRECTIONS, MAP_VARIANTS
from corrhash.experiments.report.paper_tables import PUBLISHED, seeds_note, task
from corrhash.experiments.report.tables import Entry, Head, Table, three_digits
from corrhash.experiments.results import StudyResults, title

NOTE = (
    "mAP: the whole ranking, expected over ties. New items: without training items in the "
    "database. Optimistic and pessimistic ties: relevant items first or last among equal "
    "distances; by row: ties in database order. dcmh: ties by row, and queries without a relevant "
    "item count 0. @k: the sum of precisions in the top k divided by the number of relevant items "
    "in it. first@k: the first k relevant items at any rank. possible@500: top 500, divided by "
    "min(500, relevant items). Empty texts kept: text queries without a known term count too."
)


def audit_table(study: StudyResults, dataset: str) -> Table | None:
    """Return the mAP of every method under every definition, beside the printed value if any."""
    n_bits = study.plotted_bits(dataset)
    columns = [*MAP_VARIANTS, ALL_QUERIES]
    printed = PUBLISHED.get(dataset, {})
    body: list[list[Entry]] = []
    rules = []
    for direction in DIRECTIONS:
        rules.append(len(body))
        for row in study.rows:
            results = [r for r in study.cells.get((dataset, row, n_bits), []) if r.n_bits == n_bits]
            if row in study.label_length_rows or not results:
                continue
            variants = [result.map_variants(direction) for result in results]
            if not any(variants):
                continue
            maps = [
                [result.map(direction, "hamming") for result in results],
                [result.map_without_trained(direction) for result in results],
                *([values.get(name, np.nan) for values in variants] for name in columns),
            ]
            texts = [task(direction), title(row)]
            if printed:
                texts.append(_printed(printed[direction].get(row, {}).get(n_bits)))
            texts += [three_digits(float(np.mean(values))) for values in maps]
            body.append([Entry(text) for text in texts])
    if not body:
        return None
    heads = ["task", "method", *(["printed"] if printed else []), "mAP", "new items", *columns]
    return Table(
        f"audit-{dataset}",
        f"mAP under other definitions: {dataset}, {n_bits} bits",
        [Head(text) for text in heads],
        body,
        f"{NOTE} {seeds_note(study, study.rows, dataset)}",
        rules[1:],
    )


def _printed(value: float | None) -> str:
    return "-" if value is None else three_digits(value)
