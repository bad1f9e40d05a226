r"""The constrained step: damped least squares inside the joint limits, solved exactly.

The idea.  Clamping takes the damped step and drops what leaves the joint ranges.  Here the ranges
are part of the question, so that the joints that can still move make up for those that cannot:

    d = argmin |J d - e|^2 + lambda^2 |d|^2    subject to    lower - q <= d <= upper - q

a convex quadratic program of n unknowns (Kanoun, Lamiraux and Wieber 2011; Escande, Mansard and
Wieber 2014).  Its fixed points, d = 0, are exactly the points that satisfy the first-order
conditions of the bounded problem: what stops here is stationary, not merely stuck.

Holding the step.  The linear model is good nearby only.  `hold="trust"` puts |d_i| <= `step_limit`
into the box; `hold="scale"` scales the answer to norm `step_limit`, which stays feasible because
the box is convex and holds 0; `hold="none"` trusts the damping alone.

Damping.  lambda^2 = damping^2 + error_damping * 1/2 |e|^2: with `error_damping` the step is
careful far away, and Gauss-Newton near the target (Sugihara 2011).  There is no line search.

The posture.  With a posture asked for, a second QP picks among the steps in the same box that do
the same for the task:

    d' = argmin |W (q + d' - q_rest)|^2    subject to    J d' = J d,   the same bounds.

A long step along the null space spoils the task to second order.  Wherever the cost has not fallen
since the last step, the share `posture_gain` of the way to the posture is halved, so that the
posture never keeps the task from being met.  Once it is met the steps go on towards the posture
until that comes no nearer; the nearest configuration within tolerance is what comes back.

Stopping.  Solved within tolerance; the iteration or time limit; a step that no longer moves any
joint by more than the backend's noise, 1e-10 for the exact ones (a stationary point); a path that
repeats itself (the held step jumps to and fro): a cycle of two is seen at once.  A backend that
says anything but "solved" ends the solve, and its word is in the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from optik.pose import Array
from optik.problem import Budget, Problem, Shape
from optik.residual import RESIDUALS, Residual, ResidualKind
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Deadline, Prepared, Search, Solver, check_choice, check_positive
from optik.solvers.qp import BACKENDS, Backend, QPStatus, make_backend

Hold = Literal["trust", "scale", "none"]
# The second level ends when a step towards the posture is shorter than this [rad or m], or when so
# many steps have not lowered the posture's cost by so large a share.
_SMALLEST_PULL = 1e-4
_PATIENCE = 5
_LEAST_GAIN = 1e-3


@dataclass(frozen=True, kw_only=True)
class BoxQP(Solver):
    """Damped least-squares step with the joint limits inside the QP.

    Attributes:
        backend: what solves the QP: lsq-linear, osqp, cvxpy, mujoco, daqp, piqp, proxqp, clarabel.
        damping: lambda [m/rad, in the units of the weighted Jacobian].
        error_damping: what lambda^2 grows by per unit of cost [1/rad^2].
        hold: how the step is kept short: "trust" (|d_i| <= step_limit inside the QP), "scale"
            (the whole step scaled to norm step_limit) or "none".
        step_limit: the limit that `hold` keeps [rad or m].
        residual: rotation residual, "log" or "chordal".
        rotation_weight: w_r for every target [m/rad]; each target's own if None.
        posture_gain: the share of the way to the posture that a step first asks for [1].
    """

    name: ClassVar[str] = "box-qp"
    summary: ClassVar[str] = "damped least squares with the joint limits inside the step's QP"
    family: ClassVar[str] = "box-qp"
    reference: ClassVar[str] = "Kanoun, Lamiraux and Wieber 2011"

    backend: str = "lsq-linear"
    damping: float = 0.01
    error_damping: float = 0.0
    hold: Hold = "trust"
    step_limit: float = 0.2
    residual: ResidualKind = "log"
    rotation_weight: float | None = None
    posture_gain: float = 1.0

    def __post_init__(self) -> None:
        check_choice(self.name, "backend", self.backend, tuple(BACKENDS))
        check_positive(self.name, "damping", self.damping)
        check_positive(self.name, "error_damping", self.error_damping, zero=True)
        check_choice(self.name, "hold", self.hold, ("trust", "scale", "none"))
        check_positive(self.name, "step_limit", self.step_limit)
        check_choice(self.name, "residual", self.residual, RESIDUALS)
        check_positive(self.name, "rotation_weight", self.rotation_weight)
        check_positive(self.name, "posture_gain", self.posture_gain, zero=True)

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""
        residual = Residual(robot, shape, kind=self.residual, rotation_weight=self.rotation_weight)
        backend = make_backend(
            self.backend, residual_rows(shape, self.residual), len(residual.free)
        )

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            return self._run(
                Search(residual, problem, budget, trace=trace, deadline=deadline), backend
            )

        return run

    def _run(self, search: Search, backend: Backend) -> Result:
        residual, x = search.residual, search.x
        level = _SecondLevel(search.problem, residual.free, self.posture_gain)

        def end(claim: Claim, message: str | None = None) -> Result:
            # What ends the second level takes nothing away from a target that was reached.
            return (
                search.result(Claim.CONVERGED) if level.reached else search.result(claim, message)
            )

        before: Array | None = None
        while True:
            at = search.at(x, posture_cost=level.cost(x))
            if level.arrived(x, search.solved(at)):
                return search.result(Claim.CONVERGED)
            limit = Claim.NO_PROGRESS if not len(x) else search.out_of_budget()
            if limit is not None:
                return end(limit)
            damping = float(np.sqrt(self.damping**2 + self.error_damping * at.cost))
            lower, upper = residual.lower - x, residual.upper - x
            if self.hold == "trust":
                lower = np.maximum(lower, -self.step_limit)
                upper = np.minimum(upper, self.step_limit)
            d, status, violation, word = backend.step(at.J, at.e, damping, lower, upper)
            search.raw_violation = max(search.raw_violation, violation)
            if status is not QPStatus.SOLVED:
                return end(Claim.NUMERICAL_FAILURE, f"{self.backend} says {status.value}: {word}")
            if level.asked:
                task = d
                wanted = level.wanted(x, at.cost)
                d = backend.keep(at.J, task, level.weights, wanted, lower, upper).d
                if level.reached and float(np.abs(d - task).max()) < _SMALLEST_PULL:
                    return search.result(Claim.CONVERGED)
            if self.hold == "scale":
                norm = float(np.sqrt(d @ d))
                if norm > self.step_limit:
                    d = d * (self.step_limit / norm)
            moved = np.minimum(np.maximum(x + d, residual.lower), residual.upper)
            search.iterations += 1
            if float(np.abs(moved - x).max(initial=0.0)) < backend.noise:
                return end(Claim.NO_PROGRESS)
            if before is not None and float(np.abs(moved - before).max()) < backend.noise:
                return end(
                    Claim.NO_PROGRESS, "The steps jump to and fro between two configurations."
                )
            before, x = x, moved


class _SecondLevel:
    """What the posture asks of each step, and when it has been followed far enough.

    Attributes:
        asked: whether the problem has a posture.
        reached: whether the target has been reached on the way.
        weights: W over the free joints, shape (nf,).
    """

    def __init__(self, problem: Problem, free: NDArray[np.int64], gain: float) -> None:
        self.asked = problem.posture is not None
        self.reached = False
        self.weights = problem.posture_weights[free]
        self._rest = problem.q_rest[free]
        self._gain = self._first_gain = gain
        self._last_cost = np.inf
        self._nearest = np.inf
        self._stale = 0

    def cost(self, x: Array) -> float | None:
        """1/2 |W (x - x_rest)|^2; None if no posture is asked for."""
        if not self.asked:
            return None
        offset = self.weights * (x - self._rest)
        return 0.5 * float(offset @ offset)

    def wanted(self, x: Array, task_cost: float) -> Array:
        """The step that the posture asks for at `x`, shape (nf,) [rad or m]."""
        if self.reached:
            gain = self._first_gain
        else:
            # Where the posture keeps the task from getting on it has to give way.
            if task_cost >= self._last_cost:
                self._gain *= 0.5
            self._last_cost = task_cost
            gain = self._gain
        # A joint whose posture weight is 0 has nowhere to go: it is asked to stay.
        return np.where(self.weights > 0.0, gain * (self._rest - x), 0.0)

    def arrived(self, x: Array, solved: bool) -> bool:
        """Whether to stop at `x`: the target is reached, and the posture comes no nearer."""
        self.reached = self.reached or solved
        cost = self.cost(x)
        if not self.reached or cost is None:
            return self.reached
        if solved and cost < self._nearest * (1.0 - _LEAST_GAIN):
            self._nearest, self._stale = cost, 0
        else:
            self._stale += 1
        return self._stale >= _PATIENCE


def residual_rows(shape: Shape, kind: ResidualKind) -> int:
    """How many rows the residual of a shape has."""
    rows = 0
    for target in shape.targets:
        rows += sum(target.mask[:3])
        if target.kind == "pose":
            rows += 9 if kind == "chordal" and all(target.mask) else sum(target.mask[3:])
        elif target.kind == "axis":
            rows += 3
    return rows
