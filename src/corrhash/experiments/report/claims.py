"""Claims of the CHN paper, and the same of CHN-plus, tested on the results of a study."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.report.paper_tables import published_gain, task
from corrhash.experiments.report.significance import Difference, difference
from corrhash.experiments.report.tables import Entry, Head, Table, three_digits
from corrhash.experiments.results import COMPARED, SHALLOW, StudyResults, title

VERDICTS = {"better": "supported", "worse": "not supported", "inconclusive": "inconclusive"}


def claims_table(study: StudyResults) -> Table | None:
    """Return each claim, the measurement and the verdict, per dataset and direction."""
    body = [
        [Entry(text) for text in line]
        for dataset in study.datasets
        for direction in DIRECTIONS
        for claims in (_claims, _plus_claims)
        for line in claims(study, dataset, direction)
    ]
    if not body:
        return None
    heads = ("claim", "dataset", "task", "measured", "95 % CI over queries", "p over seeds")
    note = (
        "Differences of mAP@all, averaged over all code lengths unless one is given. Supported: "
        "the confidence interval is above zero and, if splits vary with the seed, p of a t-test "
        "paired over them is below .05. Not supported: the same below zero. Inconclusive: "
        "everything else, such as a single split. Ranks are among the published methods of the "
        "study, on curves averaged over seeds."
    )
    columns = [Head(text) for text in (*heads, "paper", "verdict")]
    return Table("claims", "Claims of the CHN paper, and CHN-plus", columns, body, note)


def _claims(study: StudyResults, dataset: str, direction: str) -> Iterator[list[str]]:
    """Yield the claims of the paper."""
    if not study.has(dataset, "chn"):
        return
    lengths = study.code_lengths(dataset)
    yield from _gains(study, dataset, direction, "chn", ("dcmh", "classifier"))
    n_bits = study.plotted_bits(dataset)
    for curve, claim in (
        ("precision_at_recall", f"CHN is best at every recall level, {n_bits} bits"),
        ("precision_at_rank", f"CHN is best at every R up to 1,000, {n_bits} bits"),
    ):
        line = _ranks(study, dataset, direction, curve, claim)
        if line is not None:
            yield line
    for row, claim in (
        ("chn-m", "(a) Margins help: CHN is better than CHN-M"),
        ("chn-i", "(b) Cosine similarity helps: CHN is better than CHN-I"),
        ("chn-q", "CHN is better than CHN-Q"),
    ):
        if study.has(dataset, row):
            yield _gain(study, dataset, direction, claim, "chn", row)
    if study.has(dataset, "chn-q"):
        claim = "(c) CHN loses less mAP by binarization than CHN-Q"
        yield _loss(study, dataset, direction, claim, lengths)
        yield _loss(study, dataset, direction, f"{claim}, {lengths[0]} bits", lengths[:1])


def _plus_claims(study: StudyResults, dataset: str, direction: str) -> Iterator[list[str]]:
    """Yield the comparisons of CHN-plus, which is not in the paper."""
    if study.has(dataset, "chn-plus"):
        rivals = ("dcmh", "chn", "classifier")
        yield from _gains(study, dataset, direction, "chn-plus", rivals)


def _gains(
    study: StudyResults, dataset: str, direction: str, row: str, rivals: tuple[str, ...]
) -> Iterator[list[str]]:
    """Compare a row with the best shallow method and with some others."""
    shallow = best_shallow(study, dataset, direction)
    if shallow is not None:
        claim = f"{title(row)} is better than the best shallow method ({title(shallow)})"
        yield _gain(study, dataset, direction, claim, row, shallow)
    for rival in rivals:
        if study.has(dataset, rival):
            claim = f"{title(row)} is better than {title(rival)}"
            yield _gain(study, dataset, direction, claim, row, rival)


def best_shallow(study: StudyResults, dataset: str, direction: str) -> str | None:
    """Return the shallow method with the highest mAP, averaged over code lengths."""
    lengths = study.code_lengths(dataset)

    def mean(row: str) -> float:
        maps = [study.maps(dataset, row, b, direction) for b in lengths]
        return float(np.mean([np.mean(m) for m in maps])) if all(maps) else -np.inf

    rows = [row for row in SHALLOW if study.has(dataset, row)]
    return max(rows, key=mean, default=None)


def _gain(
    study: StudyResults, dataset: str, direction: str, claim: str, row: str, rival: str
) -> list[str]:
    lengths = study.code_lengths(dataset)
    one, other = (
        study.average_precisions(dataset, name, lengths, direction) for name in (row, rival)
    )
    gap = difference(one, other, same_queries=study.fixed_split(dataset))
    printed = published_gain(dataset, direction, row, rival)
    return _line(claim, dataset, direction, gap, printed)


def _loss(
    study: StudyResults, dataset: str, direction: str, claim: str, lengths: list[int]
) -> list[str]:
    """Compare what CHN-Q and CHN lose by binarization."""
    lost = {}
    for row in ("chn-q", "chn"):
        before, after = (
            study.average_precisions(dataset, row, lengths, direction, by)
            for by in ("cosine", "hamming")
        )
        lost[row] = {seed: before[seed] - after[seed] for seed in before}
    gap = difference(lost["chn-q"], lost["chn"], same_queries=study.fixed_split(dataset))
    return _line(claim, dataset, direction, gap, None)


def _line(
    claim: str, dataset: str, direction: str, gap: Difference | None, printed: float | None
) -> list[str]:
    paper = "-" if printed is None else three_digits(printed, sign=True)
    first = [claim, dataset, task(direction)]
    if gap is None:
        return [*first, "-", "-", "-", paper, "not measured"]
    interval = f"{three_digits(gap.low, sign=True)} to {three_digits(gap.high, sign=True)}"
    p = "-" if gap.p_seeds is None else three_digits(gap.p_seeds)
    measured = three_digits(gap.mean, sign=True)
    return [*first, measured, interval, p, paper, VERDICTS[gap.verdict]]


def _ranks(
    study: StudyResults, dataset: str, direction: str, curve: str, claim: str
) -> list[str] | None:
    """Count the points of a curve at which CHN is best, and find its worst rank."""
    n_bits = study.plotted_bits(dataset)
    rows = [row for row in COMPARED if (dataset, row, n_bits) in study.cells]
    if "chn" not in rows or len(rows) < 2:
        return None
    curves = {
        row: np.mean(
            [r.arrays[f"{direction}.{curve}"] for r in study.cells[dataset, row, n_bits]], axis=0
        )
        for row in rows
    }
    ranks = 1 + sum((curves[row] > curves["chn"]).astype(int) for row in rows if row != "chn")
    first = int(np.sum(ranks == 1))
    measured = f"best at {first} of {len(ranks)}, worst rank {ranks.max()}"
    verdict = "supported" if first == len(ranks) else "not supported"
    return [claim, dataset, task(direction), measured, "-", "-", "best at all", verdict]
