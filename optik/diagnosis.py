r"""The first-order certificate of a configuration, and the classes of failure.

For minimise 1/2 |e(q)|^2 over lower <= q <= upper, with gradient g = -J^T e, the projected
gradient

    P_i = 0     where q_i = lower_i and g_i > 0, or q_i = upper_i and g_i < 0
    P_i = g_i   elsewhere

vanishes exactly at the points that satisfy the Karush-Kuhn-Tucker conditions (Nocedal and Wright
2006, section 16.7).  Its size is told relative to the largest gradient that an error of this length
could have: |P| / (|J|_F |e|).  "Stuck at a limit" without this test is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optik.evaluation import problem_residual
from optik.pose import Array, frozen
from optik.problem import Problem


@dataclass(frozen=True, eq=False)
class Certificate:
    """First-order facts about one configuration, of the problem's own cost.

    Attributes:
        gradient: g = -J^T e, shape (n,); 0 for locked joints.
        projected_gradient: P, shape (n,).
        optimality: |P|_2.
        relative_optimality: |P|_2 / (|J|_F |e|_2); 0 where e = 0.
        active_lower: joints exactly on their lower limit, shape (n,), bool.
        active_upper: joints exactly on their upper limit, shape (n,), bool.
        smallest_singular_value: of the weighted J over the unlocked joints.
    """

    gradient: Array
    projected_gradient: Array
    optimality: float
    relative_optimality: float
    active_lower: NDArray[np.bool_]
    active_upper: NDArray[np.bool_]
    smallest_singular_value: float


def certificate(problem: Problem, q: Array) -> Certificate:
    """Computes the first-order certificate at `q`, shape (n,) [rad or m], inside the limits."""
    residual = problem_residual(problem.robot, problem.shape)
    residual.load(problem)
    at = residual.evaluate(q, jacobian=True)
    robot = problem.robot
    gradient = np.zeros(robot.n)
    gradient[residual.free] = -(at.J.T @ at.e)
    lower, upper = q <= robot.lower, q >= robot.upper
    projected = np.where((lower & (gradient > 0)) | (upper & (gradient < 0)), 0.0, gradient)
    optimality = float(np.linalg.norm(projected))
    scale = float(np.linalg.norm(at.J) * np.linalg.norm(at.e))
    values = np.linalg.svd(at.J, compute_uv=False) if at.J.size else np.zeros(1)
    return Certificate(
        gradient=frozen(gradient),
        projected_gradient=frozen(projected),
        optimality=optimality,
        relative_optimality=optimality / scale if scale > 0 else 0.0,
        active_lower=lower,
        active_upper=upper,
        smallest_singular_value=float(values[-1]),
    )
