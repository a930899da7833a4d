"""Significance: against closed forms and clear cases."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from corrhash.experiments.report.significance import difference


def aps(shift, seeds=(0, 1, 2), n=400):
    return {s: shift + 0.1 * np.random.default_rng(s).standard_normal(n) for s in seeds}


def test_interval_is_about_two_standard_errors():
    noise = {0: 0.2 * np.random.default_rng(1).standard_normal(500)}
    other = {0: np.zeros(500)}
    gap = difference(noise, other, same_queries=True)
    error = noise[0].std() / np.sqrt(500)
    assert gap.mean == pytest.approx(noise[0].mean())
    assert gap.low == pytest.approx(noise[0].mean() - 1.96 * error, abs=0.25 * error)
    assert gap.high == pytest.approx(noise[0].mean() + 1.96 * error, abs=0.25 * error)
    assert gap.p_seeds is None


def test_pairing_by_query_detects_small_differences():
    one = {seed: values + 0.003 for seed, values in aps(0.5).items()}
    gap = difference(one, aps(0.5), same_queries=False)
    assert gap.verdict == "better"
    assert difference(aps(0.5), one, same_queries=False).verdict == "worse"
    assert gap.low == pytest.approx(0.003)


def test_one_split_is_inconclusive():
    one, other = {0: np.full(300, 0.6)}, {0: np.full(300, 0.5)}
    assert difference(one, other, same_queries=False).verdict == "inconclusive"
    assert difference(one, other, same_queries=True).verdict == "better"


def test_p_over_seeds_is_a_paired_t_test():
    rng = np.random.default_rng(2)
    one, other = aps(0.5), {s: 0.1 * rng.standard_normal(400) + 0.45 for s in range(3)}
    gap = difference(one, other, same_queries=False)
    means = [[values.mean() for values in row.values()] for row in (one, other)]
    assert gap.p_seeds == pytest.approx(ttest_rel(*means).pvalue)


def test_disagreeing_seeds_are_inconclusive():
    base = aps(0.5)
    shifts = {0: 0.05, 1: 0.002, 2: 0.001}
    one = {seed: base[seed] + shift for seed, shift in shifts.items()}
    gap = difference(one, base, same_queries=False)
    assert gap.low > 0
    assert gap.p_seeds > 0.05
    assert gap.verdict == "inconclusive"
    assert difference(one, base, same_queries=True).verdict == "better"


def test_excluded_queries_are_ignored():
    one = {0: np.array([0.5, np.nan, 0.7])}
    gap = difference(one, {0: np.array([0.4, np.nan, 0.6])}, same_queries=True)
    assert (gap.mean, gap.low) == pytest.approx((0.1, 0.1))


def test_no_difference_without_a_common_seed():
    assert difference({0: np.ones(3)}, {1: np.ones(3)}, same_queries=True) is None
