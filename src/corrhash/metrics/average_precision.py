"""Average precision of rankings with ties, in every definition of mAP in common use.

The precision at a relevant item is the share of relevant items up to its rank. Average precision
(AP) is its mean over a query's relevant items, mAP the mean of AP over queries. For tied items, AP
is the expectation over all their orders, in closed form (McSherry & Najork, 2008).

Symbols of the closed form: n items in a tied group, r of them relevant; N0 items and R0 relevant
items before the group; H[i] the harmonic numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma
from scipy.stats import hypergeom

from corrhash.errors import InputError
from corrhash.metrics.tied_groups import Counts, TiedGroups

MAP_DEFINITIONS = {
    "all": "whole ranking; queries without a relevant item are excluded",
    "dcmh": "whole ranking; queries without a relevant item count 0",
    "hashnet": "top R, divided by the relevant items in it; empty tops are excluded",
    "first": "the first min(k, relevant) relevant items at any rank",
    "possible": "top k, divided by min(k, relevant)",
    "trec": "top k, divided by all relevant items",
}
"""mAP definitions by name. All but ``all`` and ``dcmh`` take a cut-off, as in ``hashnet@5000``."""


@dataclass(frozen=True)
class MapDefinition:
    """A definition of mAP: which precisions are summed, and what the sum is divided by.

    >>> MapDefinition.parse("hashnet@5000")
    MapDefinition(name='hashnet', depth=5000)
    >>> str(MapDefinition.parse("all"))
    'all'
    """

    name: str
    depth: int | None = None

    @classmethod
    def parse(cls, text: str) -> MapDefinition:
        """Parse ``all``, ``dcmh``, ``hashnet@R``, ``first@k``, ``possible@k`` or ``trec@k``."""
        match = re.fullmatch(r"(all|dcmh)|(hashnet|first|possible|trec)@([1-9][0-9]*)", str(text))
        if match is None:
            raise InputError(
                f"Unknown mAP definition {text!r}. Valid: all, dcmh, hashnet@R, first@k, "
                "possible@k, trec@k, where R and k are positive integers."
            )
        without_depth, name, depth = match.groups()
        return cls(without_depth) if without_depth else cls(name, int(depth))

    def __str__(self) -> str:
        return self.name if self.depth is None else f"{self.name}@{self.depth}"


def average_precision(groups: TiedGroups, definition: MapDefinition) -> NDArray[np.float64]:
    """(n_queries,) AP of each query; NaN for a query that the definition excludes.

    If ties cross the cut-off of ``hashnet@R``, AP is the expectation over the orders in which the
    top R contains a relevant item.
    """
    depth = definition.depth or 0
    if definition.name == "hashnet":
        return _hashnet(groups, depth)
    if definition.name in ("all", "dcmh"):
        length = groups.items
    elif definition.name == "first":
        length = _length_of_first_relevant(groups, depth)
    else:
        length = _length_in_top(groups, depth)
    precision_sums = _expected_sum(groups, length).sum(axis=1)
    return divide_precision_sums(precision_sums, definition, groups.n_relevant)


def divide_precision_sums(
    precision_sums: NDArray[np.float64],
    definition: MapDefinition,
    n_relevant: Counts,
    hits_in_top: Counts | None = None,
) -> NDArray[np.float64]:
    """(n_queries,) AP from sums of precisions; NaN for a query that the definition excludes.

    Only ``hashnet@R`` needs ``hits_in_top``, the number of relevant items in the top R.
    """
    divisor = n_relevant
    if definition.name == "hashnet":
        assert hits_in_top is not None
        divisor = hits_in_top
    elif definition.name in ("first", "possible"):
        divisor = np.minimum(n_relevant, definition.depth or 0)
    without_relevant = 0.0 if definition.name == "dcmh" else np.nan
    return np.where(divisor > 0, precision_sums / np.maximum(divisor, 1), without_relevant)


def _length_in_top(groups: TiedGroups, depth: int) -> Counts:
    """(n_queries, n_groups) number of ranks of each group in the top ``depth``."""
    return np.clip(depth - groups.items_before, 0, groups.items)


def _length_of_first_relevant(groups: TiedGroups, depth: int) -> Counts:
    """(n_queries, n_groups) number of ranks of each group up to the k-th relevant item.

    Every group must be all relevant or all irrelevant: other ties have no closed form.
    """
    wanted = np.clip(depth - groups.relevant_before, 0, groups.relevant)
    return np.where(wanted < groups.relevant, wanted, np.where(wanted > 0, groups.items, 0))


def _expected_sum(groups: TiedGroups, length: Counts) -> NDArray[np.float64]:
    """(n_queries, n_groups) expected sum of precisions over the first ``length`` ranks of a group.

    sum over t = 1..length of r/n * (R0 + 1 + (t-1) * b) / (N0 + t)  with  b = (r-1) / (n-1)
        = r/n * (b * length + (a - b * (N0+1)) * (H[N0+length] - H[N0]))  with  a = R0 + 1
    """
    return _closed_form(
        groups.items, groups.relevant, groups.items_before, groups.relevant_before, length
    )


def _closed_form(
    n: Counts, r: Counts, n0: Counts, r0: Counts, length: Counts
) -> NDArray[np.float64]:
    b = np.where(n > 1, (r - 1) / np.maximum(n - 1, 1), 0.0)
    harmonic = _harmonic_difference(n0, length)
    return r / np.maximum(n, 1) * (b * length + (r0 + 1 - b * (n0 + 1)) * harmonic)


def _harmonic_difference(start: Counts, length: Counts) -> NDArray[np.float64]:
    """H[start + length] - H[start]; digamma is evaluated only where several items tie."""
    difference = np.where(length > 0, 1.0 / (start + 1), 0.0)
    several = length > 1
    first = start[several]
    difference[several] = digamma(first + length[several] + 1.0) - digamma(first + 1.0)
    return difference


def _hashnet(groups: TiedGroups, depth: int) -> NDArray[np.float64]:
    """AP of ``hashnet@R``: condition on the hits of the group that crosses the cut-off."""
    length = _length_in_top(groups, depth)
    whole = length == groups.items
    total = np.where(whole, _expected_sum(groups, length), 0.0).sum(axis=1)
    hits = np.where(whole, groups.relevant, 0).sum(axis=1)
    definition = MapDefinition("hashnet", depth)
    values = divide_precision_sums(total, definition, groups.n_relevant, hits)
    for query, group in np.argwhere((length > 0) & ~whole):
        cases = _cases_at_cut(groups, query, group, length[query, group])
        values[query] = _mean_over_cases(*cases, total[query], hits[query])
    return values


def _cases_at_cut(
    groups: TiedGroups, query: int, group: int, length: int
) -> tuple[Counts, NDArray[np.float64], NDArray[np.float64]]:
    """Possible hits of a group above the cut-off, their probabilities and sums of precisions."""
    n, r = groups.items[query, group], groups.relevant[query, group]
    hits = np.arange(max(0, length - (n - r)), min(r, length) + 1)
    probability = hypergeom.pmf(hits, n, r, length)
    n0, r0 = groups.items_before[query, group], groups.relevant_before[query, group]
    ranks = np.full_like(hits, length)
    # Given its hits, the part of the group above the cut-off is a tied group of its own.
    sums = _closed_form(ranks, hits, np.full_like(hits, n0), np.full_like(hits, r0), ranks)
    return hits, probability, sums


def _mean_over_cases(
    hits_in_group: Counts,
    probability: NDArray[np.float64],
    sums: NDArray[np.float64],
    total_before: float,
    hits_before: int,
) -> float:
    """Expected (sum of precisions) / hits, given at least one hit; NaN if none is possible."""
    hits = hits_before + hits_in_group
    some = hits > 0
    if not some.any():
        return float("nan")
    ratios = (total_before + sums[some]) / hits[some]
    return float(ratios @ probability[some] / probability[some].sum())
