"""Every statistic against statsmodels, a published example, or its definition written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from optik.benchmark.statistics import (
    data_profile,
    holm,
    holm_pairs,
    mcnemar,
    paired_ratio,
    performance_profile,
    shifted_geometric_mean,
    success_curve,
    wilson,
)
from optik.errors import BenchmarkError


# Newcombe 1998, table I, method 3 (Wilson's score interval without continuity correction).
@pytest.mark.parametrize(
    ("k", "n", "lo", "hi"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_newcombes_table(k, n, lo, hi):
    assert wilson(k, n) == pytest.approx((lo, hi), abs=5e-5)


@settings(deadline=None)
@given(st.integers(1, 500), st.data())
def test_wilson_equals_statsmodels(n, data):
    k = data.draw(st.integers(0, n))
    assert wilson(k, n) == pytest.approx(proportion_confint(k, n, method="wilson"), abs=1e-12)
    lo, hi = wilson(k, n)
    assert 0 <= lo <= k / n + 1e-12 and k / n - 1e-12 <= hi <= 1


def test_wilson_of_nothing_is_everything():
    assert wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(BenchmarkError, match="0 <= k <= n"):
        wilson(3, 2)
    with pytest.raises(BenchmarkError, match="between 0 and 1"):
        wilson(1, 2, confidence=95)


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_equals_statsmodels(gained, lost):
    table = [[5, gained], [lost, 7]]
    expected = statsmodels_mcnemar(table, exact=True).pvalue
    assert mcnemar(gained, lost) == pytest.approx(min(1.0, expected), abs=1e-12)
    assert mcnemar(gained, lost) == mcnemar(lost, gained)


def test_mcnemar_gives_a_sign_test_by_hand():
    # 9 gained, 1 lost: 2 (C(10,0) + C(10,1)) / 2^10.
    assert mcnemar(9, 1) == pytest.approx(22 / 1024)
    assert mcnemar(0, 0) == 1.0
    with pytest.raises(BenchmarkError, match="negative"):
        mcnemar(-1, 2)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_equals_statsmodels(p):
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]).shape == (0,)
    assert holm_pairs([(9, 1), (5, 5)]) == pytest.approx([44 / 1024, 1.0])
    with pytest.raises(BenchmarkError, match=r"\[0, 1\]"):
        holm([0.2, 1.2])


def bca_by_hand(x, resamples, rng):
    """Efron 1987, equations written out; the statistic is the mean."""
    boot = x[rng.integers(0, len(x), (resamples, len(x)))].mean(axis=1)
    z0 = norm.ppf((boot < x.mean()).mean())
    left_out = (x.sum() - x) / (len(x) - 1)
    d = left_out.mean() - left_out
    a = (d**3).sum() / (6 * (d**2).sum() ** 1.5)
    z = norm.ppf([0.025, 0.975])
    return np.quantile(boot, norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z))))


def test_the_interval_of_a_ratio_is_efrons():
    rng = np.random.default_rng(3)
    b = rng.gamma(2.0, 1.0, 80)
    a = b * rng.lognormal(0.3, 0.6, 80)
    found = paired_ratio(a, b, resamples=20_000)
    expected = np.exp(bca_by_hand(np.log(a / b), 20_000, rng))
    assert found.ratio == pytest.approx(np.exp(np.log(a / b).mean()))
    assert (found.lo, found.hi) == pytest.approx(tuple(expected), rel=0.01)
    assert found.n == 80


def test_intervals_of_a_ratio_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = 0
    for i in range(300):
        b = rng.lognormal(0.0, 1.0, 60)
        a = 2.0 * b * rng.lognormal(0.0, 0.5, 60)
        r = paired_ratio(a, b, resamples=999, seed=i)
        covered += r.lo <= 2.0 <= r.hi
    # 95 % nominal; three standard errors of 300 draws are 3.8 points, BCa undercovers by 1 to 2.
    assert 0.89 <= covered / 300 <= 0.99


def test_ratios_of_many_pairs_and_of_few():
    rng = np.random.default_rng(1)
    b = rng.lognormal(0, 1, 20_000)
    r = paired_ratio(3 * b * rng.lognormal(0, 0.2, 20_000), b)
    assert r.lo < 3.0 < r.hi and r.hi - r.lo < 0.03 and r.differs
    assert paired_ratio([2, 4], [1, 2]) == (
        pytest.approx(2.0),
        pytest.approx(2.0),
        pytest.approx(2.0),
        2,
    )
    assert not paired_ratio([2.0], [1.0]).differs
    assert paired_ratio([0, 3], [0, 3], shift=1).ratio == 1.0


def test_a_ratio_is_seeded_and_paired():
    rng = np.random.default_rng(5)
    b = rng.lognormal(0, 2, 50)
    a = 1.1 * b * rng.lognormal(0, 0.01, 50)
    assert paired_ratio(a, b) == paired_ratio(a, b)
    # Pairing takes the problems' own spread out: unpaired, a tenth would never show.
    assert paired_ratio(a, b).differs


@pytest.mark.parametrize("bad", [([1, 2], [1]), ([], []), ([0, 1], [1, 1]), ([np.inf], [1])])
def test_unusable_costs_are_refused(bad):
    with pytest.raises(BenchmarkError, match=r"paired ratio|ratio of costs"):
        paired_ratio(*bad)


def test_shifted_geometric_mean_by_definition():
    assert shifted_geometric_mean([1, 100]) == pytest.approx(10.0)
    assert shifted_geometric_mean([0, 3], shift=1) == pytest.approx(1.0)
    assert shifted_geometric_mean([1, np.inf], shift=10) == np.inf
    for bad in ([], [-1.0], [0.0], [np.nan]):
        with pytest.raises(BenchmarkError, match="shifted geometric mean"):
            shifted_geometric_mean(bad)


def test_success_curve_counts_failures_in_the_denominator():
    y = success_curve([1.0, 2.0, np.inf, np.nan], at=[0.5, 1.0, 1.5, 2.0, np.inf])
    assert y == pytest.approx([0, 0.25, 0.25, 0.5, 0.5])


def test_performance_profile_of_dolan_and_more_by_hand():
    inf = np.inf
    costs = [[1, 2], [3, 1], [inf, 4], [inf, inf]]
    rho = performance_profile(costs, at=[1, 2, 3, 100])
    assert rho[:, 0] == pytest.approx([0.25, 0.25, 0.5, 0.5])
    assert rho[:, 1] == pytest.approx([0.5, 0.75, 0.75, 0.75])
    with pytest.raises(BenchmarkError, match="at least 1"):
        performance_profile(costs, at=[0.5])
    with pytest.raises(BenchmarkError, match="positive"):
        performance_profile([[0.0, 1.0]], at=[1])


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 10_000))
def test_performance_profiles_start_at_wins_and_end_at_the_success_rate(problems, solvers, seed):
    rng = np.random.default_rng(seed)
    costs = rng.lognormal(0, 1, (problems, solvers))
    costs[rng.random(costs.shape) < 0.3] = np.inf
    rho = performance_profile(costs, at=[1.0, 1e12])
    wins = (np.isfinite(costs) & (costs == costs.min(axis=1, keepdims=True))).mean(axis=0)
    assert rho[0] == pytest.approx(wins)
    assert rho[1] == pytest.approx(np.isfinite(costs).mean(axis=0))


def test_data_profile_of_more_and_wild_by_hand():
    # 7 joints: a group is 8 evaluations; 5 joints: 6.
    evaluations = [[8, 16], [12, np.inf]]
    d = data_profile(evaluations, [7, 5], at=[0.9, 1, 2])
    assert d == pytest.approx(np.array([[0, 0], [0.5, 0], [1.0, 0.5]]))
    assert data_profile(evaluations, 7, at=[1.5])[0] == pytest.approx([1.0, 0.0])
