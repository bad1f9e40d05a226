"""The judge: what MuJoCo says of a configuration that a solver handed back.

A solver neither times nor scores itself.  Success is decided here, on exactly the q that is
returned: every error within tolerance, every joint inside its range with no slack, all finite.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from optik.pose import Array
from optik.problem import Problem, Shape
from optik.residual import Residual
from optik.robot import Robot

_LOCAL = threading.local()
_KEPT = 32


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a configuration really achieves.

    Attributes:
        position_error: largest over the targets [m].
        rotation_error: largest over the targets [rad]; 0 for position targets, the angle between
            the axes for axis targets.
        limit_violation: how far the worst joint is outside its range [rad or m]; exactly 0 inside.
        cost: the problem's own cost without the posture term, 1/2 sum (w_p^2 |p|^2 + w_r^2 |r|^2).
        posture_distance: |W (q - q_rest)| [rad or m].
        solved: errors within tolerance, no violation, everything finite.
    """

    position_error: float
    rotation_error: float
    limit_violation: float
    cost: float
    posture_distance: float
    solved: bool


def evaluate(problem: Problem, q: Array) -> Evaluation:
    """Judges configuration `q` with MuJoCo alone.

        solved  <=>  |p - p*| <= tol_p,  |log| <= tol_r,  lower <= q <= upper,  q finite

    Args:
        problem: the problem.
        q: configuration, shape (n,) [rad or m].

    Returns:
        The errors; infinite where `q` is not finite.
    """
    q = np.asarray(q, dtype=np.float64)
    robot = problem.robot
    if q.shape != (robot.n,) or not np.isfinite(q).all():
        inf = float("inf")
        return Evaluation(inf, inf, inf, inf, inf, False)
    violation = limit_violation(robot, q)
    residual = problem_residual(robot, problem.shape)
    residual.load(problem)
    value = residual.evaluate(q, jacobian=False)
    offset = problem.posture_weights * (q - problem.q_rest)
    tolerance = problem.tolerance
    return Evaluation(
        position_error=value.position_error,
        rotation_error=value.rotation_error,
        limit_violation=violation,
        cost=value.cost,
        posture_distance=float(np.sqrt(offset @ offset)),
        solved=(
            violation == 0.0
            and value.position_error <= tolerance.position
            and value.rotation_error <= tolerance.rotation
        ),
    )


def limit_violation(robot: Robot, q: Array) -> float:
    """Largest distance of a joint outside its range [rad or m]; exactly 0 when all are inside."""
    return float(max(0.0, (robot.lower - q).max(), (q - robot.upper).max()))


def problem_residual(robot: Robot, shape: Shape) -> Residual:
    """This thread's residual with the problem's own cost (log, the targets' own weights)."""
    cache: OrderedDict[tuple[int, Shape], Residual] | None = getattr(_LOCAL, "cache", None)
    if cache is None:
        cache = _LOCAL.cache = OrderedDict()
    key = (id(robot), shape)
    residual = cache.get(key)
    if residual is None or residual.robot is not robot:
        residual = cache[key] = Residual(robot, shape)
        if len(cache) > _KEPT:
            cache.popitem(last=False)
    return residual
