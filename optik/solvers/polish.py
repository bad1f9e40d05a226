r"""The last steps on the problem's own cost, for a solver that worked on another one.

A solver may minimise another rotation residual or weight than the problem's.  Where it ends
without success its point is no stationary point of the problem's cost, and nothing could be said of
it.  So it is taken on from there by Levenberg-Marquardt steps inside the limits,

    d = argmin |J d - e|^2 + mu |d|^2    subject to    lower - q <= d <= upper - q,

accepted only if the cost falls, with mu driven by the gain ratio (Nielsen 1999), until a step is
below 1e-10 rad or 50 steps are taken.  The cost never rises, and the steps are counted.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from optik.evaluation import problem_residual
from optik.pose import Array, frozen
from optik.problem import Budget, Problem
from optik.result import Claim, Result
from optik.solvers.base import Deadline, Search
from optik.solvers.qp import QPStatus, make_backend

STEPS = 50
SMALLEST_STEP = 1e-10  # [rad or m]


def polish(
    problem: Problem, result: Result, *, deadline: Deadline | None = None, steps: int = STEPS
) -> Result:
    """Continues from a result's q on the problem's own cost.

        1/2 sum_k ( w_p,k^2 |p_k - p_k*|^2 + w_r,k^2 |log(R_k* R_k^T)|^2 )

    Args:
        problem: the problem that the result belongs to.
        result: what a solver claimed; returned as it is if it claims convergence.
        deadline: when to stop; none if None.
        steps: how many steps to take at most.

    Returns:
        The result with q at the lowest cost found, the steps and evaluations added, the path
        continued where there is one, and the status told anew: converged if the target is reached
        after all, no_progress where the steps vanished, otherwise as it was.
    """
    if result.status is Claim.CONVERGED:
        return result
    residual = problem_residual(problem.robot, problem.shape)
    start = dataclasses.replace(problem, q_init=result.q)
    search = Search(
        residual,
        start,
        Budget(iterations=steps),
        deadline=Deadline(None) if deadline is None else deadline,
    )
    claim, path = _descend(search)
    done = search.result(Claim.NO_PROGRESS)
    if claim is None:
        claim, message = result.status, result.message
    else:
        message = claim.sentence
    trace = result.trace
    if trace is not None:
        trace = frozen(np.concatenate((trace, [residual.full(x) for x in path])))
    return dataclasses.replace(
        result,
        q=done.q,
        status=claim,
        message=message,
        iterations=result.iterations + done.iterations,
        evaluations=result.evaluations + done.evaluations,
        trace=trace,
    )


def _descend(search: Search) -> tuple[Claim | None, list[Array]]:
    """Steps until solved or standing still (None where something else ended it); the path."""
    residual, x = search.residual, search.x
    if not len(x):
        return Claim.NO_PROGRESS, []
    at = search.at(x)
    path = [x]
    backend = make_backend("mujoco", len(at.e), len(x))
    mu, growth = 1e-3 * max(at.cost, 1e-6), 2.0
    while search.out_of_budget() is None:
        if search.solved(at):
            return Claim.CONVERGED, path
        d, status, *_ = backend.step(
            at.J, at.e, float(np.sqrt(mu)), residual.lower - x, residual.upper - x
        )
        if status is not QPStatus.SOLVED:
            return None, path
        moved = np.minimum(np.maximum(x + d, residual.lower), residual.upper)
        search.iterations += 1
        if float(np.abs(moved - x).max()) < SMALLEST_STEP:
            return Claim.NO_PROGRESS, path
        trial = search.at(moved, step=False)
        model = at.e - at.J @ d
        predicted = at.cost - 0.5 * float(model @ model)
        ratio = (at.cost - trial.cost) / predicted if predicted > 0.0 else -1.0
        if not ratio > 0.0:
            mu, growth = mu * growth, 2.0 * growth
            continue
        x, at = moved, trial
        path.append(x)
        mu, growth = max(mu * max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3), 1e-12), 2.0
    return (Claim.CONVERGED if search.solved(at) else None), path
