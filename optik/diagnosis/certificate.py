r"""The Karush-Kuhn-Tucker certificate of a configuration, to second order.

For minimise f(q) over lower <= q <= upper, with f the problem's own cost and g its gradient, the
projected gradient

    P_i = 0     where q_i = lower_i and g_i > 0, or q_i = upper_i and g_i < 0
    P_i = g_i   elsewhere

vanishes exactly at the points that satisfy the Karush-Kuhn-Tucker conditions (Nocedal and Wright
2006, section 16.7).  Its size is told relative to the largest gradient that an error of this length
could have: |P| / (|J|_F |e|).  "Stuck at a limit" without this test is a guess.

Where P_i was set to 0, |g_i| is the multiplier of that limit: what the cost falls by, to first
order, for each radian or metre that the limit is moved out of the way.  The joints that no
multiplier holds are free, and a stationary point is a minimum only if the Hessian restricted to
them has no negative eigenvalue.  The second derivatives are exact (own_cost.py): Gauss-Newton's
J^T J has no negative eigenvalue anywhere and cannot tell a minimum from a saddle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optik.diagnosis.own_cost import CostAt, own_cost
from optik.pose import Array, frozen
from optik.problem import Problem

STATIONARY = 1e-6
"""A configuration is stationary when its relative projected gradient is at most this."""

CURVATURE = 1e-6
"""A curvature counts as negative below minus this share of the Hessian's largest entry."""

RANK = 1e-6
"""A singular value counts as zero below this share of the largest."""


@dataclass(frozen=True, slots=True)
class LimitForce:
    """One limit that an arm rests on, and how hard the cost presses the joint against it.

    Attributes:
        joint: the joint's name.
        index: its place in q.
        side: "lower" or "upper".
        limit: the limit's value [rad or m].
        unit: "rad" or "m".
        multiplier: -df/d(limit outward) = |g_i|, what the cost falls by per radian or metre of
            room [m^2/rad or m^2/m]; 0 where the limit is touched but holds nothing.
        sign: of g_i: +1 at a lower limit that holds, -1 at an upper one, 0 where nothing is held.
        error_share: first-order fall of |e| per radian or metre of room, over |e| [1/rad or 1/m].
    """

    joint: str
    index: int
    side: Literal["lower", "upper"]
    limit: float
    unit: str
    multiplier: float
    sign: int
    error_share: float


@dataclass(frozen=True, eq=False)
class Certificate:
    """First- and second-order facts about one configuration, of the problem's own cost.

    Attributes:
        cost: f = 1/2 |e|^2 [m^2].
        gradient: exact df/dq, shape (n,); 0 for locked joints.
        projected_gradient: P, shape (n,).
        optimality: |P|_2.
        relative_optimality: |P|_2 / (|J|_F |e|_2); 0 where e = 0.
        active_lower: joints exactly on their lower limit, shape (n,), bool; locked joints too.
        active_upper: joints exactly on their upper limit, shape (n,), bool; locked joints too.
        limits: one entry for each active limit of a joint that is not locked, strongest first.
        singular_values: of the weighted J over the unlocked joints, largest first.
        rank: how many of them exceed 1e-6 of the largest.
        jacobian_shape: rows, and columns of unlocked joints.
        free: joints that neither a multiplier nor a lock holds, shape (n,), bool.
        smallest_curvature: smallest eigenvalue of the exact Hessian over the free joints
            [m^2/rad^2]; inf where no joint is free.
        curvature_scale: largest absolute entry of that Hessian, against which it is judged.
        curvature_direction: unit eigenvector of the smallest eigenvalue, shape (n,); 0 where no
            joint is free.
    """

    cost: float
    gradient: Array
    projected_gradient: Array
    optimality: float
    relative_optimality: float
    active_lower: NDArray[np.bool_]
    active_upper: NDArray[np.bool_]
    limits: tuple[LimitForce, ...]
    singular_values: Array
    rank: int
    jacobian_shape: tuple[int, int]
    free: NDArray[np.bool_]
    smallest_curvature: float
    curvature_scale: float
    curvature_direction: Array

    @property
    def smallest_singular_value(self) -> float:
        """Of the weighted J over the unlocked joints; 0 when every joint is locked."""
        return float(self.singular_values[-1]) if len(self.singular_values) else 0.0

    @property
    def stationary(self) -> bool:
        """Whether the first-order conditions hold: relative optimality at most 1e-6."""
        return self.relative_optimality <= STATIONARY

    @property
    def minimum(self) -> bool:
        """Whether the first- and the second-order necessary conditions hold."""
        return self.stationary and not self.curves_down

    @property
    def curves_down(self) -> bool:
        """Whether some direction over the free joints has negative curvature."""
        return self.smallest_curvature < -CURVATURE * self.curvature_scale

    @property
    def holding(self) -> tuple[LimitForce, ...]:
        """The active limits with a positive multiplier, strongest first."""
        return tuple(f for f in self.limits if f.multiplier > 0.0)

    def to_json(self) -> dict[str, Any]:
        """The certificate as numbers, lists and strings."""
        return {
            "cost": self.cost,
            "gradient": self.gradient.tolist(),
            "projected_gradient": self.projected_gradient.tolist(),
            "optimality": self.optimality,
            "relative_optimality": self.relative_optimality,
            "stationary": self.stationary,
            "minimum": self.minimum,
            "active_limits": [
                {
                    "joint": f.joint,
                    "side": f.side,
                    "limit": f.limit,
                    "unit": f.unit,
                    "multiplier": f.multiplier,
                    "sign": f.sign,
                    "error_share": f.error_share,
                }
                for f in self.limits
            ],
            "singular_values": self.singular_values.tolist(),
            "smallest_singular_value": self.smallest_singular_value,
            "rank": self.rank,
            "jacobian_shape": list(self.jacobian_shape),
            "free_joints": int(self.free.sum()),
            # JSON has no infinity: null says that no joint is free to curve.
            "smallest_curvature": self.smallest_curvature
            if np.isfinite(self.smallest_curvature)
            else None,
        }


def certificate(problem: Problem, q: Array) -> Certificate:
    """Computes the certificate at `q`, shape (n,) [rad or m], finite and inside the limits.

    Returns:
        The facts about the problem's own cost; the posture term is left out, because the question
        is always why a target is not reached.
    """
    q = problem.robot.configuration(q)
    return certify(problem, q, own_cost(problem).at(q, hessian=True))


def projected_gradient(q: Array, gradient: Array, lower: Array, upper: Array) -> Array:
    """Returns P, shape (n,): the gradient without what the limits stop."""
    held = ((q <= lower) & (gradient > 0)) | ((q >= upper) & (gradient < 0)) | (lower == upper)
    return np.where(held, 0.0, gradient)


def gradient_scale(J: Array, e: Array) -> float:
    """Returns |J|_F |e|_2, the largest gradient that an error of this length could have."""
    return float(np.sqrt((J * J).sum() * (e @ e)))


def certify(problem: Problem, q: Array, at: CostAt) -> Certificate:
    """Builds the certificate at `q`, shape (n,), from the cost and its derivatives there."""
    robot = problem.robot
    locked = robot.lower == robot.upper
    gradient = np.where(locked, 0.0, at.gradient)
    lower, upper = q <= robot.lower, q >= robot.upper
    pushed = (lower & (gradient > 0)) | (upper & (gradient < 0))
    projected = np.where(pushed, 0.0, gradient)
    optimality = float(np.sqrt(projected @ projected))
    J = at.J[:, ~locked]
    scale = gradient_scale(J, at.e)
    holds = pushed & (np.abs(gradient) > STATIONARY * scale)
    free = ~(holds | locked)
    smallest, curvature_scale, direction = np.inf, 0.0, np.zeros(robot.n)
    if free.any():
        H = at.hessian[np.ix_(free, free)]
        values, vectors = np.linalg.eigh(H)
        smallest, curvature_scale = float(values[0]), float(np.abs(H).max())
        direction[free] = vectors[:, 0]
    singular = np.linalg.svd(J, compute_uv=False) if J.size else np.zeros(0)
    return Certificate(
        cost=at.cost,
        gradient=frozen(gradient),
        projected_gradient=frozen(projected),
        optimality=optimality,
        relative_optimality=optimality / scale if scale > 0.0 else 0.0,
        active_lower=_frozen_bool(lower),
        active_upper=_frozen_bool(upper),
        limits=_forces(problem, gradient, lower & ~locked, upper & ~locked, holds, at.cost),
        singular_values=frozen(singular),
        rank=int((singular > RANK * singular[0]).sum()) if len(singular) else 0,
        jacobian_shape=(len(at.e), J.shape[1]),
        free=_frozen_bool(free),
        smallest_curvature=smallest,
        curvature_scale=curvature_scale,
        curvature_direction=frozen(direction),
    )


def _forces(
    problem: Problem,
    gradient: Array,
    lower: NDArray[np.bool_],
    upper: NDArray[np.bool_],
    holds: NDArray[np.bool_],
    cost: float,
) -> tuple[LimitForce, ...]:
    robot, forces = problem.robot, []
    for i in np.flatnonzero(lower | upper):
        # A joint whose limit the cost does not press against merely touches it.
        multiplier = abs(float(gradient[i])) if holds[i] else 0.0
        at_upper = bool(upper[i])
        forces.append(
            LimitForce(
                joint=robot.joint_names[i],
                index=int(i),
                side="upper" if at_upper else "lower",
                limit=float(robot.upper[i] if at_upper else robot.lower[i]),
                unit="rad" if robot.joint_kinds[i] == "hinge" else "m",
                multiplier=multiplier,
                sign=(-1 if at_upper else 1) if holds[i] else 0,
                # d|e| = df / |e| and |e|^2 = 2 f
                error_share=multiplier / (2.0 * cost) if cost > 0.0 else 0.0,
            )
        )
    return tuple(sorted(forces, key=lambda f: (-f.multiplier, f.index)))


def _frozen_bool(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    values.setflags(write=False)
    return values
