"""From a run's rows to the numbers of a comparison: paired by problem, failures included.

Every function takes the frame that `optik.run` or `read_run` returns, or a selection of its rows.

    by_problem(frame)                   one row a (problem, solver): repeats folded
    check_comparable(frame)             refuses solvers that were not asked the same thing
    matrix(frame, column)               problems x solvers
    pairs(frame, baseline=)             gained, lost, exact McNemar with Holm over all the pairs
    cost_ratio(frame, a, b, column)     paired BCa ratio of time, iterations or evaluations
    tolerance_curves, budget_curves, performance_profiles, data_profiles
                                        a `Curves`: x, and one y a solver

A problem that was solved several times (repeats) counts once: solved if most of its repeats are,
with the median of their times and counts.  Tests would otherwise take repeats for evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from optik.benchmark.statistics import (
    Ratio,
    data_profile,
    holm_pairs,
    mcnemar,
    paired_ratio,
    performance_profile,
    success_curve,
)
from optik.errors import BenchmarkError, unknown_name
from optik.pose import Array

PROBLEM = ["problem_set", "problem", "start"]
CONDITIONS = ["position_tolerance", "rotation_tolerance", "budget", "posture"]
COSTS = ("iterations", "evaluations", "solve_time")
# What is added to a cost before its logarithm: counts may be 0, a time never is.
SHIFTS: Mapping[str, float] = {"iterations": 1.0, "evaluations": 1.0, "solve_time": 0.0}
_MEDIANS = (
    "position_error", "rotation_error", "iterations", "evaluations", "restarts", "solve_time",
    "judge_time", "posture_distance", "cost",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two solvers on the same problems.

    Attributes:
        a: the baseline.
        b: the challenger.
        n: problems.
        both: solved by both.
        gained: solved by b only.
        lost: solved by a only.
        p: exact McNemar.
        p_holm: adjusted for all the pairs that were asked for together.
    """

    a: str
    b: str
    n: int
    both: int
    gained: int
    lost: int
    p: float
    p_holm: float

    @property
    def neither(self) -> int:
        """Problems that neither solved."""
        return self.n - self.both - self.gained - self.lost


@dataclass(frozen=True, eq=False)
class Curves:
    """One curve a solver over a common x.

    Attributes:
        x: shape (k,).
        y: solver to shares in [0, 1], shape (k,).
        n: problems behind each share.
    """

    x: Array
    y: Mapping[str, Array]
    n: int


def solvers_of(frame: pd.DataFrame) -> list[str]:
    """The solvers, in the order in which they first appear."""
    return [str(s) for s in frame["solver"].unique()]


def by_problem(frame: pd.DataFrame) -> pd.DataFrame:
    """Folds the repeats of a problem into one row; a frame without repeats is returned as it is."""
    if "repeat" not in frame or not (frame["repeat"] != 0).any():
        return frame
    keys = [*PROBLEM, "solver"]
    groups = frame.groupby(keys, sort=False, observed=True)
    folded = groups.first()
    folded["solved"] = groups["solved"].mean() >= 0.5
    for column in _MEDIANS:
        if column in frame:
            folded[column] = groups[column].median()
    for column in ("false_claim", "limit_violation"):
        if column in frame:
            folded[column] = groups[column].max()
    return folded.reset_index()[list(frame.columns)]


def check_comparable(frame: pd.DataFrame) -> None:
    """Refuses a comparison that is not like with like.

    Raises:
        BenchmarkError: if two solvers did not see the same problems, or saw them with another
            start, tolerance, budget or posture; says which and what to do.
    """
    conditions = [c for c in CONDITIONS if c in frame]
    if _alike(frame, conditions):
        return
    for name, part in frame.groupby("problem_set", sort=False, observed=True):
        for condition in ["start", *conditions]:
            values = part.groupby("solver", sort=False, observed=True)[condition].agg(
                lambda column: " and ".join(sorted({str(v) for v in column.unique()}))
            )
            if values.nunique() > 1:
                said = ", ".join(f"{s}: {v}" for s, v in values.items())
                raise BenchmarkError(
                    f"these rows are not like with like: on {name} the {condition} differs "
                    f"({said}). Compare runs made under the same conditions."
                )
        asked = {
            str(s): frozenset(rows["problem"])
            for s, rows in part.groupby("solver", sort=False, observed=True)
        }
        if len(set(asked.values())) > 1:
            said = ", ".join(f"{s}: {len(v)}" for s, v in asked.items())
            raise BenchmarkError(
                f"these rows are not like with like: on {name} the solvers do not have the same "
                f"problems ({said}). Finish the run with resume, or select the common problems."
            )


def _alike(frame: pd.DataFrame, conditions: Sequence[str]) -> bool:
    """Whether every set was asked under one condition and wholly of every solver: the fast way."""
    sets = frame.groupby("problem_set", sort=False, observed=True)
    if (sets[["start", *conditions]].nunique(dropna=False).to_numpy() > 1).any():
        return False
    wanted = sets["problem"].nunique()
    pairs_ = frame.groupby(["problem_set", "solver"], sort=False, observed=True)
    asked = pairs_["problem"].nunique()
    return bool((asked == wanted.reindex(asked.index.get_level_values(0)).to_numpy()).all())


def matrix(frame: pd.DataFrame, column: str, *, unsolved: float | None = None) -> pd.DataFrame:
    """Returns a column as problems x solvers.

    Args:
        frame: rows of a run.
        column: what the cells hold.
        unsolved: what stands where the problem was not solved; the row's own value if None.

    Returns:
        A frame indexed by problem set, problem and start, one column a solver.

    Raises:
        BenchmarkError: if the solvers did not see the same problems under the same conditions.
    """
    check_comparable(frame)
    rows = by_problem(frame)
    if unsolved is not None:
        values = rows[column].astype(float).where(rows["solved"].astype(bool), unsolved)
        rows = rows.assign(**{column: values})
    if rows.duplicated([*PROBLEM, "solver"]).any():
        raise BenchmarkError("some solver has two rows for one problem: these are two runs' rows")
    table = rows.set_index([*PROBLEM, "solver"])[column].unstack("solver")
    return table[solvers_of(frame)]


def pairs(
    frame: pd.DataFrame, *, baseline: str | None = None, against: Sequence[str] | None = None
) -> list[Pair]:
    """Compares solvers on the same problems: exact McNemar, Holm over all the pairs at once.

    Args:
        frame: rows of a run.
        baseline: compared with every other solver; every solver with every later one if None.
        against: the challengers; all others if None.
    """
    solved = matrix(frame, "solved").astype(bool)
    names = list(solved.columns)
    for name in (baseline, *(against or ())):
        if name is not None and name not in names:
            raise unknown_name("solver in these rows", name, names)
    if baseline is None:
        asked = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    else:
        asked = [(baseline, b) for b in (against or names) if b != baseline]
    counts = []
    for a, b in asked:
        x, y = solved[a].to_numpy(), solved[b].to_numpy()
        counts.append((int((y & ~x).sum()), int((x & ~y).sum()), int((x & y).sum())))
    adjusted = holm_pairs([(gained, lost) for gained, lost, _ in counts])
    return [
        Pair(a, b, len(solved), both, gained, lost, mcnemar(gained, lost), float(p))
        for (a, b), (gained, lost, both), p in zip(asked, counts, adjusted, strict=True)
    ]


def cost_ratio(
    frame: pd.DataFrame,
    a: str,
    b: str,
    column: str = "solve_time",
    *,
    confidence: float = 0.95,
    resamples: int = 9999,
    solved_by_both: bool = False,
) -> Ratio:
    """Returns how many times dearer solver `a` is than `b` on the same problems.

    Args:
        frame: rows of a run.
        a: numerator.
        b: denominator.
        column: "solve_time", "iterations" or "evaluations" (counts are shifted by 1).
        confidence: level of the interval.
        resamples: bootstrap samples.
        solved_by_both: leave out what one of the two failed on; a failure otherwise costs what
            it used.
    """
    if column not in COSTS:
        raise unknown_name("cost", column, COSTS)
    chosen = frame[frame["solver"].isin([a, b])]
    costs = matrix(chosen, column).astype(float)
    for name in (a, b):
        if name not in costs:
            raise unknown_name("solver in these rows", name, solvers_of(frame))
    if solved_by_both:
        costs = costs[matrix(chosen, "solved").astype(bool).all(axis=1)]
    return paired_ratio(
        costs[a].to_numpy(), costs[b].to_numpy(),
        shift=SHIFTS[column], confidence=confidence, resamples=resamples,
    )  # fmt: skip


def error_in_tolerances(frame: pd.DataFrame) -> pd.Series:
    """Returns each row's error in units of its tolerance, infinite outside the limits.

    max(position_error / tol_p, rotation_error / tol_r)
    """
    errors = pd.DataFrame(
        {
            "position": frame["position_error"] / frame["position_tolerance"],
            "rotation": frame["rotation_error"] / frame["rotation_tolerance"],
        }
    )
    return errors.max(axis=1).where(~(frame["limit_violation"] > 0), np.inf)


def tolerance_curves(frame: pd.DataFrame, *, at: ArrayLike | None = None) -> Curves:
    """Success against tolerance: the share of problems within x times the tolerance."""
    x = np.geomspace(1e-3, 1e4, 141) if at is None else np.asarray(at, dtype=np.float64)
    table = matrix(frame.assign(error=error_in_tolerances(frame)), "error")
    return _curves(table, x, lambda costs: success_curve(costs, at=x))


def budget_curves(
    frame: pd.DataFrame, column: str = "evaluations", *, at: ArrayLike | None = None
) -> Curves:
    """Success against budget: the share of problems solved within x of `column`.

    Every problem is solved once, with the run's whole budget; a method whose path depends on its
    budget (a schedule) would do otherwise under a smaller one.
    """
    table = matrix(frame, column, unsolved=np.inf)
    x = _grid(table.to_numpy(float), at)
    return _curves(table, x, lambda costs: success_curve(costs, at=x))


def performance_profiles(
    frame: pd.DataFrame, column: str = "solve_time", *, at: ArrayLike | None = None
) -> Curves:
    """Dolan and More: the share of problems solved within a factor x of the best solver.

    Counts are taken plus one, so that "solved at the start" is a cost.
    """
    costs = matrix(frame, column, unsolved=np.inf).astype(float)
    costs += SHIFTS.get(column, 0.0)
    x = np.geomspace(1, 100, 101) if at is None else np.asarray(at, dtype=np.float64)
    y = performance_profile(costs.to_numpy(), at=x)
    return Curves(x, {str(s): y[:, i] for i, s in enumerate(costs.columns)}, len(costs))


def data_profiles(frame: pd.DataFrame, *, at: ArrayLike | None = None) -> Curves:
    """More and Wild: the share of problems solved within x groups of n + 1 evaluations."""
    table = matrix(frame, "evaluations", unsolved=np.inf)
    joints = joints_of(frame)
    index = table.index.get_level_values("problem_set")
    dimension = np.array([joints[str(name)] for name in index])
    groups = table.to_numpy(float) / (dimension + 1)[:, None]
    x = _grid(groups, at)
    y = data_profile(table.to_numpy(float), dimension, at=x)
    return Curves(x, {str(s): y[:, i] for i, s in enumerate(table.columns)}, len(table))


def joints_of(frame: pd.DataFrame) -> dict[str, int]:
    """How many joints the robot of each problem set has, read off the configurations."""
    answered = frame[frame["q"].notna() & (frame["q"] != "")]
    first = answered.groupby("problem_set", sort=False, observed=True)["q"].first()
    joints = {str(name): len(str(q).split()) for name, q in first.items()}
    missing = set(frame["problem_set"].unique()) - set(joints)
    if missing:
        raise BenchmarkError(f"no solver handed back a configuration on {sorted(missing)}")
    return joints


def _grid(costs: Array, at: ArrayLike | None) -> Array:
    if at is not None:
        return np.asarray(at, dtype=np.float64)
    finite = costs[np.isfinite(costs) & (costs > 0)]
    if not finite.size:
        return np.array([1.0])
    lo, hi = float(finite.min()), float(finite.max())
    return np.geomspace(lo, max(hi, lo * (1 + 1e-9)), 200)


def _curves(table: pd.DataFrame, x: Array, curve: object) -> Curves:
    assert callable(curve)
    return Curves(x, {str(s): curve(table[s].to_numpy(float)) for s in table}, len(table))
