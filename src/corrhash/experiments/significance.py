"""What "better" means: a difference whose interval over queries leaves zero out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_1samp

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """One row minus another.

    Parameters
    ----------
    mean : over queries and seeds.
    low, high : bounds of 95 % of 2,000 resamples of the queries.
    p_seeds : of a t-test paired over seeds; None with one seed, or where seeds change nothing.
    n_seeds : seeds that both have.
    same_queries : whether every seed asks the same queries.
    """

    mean: float
    low: float
    high: float
    p_seeds: float | None
    n_seeds: int
    same_queries: bool

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``undecided``.

        Zero must lie outside the interval. Where splits vary with the seed, the test over seeds
        must reject chance as well: queries of one split say nothing of another.
        """
        chance = self.p_seeds is not None and self.p_seeds >= 1 - CONFIDENCE
        if (chance and not self.same_queries) or self.low <= 0 <= self.high:
            return "undecided"
        return "better" if self.low > 0 else "worse"


def difference(
    one: Mapping[int, np.ndarray], other: Mapping[int, np.ndarray], *, same_queries: bool
) -> Difference | None:
    """Compare average precisions, given as seed -> (n_queries,); None without a common seed.

    Queries are resampled, the same for both sides. Where every seed asks the same queries, their
    APs are averaged over seeds first; else the queries of each seed are resampled by themselves.
    """
    seeds = sorted(set(one) & set(other))
    if not seeds:
        return None
    gaps = [one[seed] - other[seed] for seed in seeds]
    by_seed = np.array([np.nanmean(gap) for gap in gaps])
    groups = [np.mean(gaps, axis=0)] if same_queries else gaps
    means = np.mean([resampled_means(group[~np.isnan(group)]) for group in groups], axis=0)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Difference(
        float(by_seed.mean()),
        float(low),
        float(high),
        _paired_test(by_seed),
        len(seeds),
        same_queries,
    )


def resampled_means(values: np.ndarray) -> np.ndarray:
    """(2000,) means of as many values drawn with replacement, always by the same draws."""
    rng = np.random.default_rng(len(values))
    drawn = rng.integers(0, len(values), (RESAMPLES, len(values)))
    means: np.ndarray = values[drawn].mean(axis=1)
    return means


def _paired_test(by_seed: np.ndarray) -> float | None:
    if len(by_seed) < 2 or np.ptp(by_seed) < 1e-9:
        return None
    return float(ttest_1samp(by_seed, 0.0).pvalue)
