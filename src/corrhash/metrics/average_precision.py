"""Average precision of a ranking with ties, in every reading that the field publishes.

The precision at a relevant item is the share of relevant items up to and including its rank; the
average over a query's relevant items is its average precision (AP), the mean over queries is MAP.
Where items tie, the value is the expectation over all their orders (McSherry & Najork, 2008), in
closed form.

Letters, as in the closed form: n items in a group of which r are relevant, N0 items and R0
relevant items before it, H the harmonic numbers.
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

READINGS = {
    "all": "over the whole ranking; a query without a relevant item is left out",
    "dcmh": "over the whole ranking; a query without a relevant item counts 0",
    "hashnet": "top R, divided by the relevant items within it; empty tops are left out",
    "first": "the first min(k, relevant) relevant items, however deep they lie",
    "possible": "top k, divided by min(k, relevant)",
    "trec": "top k, divided by all relevant items",
}
"""Names of the readings; all but the first two are written with a cut, as in ``hashnet@5000``."""


@dataclass(frozen=True)
class Reading:
    """One reading of "MAP": what is summed, and by what it is divided.

    >>> Reading.parse("hashnet@5000")
    Reading(name='hashnet', depth=5000)
    >>> str(Reading.parse("all"))
    'all'
    """

    name: str
    depth: int | None = None

    @classmethod
    def parse(cls, text: str) -> Reading:
        """Read ``"all"``, ``"dcmh"``, ``"hashnet@R"``, ``"first@k"``, ``"possible@k"``..."""
        match = re.fullmatch(r"(all|dcmh)|(hashnet|first|possible|trec)@([1-9][0-9]*)", str(text))
        if match is None:
            raise InputError(
                f"There is no reading {text!r}. Choose all, dcmh, hashnet@R, first@k, possible@k "
                "or trec@k, with a whole number above 0 behind the @."
            )
        whole, cut, depth = match.groups()
        return cls(whole) if whole else cls(cut, int(depth))

    def __str__(self) -> str:
        return self.name if self.depth is None else f"{self.name}@{self.depth}"


def average_precision(groups: TiedGroups, reading: Reading) -> NDArray[np.float64]:
    """(n_queries,) AP of each query; NaN for a query that the reading leaves out.

    For ``hashnet@R`` with ties across the cut it is the expectation over those orders in which the
    top R holds a relevant item.
    """
    depth = reading.depth or 0
    if reading.name == "hashnet":
        return _divided_by_relevant_within(groups, depth)
    if reading.name in ("all", "dcmh"):
        length = groups.items
    elif reading.name == "first":
        length = _length_of_first(groups, depth)
    else:
        length = _length_within(groups, depth)
    total = _expected_sum(groups, length).sum(axis=1)
    return divided(total, reading, groups.n_relevant)


def divided(
    total: NDArray[np.float64],
    reading: Reading,
    n_relevant: Counts,
    within: Counts | None = None,
) -> NDArray[np.float64]:
    """(n_queries,) sums of precisions divided as a reading wants; NaN where it leaves out.

    ``within``, the relevant items among the top R, is needed by ``hashnet@R`` alone.
    """
    divisor = n_relevant
    if reading.name == "hashnet":
        assert within is not None
        divisor = within
    elif reading.name in ("first", "possible"):
        divisor = np.minimum(n_relevant, reading.depth or 0)
    empty = 0.0 if reading.name == "dcmh" else np.nan
    return np.where(divisor > 0, total / np.maximum(divisor, 1), empty)


def _expected_sum(groups: TiedGroups, length: Counts) -> NDArray[np.float64]:
    """(n_queries, n_groups) expected precisions, summed over the first ``length`` places.

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
    """H[start + length] - H[start]; the digamma function only where several items tie."""
    difference = np.where(length > 0, 1.0 / (start + 1), 0.0)
    several = length > 1
    first = start[several]
    difference[several] = digamma(first + length[several] + 1.0) - digamma(first + 1.0)
    return difference


def _length_within(groups: TiedGroups, depth: int) -> Counts:
    """(n_queries, n_groups) how many places of each group lie within the top ``depth``."""
    return np.clip(depth - groups.items_before, 0, groups.items)


def _length_of_first(groups: TiedGroups, depth: int) -> Counts:
    """(n_queries, n_groups) how many places of each group hold the first k relevant items.

    Groups must be pure (all relevant, or none): ties across the k-th item have no closed form.
    """
    wanted = np.clip(depth - groups.relevant_before, 0, groups.relevant)
    return np.where(wanted < groups.relevant, wanted, np.where(wanted > 0, groups.items, 0))


def _divided_by_relevant_within(groups: TiedGroups, depth: int) -> NDArray[np.float64]:
    """AP of ``hashnet@R``: condition on the relevant items of the group at the cut, then divide."""
    length = _length_within(groups, depth)
    whole = length == groups.items
    total = np.where(whole, _expected_sum(groups, length), 0.0).sum(axis=1)
    hits = np.where(whole, groups.relevant, 0).sum(axis=1)
    values = divided(total, Reading("hashnet", depth), groups.n_relevant, hits)
    for query, group in np.argwhere((length > 0) & ~whole):
        inside = _at_the_cut(groups, query, group, length[query, group])
        values[query] = _mean_over_hits(*inside, total[query], hits[query])
    return values


def _at_the_cut(
    groups: TiedGroups, query: int, group: int, length: int
) -> tuple[Counts, NDArray[np.float64], NDArray[np.float64]]:
    """How many relevant items may fall inside the cut, how likely, and their precision sums."""
    n, r = groups.items[query, group], groups.relevant[query, group]
    inside = np.arange(max(0, length - (n - r)), min(r, length) + 1)
    chance = hypergeom.pmf(inside, n, r, length)
    n0, r0 = groups.items_before[query, group], groups.relevant_before[query, group]
    places = np.full_like(inside, length)
    # Given how many are inside, the part of the group within the cut is a tied group by itself.
    sums = _closed_form(places, inside, np.full_like(inside, n0), np.full_like(inside, r0), places)
    return inside, chance, sums


def _mean_over_hits(
    inside: Counts,
    chance: NDArray[np.float64],
    sums: NDArray[np.float64],
    total_before: float,
    hits_before: int,
) -> float:
    """The expected ratio (sum of precisions) / (hits), given that there is a hit at all."""
    hits = hits_before + inside
    some = hits > 0
    if not some.any():
        return float("nan")
    ratios = (total_before + sums[some]) / hits[some]
    return float(ratios @ chance[some] / chance[some].sum())
