r"""A monotone descent of the problem's own cost inside the limits, to a minimum or a solution.

The idea.  It answers one question about a point where a method stopped: does a step inside the
limits still lower the cost, and where does that lead?  It is no contest entry, so it takes no
tuned residual, no restart and no step that is not downhill.

The step.  With g the exact gradient and B a positive definite model of the curvature,

    d = argmin g^T d + 1/2 d^T (B + mu I) d   over  lower - q <= d <= upper - q,  |d_i| <= 0.5,

solved exactly as a box QP (projected Newton, `mju_boxQP`).  B = J^T J at first (Gauss-Newton,
which is right while the error can still vanish).  Once a step gains less than 3 % of the cost, B is
the exact Hessian, the joints pressed onto a limit kept apart from the others (Bertsekas 1982), with
its eigenvalues made positive, |H| = V |L| V^T (Dauphin et al. 2014).  That converges quadratically
to minima with an error left over, where Gauss-Newton crawls (Nocedal and Wright 2006, section
10.3).

Acceptance.  The gain ratio of true to modelled decrease accepts a step when positive and drives mu
(Nielsen 1999), so the cost never rises.  A joint that the QP puts on its limit is set to the limit
itself, not to within rounding of it: active limits are exact.

Saddles.  A stationary point with negative curvature over the free joints is left along that
eigenvector, to the side and length that lower the cost most of those tried.

Stopping.  Every target within tolerance; a minimum by the certificate's first- and second-order
conditions, refined to 1e-9; no step that lowers the cost in floating point; the step count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import mujoco
import numpy as np

from optik.diagnosis.certificate import (
    Certificate,
    certify,
    gradient_scale,
    projected_gradient,
)
from optik.diagnosis.own_cost import CostAt, OwnCost, own_cost
from optik.pose import Array, frozen
from optik.problem import Problem

STEP_BOX = 0.5
_SLOW = 0.03  # a step that gains a smaller share of the cost brings the exact Hessian in
_REFINED = 1e-9  # relative optimality at which a minimum is known well enough

End = Literal["solved", "minimum", "saddle", "floor", "steps", "stopped"]


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a monotone descent inside the limits leads.

    Attributes:
        q: its last configuration, shape (n,) [rad or m], inside the limits.
        steps: accepted steps.
        evaluations: forward kinematics calls.
        end: "solved"; "minimum" by the certificate; "saddle", stationary with a negative curvature
            that no step inside the limits could use; "floor", where rounding stopped it; "steps"
            and "stopped", cut off.
        cost: f there [m^2].
        position_error: largest over the targets [m].
        rotation_error: largest over the targets [rad].
        certificate: of q.
        path: every accepted configuration, the first where it began, shape (steps + 1, n).
    """

    q: Array
    steps: int
    evaluations: int
    end: End
    cost: float
    position_error: float
    rotation_error: float
    certificate: Certificate
    path: Array

    def to_json(self) -> dict[str, Any]:
        """The descent as numbers, lists and strings."""
        return {
            "q": self.q.tolist(),
            "steps": self.steps,
            "end": self.end,
            "cost": self.cost,
            "position_error": self.position_error,
            "rotation_error": self.rotation_error,
            "certificate": self.certificate.to_json(),
        }


def descend(
    problem: Problem,
    q: Array,
    *,
    max_steps: int = 200,
    stop: Callable[[], bool] | None = None,
) -> Descent:
    """Descends monotonically from `q` inside the limits on the problem's own cost.

    Args:
        problem: the problem; its start is not used.
        q: where to begin, shape (n,) [rad or m]; moved into the limits first.
        max_steps: accepted steps allowed.
        stop: asked before every step whether to stop; a deadline's `expired`, say.

    Returns:
        Where it leads; deterministic.
    """
    robot = problem.robot
    q = np.clip(robot.configuration(q), robot.lower, robot.upper)
    run = _Run(problem, own_cost(problem), q)
    end = run.go(max_steps, stop)
    at = run.at if len(run.at.hessian) else run.cost.at(run.q, hessian=True)
    return Descent(
        q=frozen(run.q),
        steps=run.steps,
        evaluations=run.evaluations,
        end=end,
        cost=at.cost,
        position_error=at.position_error,
        rotation_error=at.rotation_error,
        certificate=certify(problem, run.q, at),
        path=frozen(np.array(run.path)),
    )


class _Run:
    def __init__(self, problem: Problem, cost: OwnCost, q: Array) -> None:
        self.problem, self.cost, self.q = problem, cost, q
        self.lower, self.upper = problem.robot.lower, problem.robot.upper
        self.free = np.flatnonzero(self.upper > self.lower)
        self.exact = False
        self.steps = self.evaluations = 0
        self.path = [q]
        self.at = self._evaluate(q)
        n = len(self.free)
        self._factor, self._index = np.zeros((n, n + 7)), np.zeros(n, dtype=np.int32)
        self._step = np.zeros(n)

    def _evaluate(self, q: Array) -> CostAt:
        self.evaluations += 1
        return self.cost.at(q, hessian=self.exact)

    def go(self, max_steps: int, stop: Callable[[], bool] | None) -> End:
        tolerance = self.problem.tolerance
        mu, growth = 1e-3 * (1.0 + 2.0 * self.at.cost), 2.0
        rejected = 0
        while True:
            at = self.at
            if at.position_error <= tolerance.position and at.rotation_error <= tolerance.rotation:
                return "solved"
            optimality = self._optimality(self.q, at)
            if optimality <= _REFINED or rejected >= 8:
                if not self.exact:
                    self.exact, rejected = True, 0
                    self.at = self._evaluate(self.q)
                    continue
                facts = certify(self.problem, self.q, at)
                if not facts.stationary:
                    return "floor"
                if not facts.curves_down:
                    return "minimum"
                if not self._leave_saddle(facts):
                    return "saddle"
                rejected = 0
                continue
            if self.steps >= max_steps:
                return "steps"
            if stop is not None and stop():
                return "stopped"
            trial, predicted = self._trial(mu)
            new = self._evaluate(trial)
            gained = at.cost - new.cost
            # Near a minimum the decrease drowns in rounding; half the projected gradient at an
            # equal cost is progress there, and nothing else is.
            equal = abs(gained) <= 1e-13 * at.cost
            if equal:
                accepted = self._optimality(trial, new) < 0.5 * optimality
            else:
                accepted = gained > 0.0 and predicted > 0.0
            if accepted:
                ratio = 1.0 if equal else gained / predicted
                mu *= max(1.0 / 3.0, 1.0 - (2.0 * min(ratio, 1.5) - 1.0) ** 3)
                mu, growth, rejected = max(mu, 1e-12), 2.0, 0
                self._stand(trial, new)
                if not self.exact and gained < _SLOW * at.cost:
                    self.exact, mu = True, min(mu, 1e-6)
                    self.at = self._evaluate(self.q)
            else:
                mu, growth = max(mu, 1e-9) * growth, growth * 2.0
                rejected += 1

    def _stand(self, q: Array, at: CostAt) -> None:
        self.q, self.at = q, at
        self.path.append(q)
        self.steps += 1

    def _optimality(self, q: Array, at: CostAt) -> float:
        projected = projected_gradient(q, at.gradient, self.lower, self.upper)
        scale = gradient_scale(at.J, at.e)
        return float(np.sqrt(projected @ projected)) / scale if scale > 0.0 else 0.0

    def _trial(self, mu: float) -> tuple[Array, float]:
        """The QP's step from q: the new configuration, and the decrease its model promises."""
        free, at = self.free, self.at
        if self.exact:
            H = at.hessian[free[:, None], free]
            # With |H| of all joints together the free ones would not see their own Hessian.
            held = projected_gradient(self.q, at.gradient, self.lower, self.upper)[free] == 0.0
            H[held[:, None] != held] = 0.0
            values, vectors = np.linalg.eigh(H)
            floor = 1e-9 * max(abs(float(values[0])), abs(float(values[-1])))
            B = (vectors * np.maximum(np.abs(values), floor)) @ vectors.T
        else:
            J = at.J[:, free]
            B = J.T @ J
        damped = B + mu * np.eye(len(free))
        g, x = at.gradient[free], self.q[free]
        low = np.maximum(self.lower[free] - x, -STEP_BOX)
        high = np.minimum(self.upper[free] - x, STEP_BOX)
        d = self._step
        d[:] = 0.0
        # mju_boxQP stops where |gradient|^2 < 1e-16, an absolute number: near a minimum of small
        # error that would be at once.  The scale changes nothing but the units of the objective.
        scale = 1e6 / max(float(np.abs(g).max()), 1e-300)
        if mujoco.mju_boxQP(d, self._factor, self._index, scale * damped, scale * g, low, high) < 0:
            return self.q, 0.0  # not positive definite to rounding: more damping
        moved = x + d
        moved = np.where(moved <= self.lower[free], self.lower[free], moved)
        moved = np.where(moved >= self.upper[free], self.upper[free], moved)
        moved = np.where(d <= self.lower[free] - x, self.lower[free], moved)
        moved = np.where(d >= self.upper[free] - x, self.upper[free], moved)
        trial = self.q.copy()
        trial[free] = moved
        return trial, -float(g @ d + 0.5 * (d @ B @ d))

    def _leave_saddle(self, facts: Certificate) -> bool:
        """Steps along the most negative curvature; False when no trial lowers the cost."""
        best: tuple[float, Array, CostAt] | None = None
        for length in (0.5, 0.25, 0.1, 0.03, 0.01, 1e-3):
            for sign in (1.0, -1.0):
                d = sign * length * facts.curvature_direction
                trial = np.clip(self.q + d, self.lower, self.upper)
                at = self._evaluate(trial)
                if at.cost < self.at.cost * (1.0 - 1e-12) and (best is None or at.cost < best[0]):
                    best = (at.cost, trial, at)
            if best is not None:
                break
        if best is None:
            return False
        self._stand(best[1], best[2])
        return True
