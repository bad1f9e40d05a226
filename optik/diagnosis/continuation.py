r"""More of the same method: what it does when it is let go on from where it stopped.

A method x -> T(x) that has failed may have been cut off on its way, or may stand still, or may go
round in circles.  Which of these it is cannot be read from the last point; it is found by going on.
The method is run from its last configuration for up to four times its budget (once where a step
takes a millisecond), in growing pieces, and its path is watched for

    |x_k - x_(k-p)|_inf <= 1e-9 rad or m,   p = 1 (a fixed point), 2, ... 8 (a cycle of p points).

A path whose last dozen steps s_k shrink by a factor rho < 1 or better each has at most
s_k rho / (1 - rho) left to go.  Where ten times that could not change the error by as much as is
missing, sum_j |J_j| 10 s_k rho / (1 - rho) < |e| - tolerance, it is taken for a fixed point at
once, without waiting for the last digits.

Only the public protocol of a solver is used, so this serves every method.  For one that remembers
something between its steps (a damping factor), going on means starting afresh there; for one that
goes to further starts by itself, it means those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from optik.diagnosis.own_cost import own_cost
from optik.evaluation import evaluate
from optik.pose import Array, frozen
from optik.problem import Budget, Problem
from optik.result import Claim

if TYPE_CHECKING:
    from optik.solvers.base import Solver

MOTION = 1e-9
LONGEST_CYCLE = 8
FACTOR = 4
_PIECES = (32, 68, 100, 200)
_STEPS = 12
_DEAR = ("bounded-nlls", "nlp", "peer")  # a millisecond and more a step

Motion = Literal["solved", "fixed_point", "cycle", "falling", "wandering", "broken"]


@dataclass(frozen=True, eq=False)
class Continuation:
    """What more of the same method does.

    Attributes:
        motion: "solved"; "fixed_point", reached or certain; "cycle"; "falling", the cost still
            goes down; "wandering", it moves without coming closer; "broken", its numerics failed.
        period: points of the cycle; 1 for a fixed point, 0 otherwise.
        iterations: further iterations that were run.
        q: where it stands then, shape (n,) [rad or m]; the solution if it solved.
        best: the best configuration of the further path by the method's own measure, shape (n,).
        cost: the problem's own cost at `best` [m^2].
        position_error: at `q` [m].
        rotation_error: at `q` [rad].
    """

    motion: Motion
    period: int
    iterations: int
    q: Array
    best: Array
    cost: float
    position_error: float
    rotation_error: float

    def to_json(self) -> dict[str, Any]:
        """The continuation as numbers, lists and strings."""
        return {
            "motion": self.motion,
            "period": self.period,
            "iterations": self.iterations,
            "q": self.q.tolist(),
            "best": self.best.tolist(),
            "cost": self.cost,
            "position_error": self.position_error,
            "rotation_error": self.rotation_error,
        }


def continue_method(
    problem: Problem, q: Array, solver: Solver, *, iterations: int, cost: float
) -> Continuation:
    """Runs `solver` on from `q`, one start, no time limit.

    Args:
        problem: the problem.
        q: where the method stopped, shape (n,) [rad or m].
        solver: the method.
        iterations: further iterations allowed.
        cost: the own cost that it has to fall below (by a thousandth) to count as falling.
    """
    pieces = [p for p in _PIECES if p < iterations]
    if solver.family == "nlp" or solver.restarts_itself:
        # Building one takes far longer than a piece; and a path over many starts shows no cycle.
        pieces = []
    pieces.append(iterations - sum(pieces))
    here, best, lowest, done, period = q, q, np.inf, 0, 0
    motion: Motion = "wandering"
    for piece in (p for p in pieces if p > 0):
        prepared = solver.prepare(problem.robot, problem.shape, Budget(iterations=piece))
        result = prepared(replace(problem, q_init=here), trace=not solver.restarts_itself)
        done += result.iterations
        path = np.array([here]) if result.trace is None else result.trace
        verdict = evaluate(problem, result.q)
        if verdict.cost < lowest:
            lowest, best = verdict.cost, result.q
        if verdict.solved:
            here, motion = result.q, "solved"
            break
        here = path[-1] if np.isfinite(path[-1]).all() else result.q
        period = cycle_length(path) or settles(problem, path)
        if result.status is Claim.NUMERICAL_FAILURE:
            motion = "broken"
            break
        if period == 0 and result.status is Claim.NO_PROGRESS:
            if float(np.abs(path[-1] - path[-min(2, len(path))]).max()) > MOTION:
                # It stopped in mid-stride, as one that knows its own cycle does: once round more.
                more = prepared(replace(problem, q_init=here), trace=True)
                done += more.iterations
                path = path if more.trace is None else np.concatenate((path, more.trace[1:]))
            period = _last_return(path)
        if period:
            motion = "fixed_point" if period == 1 else "cycle"
            break
    if motion == "wandering" and lowest < (1.0 - 1e-3) * cost:
        motion = "falling"
    verdict = evaluate(problem, here)
    return Continuation(
        motion=motion,
        period=period,
        iterations=done,
        q=frozen(here),
        best=frozen(best),
        cost=float(lowest),
        position_error=verdict.position_error,
        rotation_error=verdict.rotation_error,
    )


def _last_return(path: Array) -> int:
    """The period of a path whose method says that it stands still: 1 unless it was here before."""
    for p in range(1, min(LONGEST_CYCLE, len(path) - 1) + 1):
        if float(np.abs(path[-1] - path[-1 - p]).max()) <= MOTION:
            return p
    return 1


def settles(problem: Problem, path: Array) -> int:
    """Returns 1 if a path, shape (k, n), comes to rest too soon to reach the target, else 0."""
    if len(path) < _STEPS + 1:
        return 0
    steps = np.abs(np.diff(path[-_STEPS - 1 :], axis=0)).max(axis=1)
    if not (steps > 0.0).all():
        return 0
    ratio = float((steps[1:] / steps[:-1]).max())
    if ratio >= 1.0:
        return 0
    left = 10.0 * float(steps[-1]) * ratio / (1.0 - ratio)
    at = own_cost(problem).at(path[-1])
    tolerance = problem.tolerance
    allowed = sum(
        (t.position_weight * tolerance.position) ** 2
        + (t.rotation_weight * tolerance.rotation) ** 2
        for t in problem.targets
    )
    change = left * float(np.sqrt((at.J * at.J).sum(axis=0)).sum())
    return int(change < float(np.sqrt(at.e @ at.e)) - float(np.sqrt(allowed)))


def more_iterations(solver: Solver, budget: Budget) -> int:
    """How long a method is let go on: four times its budget, once where steps are dear."""
    return budget.iterations * (1 if solver.family in _DEAR else FACTOR)


def cycle_length(path: Array) -> int:
    """Returns the period, up to 8, in which a path, shape (k, n), ends; 0 if it does not repeat.

    A period p is told only from a path that shows it twice, so that a long stride back is not
    taken for a cycle.
    """
    k = len(path)
    for p in range(1, LONGEST_CYCLE + 1):
        if k < 2 * p or (k < p + 2):
            break
        # Every one of the last p points has been there p steps before.
        if float(np.abs(path[k - p :] - path[k - 2 * p : k - p]).max()) <= MOTION:
            return p
    return 0
