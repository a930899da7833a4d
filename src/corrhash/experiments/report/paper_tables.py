"""The tables of a report: those of the CHN paper, and more about generalization and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.report.significance import difference
from corrhash.experiments.report.tables import (
    Entry,
    Head,
    Table,
    mark_best,
    mean_and_deviation,
    three_digits,
)
from corrhash.experiments.results import BINARIZED, VARIANTS, StudyResults, title

PUBLISHED_BITS = (16, 32, 64, 128)

# Yue Cao, Mingsheng Long, Jianmin Wang and Philip S. Yu. Correlation hashing network for
# efficient cross-modal retrieval. BMVC 2017, tables 1 and 2. The paper does not define its mAP:
# compare ranks and trends only.
_MAPS = {
    "nuswide": {
        "image->text": """
            cvh .4454 .4342 .4290 .4479
            imh .5256 .6358 .6151 .6183
            cmssh .4665 .4809 .5670 .5288
            rahh .6047 .6312 .6354 .6534
            scm .6871 .7271 .7600 .7739
            seph .5982 .5910 .5988 .6239
            mmnn .6255 .6424 .6514 .6713
            dcmh .7353 .7628 .7805 .7912
            chn-m .6987 .7251 .7350 .7593
            chn-i .6751 .7047 .7214 .7253
            chn-q .7743 .7982 .8212 .8598
            chn .7995 .8146 .8353 .8662
            chn-b .8650 .8706 .8746 .8879""",
        "text->image": """
            cvh .4357 .4253 .4186 .4184
            imh .6253 .6816 .7094 .6532
            cmssh .4166 .5110 .4343 .4974
            rahh .5786 .6158 .6214 .6240
            scm .6794 .7194 .7480 .7466
            seph .6044 .6036 .6256 .6405
            mmnn .6083 .6226 .6435 .6648
            dcmh .6898 .7102 .7358 .7557
            chn-m .5789 .5924 .5997 .6318
            chn-i .5874 .6012 .6241 .6534
            chn-q .7395 .7543 .7779 .8053
            chn .7533 .7803 .7888 .8288
            chn-b .8003 .8095 .8185 .8407""",
    },
    "mirflickr25k": {
        "image->text": """
            cvh .6883 .7092 .6976 .6334
            imh .6765 .6989 .6964 .6839
            cmssh .5122 .5404 .5842 .5740
            rahh .6899 .7086 .7155 .7204
            scm .6953 .7091 .7070 .7497
            seph .7526 .7604 .7607 .7651
            mmnn .6915 .7185 .7277 .7352
            dcmh .7576 .7985 .8152 .8369
            chn-m .7313 .7665 .8148 .8281
            chn-i .7105 .7481 .7798 .7843
            chn-q .7893 .8214 .8558 .8678
            chn .8223 .8477 .8777 .8808
            chn-b .8753 .8612 .8905 .8933""",
        "text->image": """
            cvh .6065 .6277 .6063 .6004
            imh .6229 .6201 .6239 .6237
            cmssh .4656 .4624 .4769 .5337
            rahh .6248 .6321 .6359 .6464
            scm .6173 .6115 .6177 .6564
            seph .6470 .6429 .6517 .6550
            mmnn .6815 .6992 .7082 .7171
            dcmh .7013 .7288 .7458 .7698
            chn-m .6532 .6875 .7015 .7135
            chn-i .6817 .6987 .7314 .7389
            chn-q .7515 .7687 .8043 .8125
            chn .7749 .7891 .8169 .8258
            chn-b .7915 .8142 .8207 .8308""",
    },
}


def _read(text: str) -> dict[str, dict[int, float]]:
    lines = [line.split() for line in text.strip().splitlines()]
    return {name: dict(zip(PUBLISHED_BITS, map(float, maps), strict=True)) for name, *maps in lines}


PUBLISHED = {
    dataset: {direction: _read(text) for direction, text in directions.items()}
    for dataset, directions in _MAPS.items()
}
"""Dataset -> direction -> method -> n_bits -> mAP, as printed in the paper."""


def published_gain(dataset: str, direction: str, method: str, rival: str) -> float | None:
    """Return the published gain of a method over a rival, averaged over code lengths.

    >>> round(published_gain("nuswide", "image->text", "chn", "scm"), 4)
    0.0919
    >>> published_gain("scenes", "image->text", "chn", "scm")
    """
    maps = PUBLISHED.get(dataset, {}).get(direction, {})
    if method not in maps or rival not in maps:
        return None
    return sum(maps[method][b] - maps[rival][b] for b in PUBLISHED_BITS) / len(PUBLISHED_BITS)


MAP_CAPTION = (
    "mAP@all: mean average precision over the whole Hamming ranking, expected over ties. I→T: "
    "image queries, text database; T→I: text queries, image database."
)


def task(direction: str) -> str:
    """Return the short name of a direction.

    >>> task("image->text"), task("text->image")
    ('I→T', 'T→I')
    """
    return "→".join(modality[0].upper() for modality in direction.split("->"))


def map_table(study: StudyResults) -> Table:
    """Table 1: mAP of all methods in both directions, at all code lengths, on all datasets."""
    without = [row for row in study.rows if row not in VARIANTS or row == "chn"]
    rows = [row for row in without if row not in study.label_length_rows]
    return _by_length(
        study,
        rows,
        "table1",
        "Table 1. mAP@all of all methods",
        f"{MAP_CAPTION} {seeds_note(study, rows)}",
    )


def variants_table(study: StudyResults) -> Table | None:
    """Table 2: CHN without one of its parts each, and without binarization."""
    rows = [row for row in VARIANTS if any(study.has(dataset, row) for dataset in study.datasets)]
    if not set(rows) - {"chn", "chn-b"}:
        return None
    note = (
        "CHN-M has no margins, CHN-I uses inner products instead of cosines, CHN-Q has no "
        "quantization loss. CHN-B is CHN without binarization, ranked by cosine."
    )
    note = f"{note} {seeds_note(study, rows)}"
    return _by_length(study, rows, "table2", "Table 2. mAP@all of CHN and its variants", note)


def _by_length(
    study: StudyResults, rows: Sequence[str], name: str, heading: str, note: str
) -> Table:
    """Stack both directions; datasets are groups of columns."""
    columns = [(dataset, b) for dataset in study.datasets for b in study.code_lengths(dataset)]
    heads = [Head("task"), Head("method")]
    heads += [Head(f"{b} bits", dataset) for dataset, b in columns]
    body: list[list[Entry]] = []
    for direction in DIRECTIONS:
        maps = [[study.maps(data, row, b, direction) for data, b in columns] for row in rows]
        values = [[float(np.mean(m)) if m else np.nan for m in of_row] for of_row in maps]
        texts = [[mean_and_deviation(m) for m in of_row] for of_row in maps]
        for row, entries in zip(rows, mark_best(values, texts), strict=True):
            body.append([Entry(task(direction)), Entry(title(row)), *entries])
    note = f"{note} Best in bold, second best underlined."
    return Table(name, heading, heads, body, note, [len(rows)])


def binarization_table(study: StudyResults) -> Table | None:
    """Table 3: mAP before and after binarization, of CHN, CHN-Q and CHN-plus."""
    rows = [row for row in BINARIZED if any(study.has(d, row) for d in study.datasets)]
    if not rows:
        return None
    columns = [(dataset, b) for dataset in study.datasets for b in study.code_lengths(dataset)]
    body = []
    for direction in DIRECTIONS:
        for row in rows:
            cells = [
                [study.maps(data, row, b, direction, by) for by in ("cosine", "hamming")]
                for data, b in columns
            ]
            lost = [[b - a for b, a in zip(*both, strict=True)] for both in cells]
            lines = {
                "before": [mean_and_deviation(before) for before, _ in cells],
                "after": [mean_and_deviation(after) for _, after in cells],
                "loss": [three_digits(float(np.mean(gap))) if gap else "-" for gap in lost],
            }
            for what, texts in lines.items():
                first = [task(direction), title(row), what]
                body.append([Entry(text) for text in (*first, *texts)])
    heads = [Head("task"), Head("method"), Head("binarization")]
    heads += [Head(f"{b} bits", dataset) for dataset, b in columns]
    note = (
        "Before: ranked by the cosine of continuous codes. After: by the Hamming distance of "
        "codes. "
        f"{seeds_note(study, rows)}"
    )
    rules = range(3, len(body), 3)
    heading = "Table 3. mAP@all before and after binarization"
    return Table("table3", heading, heads, body, note, list(rules))


def beyond_table(study: StudyResults, dataset: str) -> Table:
    """Generalization to new items and unseen labels, distinct codes, time and memory."""
    plotted = study.plotted_bits(dataset)
    body = []
    for row in study.rows:
        lengths = sorted({b for data, name, b in study.cells if (data, name) == (dataset, row)})
        if not lengths:
            continue
        n_bits = plotted if plotted in lengths else lengths[0]
        body.append(_beyond_row(study, dataset, row, n_bits))
    metrics = ("mAP", "new items", "unseen labels")
    heads = [Head(text) for text in ("method", "bits", "image features")]
    heads += [Head(metric, task(direction)) for direction in DIRECTIONS for metric in metrics]
    heads += [
        Head(text, "") for text in ("distinct codes", "fit (s)", "encode (s)", "peak memory (MB)")
    ]
    note = (
        "mAP@all. New items: training items are removed from the database. Unseen labels: a "
        "quarter of the labels is held out of training and only these are queried; compare "
        "within the column only. Distinct codes: different image codes in the database; few mean "
        "that codes have collapsed. Times are wall-clock seconds on one thread. "
        f"{seeds_note(study, study.rows, dataset)}"
    )
    return Table(f"beyond-{dataset}", f"Generalization and cost: {dataset}", heads, body, note)


def _beyond_row(study: StudyResults, dataset: str, row: str, n_bits: int) -> list[Entry]:
    results = study.cells[dataset, row, n_bits]
    unseen = study.unseen.get((dataset, row, n_bits), [])
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


def significance_table(study: StudyResults) -> Table | None:
    """CHN-plus, or else CHN, minus each other method, with an interval and a test over seeds."""
    row = "chn-plus" if "chn-plus" in study.rows else "chn"
    others = [name for name in study.rows if name != row and name not in study.label_length_rows]
    columns = [(d, b) for d in study.datasets for b in study.code_lengths(d) if study.has(d, row)]
    if not columns or not others:
        return None
    body = []
    for direction in DIRECTIONS:
        for other in others:
            texts = [_difference(study, d, b, direction, row, other) for d, b in columns]
            body.append([Entry(t) for t in (task(direction), title(other), *texts)])
    heads = [Head("task"), Head(f"{title(row)} minus")]
    heads += [Head(f"{b} bits", dataset) for dataset, b in columns]
    note = (
        "Difference of mAP@all with its 95 % bootstrap confidence interval over queries (2,000 "
        "resamples), and p of a t-test paired over seeds if there are several. An interval that "
        f"contains zero is inconclusive. {seeds_note(study, [row, *others])}"
    )
    heading = f"Significance: {title(row)} against each method"
    return Table("significance", heading, heads, body, note, [len(others)])


def _difference(
    study: StudyResults, dataset: str, n_bits: int, direction: str, row: str, other: str
) -> str:
    one, two = (
        study.average_precisions(dataset, name, [n_bits], direction) for name in (row, other)
    )
    gap = difference(one, two, same_queries=study.fixed_split(dataset))
    if gap is None:
        return "-"
    text = f"{three_digits(gap.mean, sign=True)} [{three_digits(gap.low, sign=True)}, "
    text += f"{three_digits(gap.high, sign=True)}]"
    return text if gap.p_seeds is None else f"{text}, p {three_digits(gap.p_seeds)}"


def published_table(study: StudyResults, dataset: str) -> Table | None:
    """Compare with the published numbers if the dataset is one of the paper's."""
    if dataset not in PUBLISHED:
        return None
    lengths = [b for b in study.code_lengths(dataset) if b in PUBLISHED_BITS]
    body = []
    for direction in DIRECTIONS:
        for row, printed in PUBLISHED[dataset][direction].items():
            texts = []
            for b in lengths:
                ours = study.maps(dataset, row, b, direction)
                texts.append(three_digits(float(np.mean(ours))) if ours else "-")
                texts.append(f"{printed[b]:.4f}".lstrip("0"))
            body.append([Entry(t) for t in (task(direction), title(row), *texts)])
    heads = [Head("task"), Head("method")]
    heads += [Head(text, f"{b} bits") for b in lengths for text in ("ours", "paper")]
    note = (
        "The paper does not state its mAP definition or how it treats ties: compare ranks and "
        "trends."
    )
    half = len(body) // 2
    heading = f"Published results: {dataset}"
    return Table(f"published-{dataset}", heading, heads, body, note, [half])


def settings_table(study: StudyResults, dataset: str, trials: Sequence[dict[str, Any]]) -> Table:
    """List the settings of each method, the number of tuning trials and the warnings."""
    body = []
    for row in study.rows:
        results = [r for r in study.of_dataset(dataset) if r.experiment.row == row]
        if not results:
            continue
        n_trials = sum(
            (t["experiment"]["dataset"], t["experiment"]["row"]) == (dataset, row) for t in trials
        )
        first = results[0].experiment
        chosen = ["paper settings"] if first.paper_settings else []
        chosen += [f"{name} = {value}" for name, value in first.params]
        notes = sorted({note for r in results for note in r.facts["notes"]})
        texts = [title(row), str(n_trials or "-"), ", ".join(chosen) or "defaults", first.name]
        body.append([Entry(text) for text in (*texts, " ".join(notes) or "-")])
    heads = ("method", "trials", "settings", "first experiment", "warnings")
    note = (
        "Settings are tuned by validation mAP at 32 bits with the first seed, in at most eight "
        "trials per method, and used at all code lengths and seeds. Settings not listed have their "
        "defaults."
    )
    columns = [Head(text) for text in heads]
    return Table(f"settings-{dataset}", f"Settings: {dataset}", columns, body, note)


def seeds_note(study: StudyResults, rows: Sequence[str], dataset: str | None = None) -> str:
    """State how many seeds each row has, and what the seeds vary."""
    notes = []
    for name in study.datasets if dataset is None else [dataset]:
        n_seeds: dict[str, int] = {}  # the minimum over code lengths
        for (data, row, _), cell in study.cells.items():
            if data == name and row in rows:
                n_seeds[row] = min(n_seeds.get(row, len(cell)), len(cell))
        most = max(n_seeds.values(), default=0)
        fewer = "".join(f", {title(row)}: {n}" for row, n in n_seeds.items() if n < most)
        note = f"{name}: {most} seed{'s' if most > 1 else ''}{fewer}"
        if study.fixed_split(name):
            note += (
                "; the dataset defines the split, so that seeds vary only initialization and "
                "sampling, and deterministic methods show no deviation"
            )
        elif most > 1:
            note += "; each seed has its own split; mean ± standard deviation"
        notes.append(f"{note}.")
    return " ".join(notes)
