r"""The loop that every clamped method runs: take a step without limits, then clip to the ranges.

    x <- clip(x + hold(d(x)) ),    d from the method, limits not asked

Holding the step.  `hold="scale"` scales the whole step to norm `step_limit`; `hold="trust"` clips
each joint's part to it; `hold="none"` trusts the method.

When to clamp.  `clamp="each-step"` clips after every step.  `clamp="at-end"` lets the method run as
if there were no limits until it reaches the target; then hinges are turned by whole turns towards
their ranges, every joint is clipped, and what is left is judged.

The posture.  With a posture asked for, N z with z = gain W^2 (x_rest - x) is added to the step
before it is held; N = I - V_r V_r^T from the singular vectors of J, so that J N = 0.

Stopping.  Solved within tolerance; the iteration or time limit; a step that no longer moves any
joint by 1e-14 (a fixed point of the clamped map).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from optik.pose import Array
from optik.problem import Budget, Problem, Shape
from optik.residual import RESIDUALS, Linearization, Residual, ResidualKind
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Deadline, Prepared, Search, Solver, check_choice, check_positive

Hold = Literal["scale", "trust", "none"]
Clamp = Literal["each-step", "at-end"]


@dataclass(frozen=True, eq=False, slots=True)
class Here:
    """What a method may look at when it chooses a step.

    Attributes:
        at: residual and Jacobian.
        low: lower limits minus x, shape (nf,); -inf where there is no limit, or none counts yet.
        high: upper limits minus x, shape (nf,).
        shape: the structure of the problem.
    """

    at: Linearization
    low: Array
    high: Array
    shape: Shape


@dataclass(frozen=True, kw_only=True)
class Clamped(Solver):
    """A method that steps without limits and clips.

    Attributes:
        hold: how the step is kept short: "scale" (the whole step to norm step_limit), "trust"
            (|d_i| <= step_limit) or "none".
        step_limit: the limit that `hold` keeps [rad or m].
        clamp: when joints are clipped to their ranges: "each-step" or "at-end".
        posture_gain: k, the share of the way to the posture that a step asks for [1].
        residual: rotation residual, "log" or "chordal".
        rotation_weight: w_r for every target [m/rad]; each target's own if None.
    """

    family: ClassVar[str] = "clamped"

    step_limit: float = 0.2
    hold: Hold = "scale"
    clamp: Clamp = "each-step"
    posture_gain: float = 0.1
    residual: ResidualKind = "log"
    rotation_weight: float | None = None

    def __post_init__(self) -> None:
        check_positive(self.name, "step_limit", self.step_limit)
        check_choice(self.name, "hold", self.hold, ("scale", "trust", "none"))
        check_choice(self.name, "clamp", self.clamp, ("each-step", "at-end"))
        check_positive(self.name, "posture_gain", self.posture_gain, zero=True)
        check_choice(self.name, "residual", self.residual, RESIDUALS)
        check_positive(self.name, "rotation_weight", self.rotation_weight)

    @abstractmethod
    def step(self, here: Here) -> Array:
        """The method's step towards the target, shape (nf,), before it is held and clipped."""

    def null_space(self, here: Here) -> Array:
        """The projector that the posture goes through, shape (nf, nf): exact, J N = 0."""
        return exact_projector(here.at.J)

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""
        residual = Residual(robot, shape, kind=self.residual, rotation_weight=self.rotation_weight)

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            search = Search(residual, problem, budget, trace=trace, deadline=deadline)
            try:
                return self.run(search)
            except np.linalg.LinAlgError as error:
                return search.result(Claim.NUMERICAL_FAILURE, f"{self.name}: {error}")

        return run

    def run(self, search: Search) -> Result:
        """Solves one problem."""
        if self.clamp == "at-end":
            return self._clamp_at_end(search)
        box, x = search.residual, search.x
        while True:
            at = search.at(x)
            if search.solved(at):
                return search.result(Claim.CONVERGED)
            limit = search.out_of_budget()
            if limit is not None:
                return search.result(limit)
            here = Here(at, box.lower - x, box.upper - x, box.shape)
            moved = np.clip(x + self.held_step(search, here, x), box.lower, box.upper)
            search.iterations += 1
            if not np.isfinite(moved).all():
                return search.result(Claim.NUMERICAL_FAILURE)
            if np.array_equal(moved, x) or float(np.abs(moved - x).max()) < 1e-14:
                return search.result(Claim.NO_PROGRESS)
            x = moved

    def held_step(self, search: Search, here: Here, x: Array) -> Array:
        """The step at `x`, with the posture's part, held; not yet clipped."""
        if not len(x):
            return x
        d = self.step(here)
        problem, free = search.problem, search.residual.free
        if problem.posture is not None:
            gains = self.posture_gain * problem.posture_weights[free] ** 2
            d = d + self.null_space(here) @ (gains * (problem.q_rest[free] - x))
        if self.hold == "trust":
            return np.clip(d, -self.step_limit, self.step_limit)
        if self.hold == "scale":
            norm = float(np.linalg.norm(d))
            if norm > self.step_limit:
                return d * (self.step_limit / norm)
        return d

    def _clamp_at_end(self, search: Search) -> Result:
        box, x = search.residual, search.x
        without = np.full(len(x), np.inf)
        at = search.at(x)
        limit = None
        while not search.solved(at):
            limit = search.out_of_budget()
            if limit is not None:
                break
            d = self.held_step(search, Here(at, -without, without, box.shape), x)
            search.iterations += 1
            if not len(x) or float(np.abs(d).max()) < 1e-14:
                limit = Claim.NO_PROGRESS
                break
            if not np.isfinite(d).all():
                return search.result(Claim.NUMERICAL_FAILURE)
            x = x + d
            # Outside the limits, so not an answer that the search may keep.
            at = box.at(x)
            search.evaluations += 1
            search.stand(x)
        turned = _turned_into_range(x, box)
        ended = np.clip(turned, box.lower, box.upper)
        search.raw_violation = float(np.abs(turned - ended).max(initial=0.0))
        if search.iterations:
            at = search.at(ended)
        if search.solved(at):
            return search.result(Claim.CONVERGED)
        if limit is not None:
            return search.result(limit)
        return search.result(
            Claim.NO_PROGRESS,
            "Without its limits the arm reaches the target; clipped to them it does not.",
        )


def _turned_into_range(x: Array, box: Residual) -> Array:
    """Moves hinges by whole turns to where they are inside their ranges, or least outside."""
    hinge = np.array([box.robot.joint_kinds[i] == "hinge" for i in box.free], dtype=bool)
    out = x.copy()
    for i in np.flatnonzero(hinge & ((x < box.lower) | (x > box.upper))):
        middle = 0.5 * (box.lower[i] + box.upper[i])
        if np.isfinite(middle):
            out[i] = x[i] - 2 * np.pi * np.round((x[i] - middle) / (2 * np.pi))
    return out


def damped_step(J: Array, e: Array, damping: float) -> Array:
    """Returns d = argmin |J d - e|^2 + damping^2 |d|^2 = J^T (J J^T + damping^2 I)^-1 e."""
    return J.T @ np.linalg.solve(J @ J.T + damping**2 * np.eye(len(e)), e)


def exact_projector(J: Array) -> Array:
    """I - V_r V_r^T, shape (n, n): onto the null space of J, of shape (m, n)."""
    n = J.shape[1]
    _, singular_values, vt = np.linalg.svd(J)
    rank = int((singular_values > 1e-6 * singular_values[0]).sum())
    return np.eye(n) - vt[:rank].T @ vt[:rank]
