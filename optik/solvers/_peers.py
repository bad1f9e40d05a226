"""What all peers share: which problems they take, and the loop around one that goes step by step.

A peer is another library's solver, judged like everyone.  What it hands back is not put inside the
limits: `Result.q` is the peer's own number, and the judge counts how far it lies outside.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import numpy as np

from optik.errors import SolverError
from optik.pose import Array, frozen
from optik.problem import Budget, Problem, Shape
from optik.residual import Residual
from optik.result import Claim, Result
from optik.solvers.base import Deadline


def peer_module(package: str, *, solver: str) -> ModuleType:
    """Imports a peer that runs in this environment.

    Raises:
        SolverError: naming the extra that brings it.
    """
    try:
        return import_module(package)
    except ImportError:
        raise SolverError(
            f"{solver} needs the package {package!r}, which is not installed: "
            "pip install 'optik[peers]'"
        ) from None


def check_shape(shape: Shape, *, solver: str) -> None:
    """Raises SolverError unless the problem is one pose or position of the robot's own frame."""
    target = shape.targets[0]
    if (
        len(shape.targets) > 1
        or target.kind == "axis"
        or target.relative_to is not None
        or not all(target.mask)
    ):
        raise SolverError(
            f"{solver} takes one target in the world, a pose or a position without a mask"
        )


def violation(lower: Array, upper: Array, q: Array) -> float:
    """How far the worst joint lies outside [rad or m]."""
    return float(max(0.0, (lower - q).max(initial=0.0), (q - upper).max(initial=0.0)))


def iterate(
    problem: Problem,
    residual: Residual,
    budget: Budget,
    step: Callable[[Array], Array],
    *,
    trace: bool,
    deadline: Deadline | None,
) -> Result:
    """Repeats a peer's step until MuJoCo's errors are within tolerance.

    Args:
        problem: the problem.
        residual: of the problem's shape, to tell when the target is reached.
        budget: iterations and seconds.
        step: the next whole configuration from the present one, shape (n,); raises
            `ArithmeticError` or `RuntimeError` where the peer gives up.
        trace: keep the path.
        deadline: when to stop; from the budget if None.
    """
    robot = problem.robot
    deadline = Deadline(budget.seconds) if deadline is None else deadline
    residual.load(problem)
    q = np.array(problem.q_start)
    best, best_key, worst = q, (True, np.inf), 0.0
    path = [q]
    iterations, evaluations = 0, 0
    status, message = Claim.ITERATION_LIMIT, None
    while True:
        at = residual.evaluate(q, jacobian=False)
        evaluations += 1
        solved = (
            at.position_error <= problem.tolerance.position
            and at.rotation_error <= problem.tolerance.rotation
        )
        if (not solved, at.cost) < best_key:
            best, best_key = q, (not solved, at.cost)
        if solved:
            status = Claim.CONVERGED
            break
        if iterations >= budget.iterations:
            break
        if deadline.expired():
            status = Claim.TIME_LIMIT
            break
        try:
            moved = step(q)
        except (ArithmeticError, RuntimeError) as error:
            status, message = Claim.NUMERICAL_FAILURE, f"{type(error).__name__}: {error}"
            break
        if not np.isfinite(moved).all():
            status, message = Claim.NUMERICAL_FAILURE, "the peer's step is not finite"
            break
        iterations += 1
        worst = max(worst, violation(robot.lower, robot.upper, moved))
        still = float(np.abs(moved - q).max(initial=0.0)) < 1e-10
        q = moved
        path.append(q)
        if still:
            status = Claim.NO_PROGRESS
            break
    return Result(
        q=frozen(best),
        status=status,
        message=status.sentence if message is None else message,
        iterations=iterations,
        evaluations=evaluations,
        trace=frozen(np.array(path)) if trace else None,
        raw_violation=worst,
    )
