"""Significance of a difference in mAP: a bootstrap over queries and a t-test over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_1samp

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """The difference in mAP between two rows.

    Parameters
    ----------
    mean : over queries and seeds.
    low, high : 95 % bootstrap confidence interval over queries.
    p_seeds : p-value of a t-test paired over seeds; None with one seed or identical seeds.
    n_seeds : seeds that both rows have.
    same_queries : whether all seeds share the queries.
    """

    mean: float
    low: float
    high: float
    p_seeds: float | None
    n_seeds: int
    same_queries: bool

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``inconclusive``.

        The interval must exclude zero. If the split varies with the seed, a t-test over several
        seeds must be significant as well, because the queries of one split say nothing about
        another.
        """
        p = 1.0 if self.n_seeds == 1 else self.p_seeds or 0.0  # None: all seeds agree exactly
        significant = p < 1 - CONFIDENCE
        if not (significant or self.same_queries) or self.low <= 0 <= self.high:
            return "inconclusive"
        return "better" if self.low > 0 else "worse"


def difference(
    one: Mapping[int, np.ndarray], other: Mapping[int, np.ndarray], *, same_queries: bool
) -> Difference | None:
    """Compare average precisions, given as seed -> (n_queries,); None without a common seed.

    Both rows use the same resamples of the queries. If all seeds share the queries, their APs are
    averaged over seeds first; otherwise the queries of each seed are resampled separately.
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
    """Return (2000,) means of bootstrap resamples, with draws that depend only on the size."""
    rng = np.random.default_rng(len(values))
    drawn = rng.integers(0, len(values), (RESAMPLES, len(values)))
    means: np.ndarray = values[drawn].mean(axis=1)
    return means


def _paired_test(by_seed: np.ndarray) -> float | None:
    if len(by_seed) < 2 or np.ptp(by_seed) < 1e-9:
        return None
    return float(ttest_1samp(by_seed, 0.0).pvalue)
