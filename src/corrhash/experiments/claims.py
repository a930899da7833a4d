"""Claims: what the paper says of CHN, asked of the results at hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corrhash.experiments.directions import DIRECTIONS
from corrhash.experiments.gathered import COMPARED, SHALLOW, Gathered, title
from corrhash.experiments.paper_tables import arrow
from corrhash.experiments.published import published_gain
from corrhash.experiments.significance import Difference, difference
from corrhash.experiments.tables import Entry, Head, Table, three_digits

VERDICTS = {"better": "held", "worse": "not held", "undecided": "undecided"}


def claims_table(found: Gathered) -> Table | None:
    """Each claim for each dataset and direction: what was measured, and whether it held."""
    body = [
        [Entry(text) for text in line]
        for dataset in found.datasets
        if found.has(dataset, "chn")
        for direction in DIRECTIONS
        for line in _claims(found, dataset, direction)
    ]
    if not body:
        return None
    heads = ("claim", "dataset", "task", "measured", "95 % over queries", "p over seeds")
    note = (
        "Differences of MAP are averaged over all lengths unless a length is named. Held: the "
        "whole interval lies above zero and, where splits vary with the seed, p is below .05; not "
        "held: the same below zero; else undecided. Ranks are among the "
        "hashing methods that were run, by curves averaged over seeds."
    )
    columns = [Head(text) for text in (*heads, "paper", "verdict")]
    return Table("claims", "What the paper claims of CHN", columns, body, note)


def _claims(found: Gathered, dataset: str, direction: str) -> Iterator[list[str]]:
    lengths = found.lengths(dataset)
    shallow = best_shallow(found, dataset, direction)
    if shallow is not None:
        claim = f"CHN above the best shallow method, {title(shallow)}"
        yield _gain(found, dataset, direction, claim, shallow)
    for row, claim in (
        ("dcmh", "CHN above DCMH"),
        ("classifier", "CHN above the classifier code (not in the paper)"),
    ):
        if found.has(dataset, row):
            yield _gain(found, dataset, direction, claim, row)
    shown = found.shown_length(dataset)
    for curve, claim in (
        ("precision_at_recall", f"CHN first at every recall level, {shown} bits"),
        ("precision_at_rank", f"CHN first at every R up to 1,000, {shown} bits"),
    ):
        line = _ranks(found, dataset, direction, curve, claim)
        if line is not None:
            yield line
    for row, claim in (
        ("chn-m", "(a) margins help: CHN above CHN-M"),
        ("chn-i", "(b) cosines help: CHN above CHN-I"),
        ("chn-q", "CHN above CHN-Q"),
    ):
        if found.has(dataset, row):
            yield _gain(found, dataset, direction, claim, row)
    if found.has(dataset, "chn-q"):
        every = "(c) CHN loses less than CHN-Q when rounded"
        yield _loss(found, dataset, direction, every, lengths)
        yield _loss(found, dataset, direction, f"{every}, {lengths[0]} bits", lengths[:1])


def best_shallow(found: Gathered, dataset: str, direction: str) -> str | None:
    """The shallow method with the highest MAP, averaged over lengths."""
    lengths = found.lengths(dataset)

    def mean(row: str) -> float:
        maps = [found.maps(dataset, row, b, direction) for b in lengths]
        return float(np.mean([np.mean(m) for m in maps])) if all(maps) else -np.inf

    rows = [row for row in SHALLOW if found.has(dataset, row)]
    return max(rows, key=mean, default=None)


def _gain(found: Gathered, dataset: str, direction: str, claim: str, rival: str) -> list[str]:
    lengths = found.lengths(dataset)
    one, other = (
        found.average_precisions(dataset, row, lengths, direction) for row in ("chn", rival)
    )
    gap = difference(one, other, same_queries=found.fixed_split(dataset))
    printed = published_gain(dataset, direction, "chn", rival)
    return _line(claim, dataset, direction, gap, printed)


def _loss(
    found: Gathered, dataset: str, direction: str, claim: str, lengths: list[int]
) -> list[str]:
    """What CHN-Q loses when its scores are rounded to codes, minus what CHN loses."""
    lost = {}
    for row in ("chn-q", "chn"):
        before, after = (
            found.average_precisions(dataset, row, lengths, direction, by)
            for by in ("cosine", "hamming")
        )
        lost[row] = {seed: before[seed] - after[seed] for seed in before}
    gap = difference(lost["chn-q"], lost["chn"], same_queries=found.fixed_split(dataset))
    return _line(claim, dataset, direction, gap, None)


def _line(
    claim: str, dataset: str, direction: str, gap: Difference | None, printed: float | None
) -> list[str]:
    paper = "-" if printed is None else three_digits(printed, sign=True)
    first = [claim, dataset, arrow(direction)]
    if gap is None:
        return [*first, "-", "-", "-", paper, "not measured"]
    interval = f"{three_digits(gap.low, sign=True)} to {three_digits(gap.high, sign=True)}"
    p = "-" if gap.p_seeds is None else three_digits(gap.p_seeds)
    measured = three_digits(gap.mean, sign=True)
    return [*first, measured, interval, p, paper, VERDICTS[gap.verdict]]


def _ranks(
    found: Gathered, dataset: str, direction: str, curve: str, claim: str
) -> list[str] | None:
    """At how many points of a curve CHN is first, and its worst rank."""
    shown = found.shown_length(dataset)
    rows = [row for row in COMPARED if (dataset, row, shown) in found.cells]
    if "chn" not in rows or len(rows) < 2:
        return None
    curves = {
        row: np.mean(
            [r.arrays[f"{direction}.{curve}"] for r in found.cells[dataset, row, shown]], axis=0
        )
        for row in rows
    }
    ranks = 1 + sum((curves[row] > curves["chn"]).astype(int) for row in rows if row != "chn")
    first = int(np.sum(ranks == 1))
    measured = f"{first} of {len(ranks)}, at worst {ordinal(int(ranks.max()))}"
    verdict = "held" if first == len(ranks) else "not held"
    return [claim, dataset, arrow(direction), measured, "-", "-", "first at all", verdict]


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``3rd``, ``4th``; no more than nine methods are ranked.

    >>> ordinal(2), ordinal(7)
    ('2nd', '7th')
    """
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"
