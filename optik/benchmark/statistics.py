r"""The statistics of a comparison, on plain arrays; thin over scipy.stats.

Shares (a success rate from k of n):

    wilson(k, n)                  Wilson's score interval for k/n
    mcnemar(gained, lost)         exact McNemar test: do two solvers differ on the same problems?
    holm(p_values)                p-values adjusted for having asked that of many pairs

Costs (times, iterations, evaluations), one value a problem, failures included:

    paired_ratio(a, b)            geometric-mean ratio a/b over the same problems, with a paired
                                  BCa bootstrap interval
    shifted_geometric_mean(v)     exp(mean(log(v + s))) - s

Curves; a cost is infinite where the problem was not solved:

    success_curve(costs, at=)           share of all problems with cost <= x: success against
                                        tolerance when the costs are errors in units of the
                                        tolerance, success against budget when they are
                                        iterations, evaluations or seconds until solved
    performance_profile(costs, at=)     share of problems solved within tau times the best solver
    data_profile(evaluations, n, at=)   share of problems solved within alpha (n + 1) evaluations

The functions that take a run's rows and call these are in `optik.benchmark.summary`.

References: Wilson 1927; McNemar 1947; Holm 1979; Efron 1987 (BCa); Dolan and More 2002
(performance profiles); More and Wild 2009 (data profiles); Newcombe 1998 (intervals compared).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from optik.errors import BenchmarkError
from optik.pose import Array

# The bias and acceleration corrections of BCa vanish as 1/sqrt(n), its jackknife costs n^2.
_BCA_UP_TO = 3000
_DRAWS = 20_000_000


class Interval(NamedTuple):
    """A confidence interval."""

    lo: float
    hi: float


class Ratio(NamedTuple):
    """A ratio of costs with its confidence interval over `n` pairs."""

    ratio: float
    lo: float
    hi: float
    n: int

    @property
    def differs(self) -> bool:
        """Whether the interval leaves out 1."""
        return self.lo > 1.0 or self.hi < 1.0


def wilson(k: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Returns Wilson's score interval of a share k/n.

        (p + z^2/2n +- z sqrt(p (1-p)/n + z^2/4n^2)) / (1 + z^2/n),  p = k/n

    Args:
        k: how many succeeded.
        n: out of how many; the interval of 0 out of 0 is [0, 1].
        confidence: level of the interval.

    Raises:
        BenchmarkError: unless 0 <= k <= n and 0 < confidence < 1.
    """
    k, n = int(k), int(n)
    if not 0 <= k <= n:
        raise BenchmarkError(f"wilson(k, n) needs 0 <= k <= n, got k={k}, n={n}")
    _check_confidence(confidence)
    if n == 0:
        return Interval(0.0, 1.0)
    from scipy.stats import binomtest

    interval = binomtest(k, n).proportion_ci(confidence, method="wilson")
    return Interval(float(interval.low), float(interval.high))


def mcnemar(gained: int, lost: int) -> float:
    """Returns the two-sided exact McNemar p-value of a paired comparison.

        p = P(|B - m/2| >= |gained - m/2|),  B ~ Binomial(m, 1/2),  m = gained + lost

    Args:
        gained: problems that the second solver solved and the first did not.
        lost: problems that the first solved and the second did not.

    Raises:
        BenchmarkError: for a negative count.
    """
    gained, lost = int(gained), int(lost)
    if gained < 0 or lost < 0:
        raise BenchmarkError(f"discordant pairs cannot be negative: {gained}, {lost}")
    if gained == lost:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost, 0.5).pvalue)


def holm(p_values: ArrayLike) -> Array:
    """Returns Holm's step-down adjusted p-values, in the order given.

        p~_(i) = max_{j <= i} min(1, (m - j + 1) p_(j)),  p_(1) <= ... <= p_(m)

    Args:
        p_values: shape (m,), each in [0, 1].

    Raises:
        BenchmarkError: for a value outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not ((p >= 0) & (p <= 1)).all():
        raise BenchmarkError("p-values must lie in [0, 1]")
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, (len(p) - np.arange(len(p))) * p[order])
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


def paired_ratio(
    a: ArrayLike,
    b: ArrayLike,
    *,
    shift: float = 0.0,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Ratio:
    """Returns how many times dearer `a` is than `b` on the same problems.

        ratio = exp(mean_i log((a_i + s) / (b_i + s)))

    The interval is the bias-corrected and accelerated bootstrap over problems (BCa); above 3000
    pairs, where the corrections no longer show, the percentile interval.

    Args:
        a: cost of each problem, shape (n,), failures included with what they cost.
        b: the same problems' cost for the other solver, shape (n,).
        shift: s, in the unit of the costs; 1 for counts that may be 0.
        confidence: level of the interval.
        resamples: bootstrap samples (fewer, but at least 999, for very many pairs).
        seed: of the bootstrap.

    Raises:
        BenchmarkError: for unequal lengths, no pair, or a cost that is not positive and finite
            after the shift.
    """
    _check_confidence(confidence)
    x = _positive(a, shift)
    y = _positive(b, shift)
    if x.shape != y.shape or x.size == 0:
        raise BenchmarkError(f"a paired ratio needs equally many costs, got {x.size} and {y.size}")
    logs = np.log(x / y)
    n, centre = logs.size, float(np.exp(logs.mean()))
    if n == 1 or np.ptp(logs) == 0.0:
        # One pair says nothing about spread; equal ratios have none.
        return Ratio(centre, 0.0, float("inf"), n) if n == 1 else Ratio(centre, centre, centre, n)
    from scipy.stats import bootstrap

    result = bootstrap(
        (logs,),
        np.mean,
        n_resamples=int(min(resamples, max(999, _DRAWS // n))),
        confidence_level=confidence,
        method="BCa" if n <= _BCA_UP_TO else "percentile",
        batch=max(1, 2_000_000 // n),
        rng=np.random.default_rng(seed),
    )
    lo, hi = np.exp(result.confidence_interval)
    return Ratio(centre, float(lo), float(hi), n)


def shifted_geometric_mean(values: ArrayLike, *, shift: float = 0.0) -> float:
    """Returns the shifted geometric mean, which a few huge or tiny costs do not dominate.

        exp(mean_i log(v_i + s)) - s

    Args:
        values: costs, shape (n,), not negative; an infinite one makes the mean infinite.
        shift: s, in the unit of the values; about the smallest cost that matters.

    Raises:
        BenchmarkError: for no value, a negative one, or a zero without a shift.
    """
    v = np.asarray(values, dtype=np.float64).reshape(-1)
    if v.size == 0 or np.isnan(v).any() or (v < 0).any() or (v + shift <= 0).any():
        raise BenchmarkError(
            "a shifted geometric mean needs at least one value, none negative, "
            "and a positive shift where a value is 0"
        )
    return float(np.exp(np.log(v + shift).mean()) - shift)


def success_curve(costs: ArrayLike, *, at: ArrayLike) -> Array:
    """Returns the share of problems whose cost is at most x, for every x in `at`.

        y(x) = #{i : c_i <= x} / n

    Args:
        costs: shape (n,); infinite or NaN where the problem counts as failed at every x.
        at: where the curve is wanted, shape (k,).

    Returns:
        Shares in [0, 1], shape (k,), non-decreasing for increasing `at`.
    """
    c = np.asarray(costs, dtype=np.float64).reshape(-1)
    x = np.asarray(at, dtype=np.float64).reshape(-1)
    if c.size == 0:
        raise BenchmarkError("a success curve needs at least one problem")
    finite = np.sort(c[np.isfinite(c)])
    return np.searchsorted(finite, x, side="right") / c.size


def performance_profile(costs: ArrayLike, *, at: ArrayLike) -> Array:
    """Returns Dolan and More's performance profile of every solver.

        rho_s(tau) = #{p : c_ps <= tau min_s' c_ps'} / #problems

    A problem that no solver solves stays in the denominator: it counts for nobody.

    Args:
        costs: shape (problems, solvers), positive; infinite where not solved.
        at: the factors tau >= 1, shape (k,).

    Returns:
        Shares in [0, 1], shape (k, solvers).

    Raises:
        BenchmarkError: for a cost that is not positive, or a factor below 1.
    """
    c = _matrix(costs)
    tau = np.asarray(at, dtype=np.float64).reshape(-1)
    if np.isnan(c).any() or (c <= 0).any():
        raise BenchmarkError("a performance profile needs positive costs, infinite where unsolved")
    if (tau < 1).any():
        raise BenchmarkError("a performance profile is defined for factors of at least 1")
    best = c.min(axis=1)
    solved = np.isfinite(best)
    ratios = np.full_like(c, np.inf)
    ratios[solved] = c[solved] / best[solved, None]
    return np.column_stack([success_curve(ratios[:, s], at=tau) for s in range(c.shape[1])])


def data_profile(evaluations: ArrayLike, dimension: ArrayLike, *, at: ArrayLike) -> Array:
    """Returns More and Wild's data profile of every solver.

        d_s(alpha) = #{p : t_ps / (n_p + 1) <= alpha} / #problems

    Args:
        evaluations: forward kinematics calls until solved, shape (problems, solvers); infinite
            where not solved.
        dimension: n_p, the joints of each problem, shape (problems,) or one number.
        at: budgets alpha in groups of n_p + 1 evaluations, shape (k,).

    Returns:
        Shares in [0, 1], shape (k, solvers).
    """
    t = _matrix(evaluations)
    n = np.broadcast_to(np.asarray(dimension, dtype=np.float64), (t.shape[0],))
    groups = t / (n + 1.0)[:, None]
    return np.column_stack([success_curve(groups[:, s], at=at) for s in range(t.shape[1])])


def holm_pairs(counts: Sequence[tuple[int, int]]) -> Array:
    """Returns Holm-adjusted exact McNemar p-values of many (gained, lost) pairs."""
    return holm([mcnemar(gained, lost) for gained, lost in counts])


def _positive(values: ArrayLike, shift: float) -> Array:
    v = np.asarray(values, dtype=np.float64).reshape(-1) + shift
    if not (np.isfinite(v) & (v > 0)).all():
        raise BenchmarkError(
            "a ratio of costs needs positive, finite costs; "
            "give shift=1 for counts that may be 0, and charge failures what they used"
        )
    return v


def _matrix(values: ArrayLike) -> Array:
    m = np.asarray(values, dtype=np.float64)
    if m.ndim != 2 or m.shape[0] == 0:
        raise BenchmarkError(f"a profile needs costs of shape (problems, solvers), got {m.shape}")
    return m


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise BenchmarkError(f"a confidence level lies between 0 and 1, got {confidence!r}")
