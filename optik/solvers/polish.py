r"""The last steps on the problem's own cost, for a solver that worked on another one.

A solver may minimise another rotation residual or weight than the problem's.  Where it ends
without success its point is no stationary point of the problem's cost, and nothing could be said of
it.  So it is taken on from there by the descent that a diagnosis uses too (diagnosis/descent.py):
box steps that lower the problem's cost, Gauss-Newton while that gains, the exact Hessian after it,
until the target is reached, a minimum is refined, or 50 steps are taken.  The cost never rises, and
the steps are counted.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from optik.diagnosis import descend
from optik.pose import frozen
from optik.problem import Problem
from optik.result import Claim, Result
from optik.solvers.base import Deadline

STEPS = 50


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
        after all, no_progress at a minimum, otherwise as it was.
    """
    if result.status is Claim.CONVERGED:
        return result
    expired = None if deadline is None else deadline.expired
    descent = descend(problem, result.q, max_steps=steps, stop=expired)
    status: Claim = result.status
    message = result.message
    if descent.end == "solved":
        status, message = Claim.CONVERGED, Claim.CONVERGED.sentence
    elif descent.end not in ("steps", "stopped"):
        status, message = Claim.NO_PROGRESS, Claim.NO_PROGRESS.sentence
    trace = result.trace
    if trace is not None:
        trace = frozen(np.concatenate((trace, descent.path)))
    return dataclasses.replace(
        result,
        q=descent.q,
        status=status,
        message=message,
        iterations=result.iterations + descent.steps,
        evaluations=result.evaluations + descent.evaluations,
        trace=trace,
        q_end=descent.q,
    )
