r"""Damped least squares with every joint clamped to its range after the step.

The idea.  Linearise the pose error and take the damped least-squares step

    d = argmin |J d - e|^2 + lambda^2 |d|^2 = J^T (J J^T + lambda^2 I)^-1 e,

whose gain sigma / (sigma^2 + lambda^2) stays below 1 / (2 lambda) at a singularity (Wampler 1986;
Nakamura and Hanafusa 1986).  The whole step is scaled to norm `step_limit`, added, and each joint
is clipped to its range.  This is what most people write, and the baseline of every study here.

Why it stalls.  Clipping drops the part of the step that would leave the box without asking the
other joints to make up for it.  The map q -> clip(q + d(q)) therefore has fixed points that are
not stationary points of the bounded problem.

The posture.  With a posture asked for, N z with z = gain W^2 (q_rest - q) is added before scaling.
`projector="exact"` is N = I - V_r V_r^T from the singular vectors, J N = 0.  `projector="damped"`
reuses the damped inverse, N = I - J^T (J J^T + lambda^2 I)^-1 J, which leaks into the task:
J N = lambda^2 (J J^T + lambda^2 I)^-1 J.  It is kept because it is widely used.

Stopping.  Solved within tolerance; the iteration or time limit; a step below 1e-12 rad that no
longer moves any joint (a fixed point of the clamped map).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from optik.pose import Array
from optik.problem import Budget, Problem, Shape
from optik.residual import Residual
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Deadline, Prepared, Search, Solver, check_choice, check_positive


@dataclass(frozen=True, kw_only=True)
class ClampedDLS(Solver):
    """Damped least-squares step, scaled to a norm, every joint clamped after the step.

    Attributes:
        damping: lambda [m/rad, in the units of the weighted Jacobian].
        step_limit: largest norm of a step [rad or m].
        posture_gain: k, the share of the way to the posture that a step asks for [1].
        projector: "exact" or "damped" null-space projector for the posture.
    """

    name: ClassVar[str] = "clamped-dls"
    summary: ClassVar[str] = "damped least squares, every joint clamped after the step"
    family: ClassVar[str] = "clamped"
    reference: ClassVar[str] = "Wampler 1986; Nakamura and Hanafusa 1986"

    damping: float = 0.01
    step_limit: float = 0.2
    posture_gain: float = 0.1
    projector: Literal["exact", "damped"] = "exact"

    def __post_init__(self) -> None:
        check_positive(self.name, "damping", self.damping)
        check_positive(self.name, "step_limit", self.step_limit)
        check_positive(self.name, "posture_gain", self.posture_gain, zero=True)
        check_choice(self.name, "projector", self.projector, ("exact", "damped"))

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""
        residual = Residual(robot, shape)

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            return self._run(Search(residual, problem, budget, trace=trace, deadline=deadline))

        return run

    def _run(self, search: Search) -> Result:
        residual, problem, x = search.residual, search.problem, search.x
        lower, upper = residual.lower, residual.upper
        rest = problem.q_rest[residual.free]
        gains = self.posture_gain * problem.posture_weights[residual.free] ** 2
        while True:
            at = search.at(x)
            if search.solved(at):
                return search.result(Claim.CONVERGED)
            limit = search.out_of_budget()
            if limit is not None:
                return search.result(limit)
            damped = at.J @ at.J.T + self.damping**2 * np.eye(len(at.e))
            d = at.J.T @ np.linalg.solve(damped, at.e)
            if problem.posture is not None:
                d += self._null_space(at.J, damped) @ (gains * (rest - x))
            norm = float(np.linalg.norm(d))
            if norm > self.step_limit:
                d *= self.step_limit / norm
            moved = np.clip(x + d, lower, upper)
            search.iterations += 1
            if np.array_equal(moved, x) or float(np.abs(moved - x).max()) < 1e-14:
                return search.result(Claim.NO_PROGRESS)
            x = moved

    def _null_space(self, J: Array, damped: Array) -> Array:
        n = J.shape[1]
        if self.projector == "damped":
            return np.eye(n) - J.T @ np.linalg.solve(damped, J)
        _, singular_values, vt = np.linalg.svd(J)
        rank = int((singular_values > 1e-6 * singular_values[0]).sum())
        return np.eye(n) - vt[:rank].T @ vt[:rank]
