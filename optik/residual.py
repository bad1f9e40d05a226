r"""The residual of a problem and its Jacobian, by MuJoCo: what every NumPy solver linearises.

For target k, with p, R the pose of its frame (in the axes of `relative_to`) and J_p, J_r the rows
of the geometric Jacobian:

    position        e = w_p (p* - p)                        J = w_p J_p
    pose, log       e = w_r log(R* R^T)                     J = w_r J_r
    pose, masked    e = w_r rows of log(R* R^T)             J = w_r rows of J_right^-1 J_r
    pose, chordal   e = w_r / sqrt(2) (a_i* - a_i), i=1..3  J = -w_r / sqrt(2) [a_i]x J_r
    axis, log       e = w_r angle (x x t) / |x x t|         J = w_r (1 - x x^T) J_r
    axis, chordal   e = w_r (t - x)                         J = -w_r [x]x J_r

so that a step d is asked to satisfy J d = e.  a_i are the frame's axes, x the controlled axis and
t where it should point.  With the logarithm, -J^T e with the geometric Jacobian is the *exact*
gradient of 1/2 |e|^2, though J is not the exact derivative of e away from e = 0; the masked and
the chordal Jacobians are exact, and for small angles all agree (Sola, Deray and Atchuthan 2018).

Joints whose limits coincide (to 1e-12) are not unknowns: the solvers see only the free joints, `x`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np

from optik.kinematics import Kinematics
from optik.pose import Array, matrix_from_quaternion, rotation_vector
from optik.problem import Problem, Shape, Target, TargetShape
from optik.robot import Robot

ResidualKind = Literal["log", "chordal"]
RESIDUALS: tuple[ResidualKind, ...] = ("log", "chordal")
LOCKED = 1e-12  # a range this narrow [rad or m] leaves nothing to solve for


@dataclass(frozen=True, eq=False, slots=True)
class Linearization:
    """The residual at one configuration.

    Attributes:
        e: weighted residual, shape (m,), zero where every target is met.
        J: weighted Jacobian, shape (m, free joints); None if it was not asked for.
        position_error: largest position error over the targets [m], unweighted.
        rotation_error: largest true rotation angle over the targets [rad].
    """

    e: Array
    J: Array
    position_error: float
    rotation_error: float

    @property
    def cost(self) -> float:
        """1/2 |e|^2."""
        return 0.5 * float(self.e @ self.e)


class Residual:
    """The residual of every problem of one shape; for one thread.

    Attributes:
        free: indices of the joints that are unknowns, shape (nf,).
        lower: their lower limits, shape (nf,).
        upper: their upper limits, shape (nf,).
    """

    def __init__(
        self,
        robot: Robot,
        shape: Shape,
        *,
        kind: ResidualKind = "log",
        rotation_weight: float | None = None,
    ) -> None:
        """Builds the residual once.

        Args:
            robot: the robot.
            shape: the structure of the problems it will serve.
            kind: rotation residual, "log" or "chordal".
            rotation_weight: w_r for every target [m/rad]; each target's own if None.
        """
        self.robot = robot
        self.shape = shape
        self.kind = kind
        self.rotation_weight = rotation_weight
        self.free = np.flatnonzero(robot.upper - robot.lower > LOCKED)
        self.lower = robot.lower[self.free]
        self.upper = robot.upper[self.free]
        self._all_free = len(self.free) == robot.n
        self._kinematics = Kinematics(robot.model, robot.joint_map)
        self._targets: tuple[Target, ...] = ()
        self._q = np.array(robot.q_nominal)

    def load(self, problem: Problem) -> Array:
        """Takes a problem's numbers and returns its start in the free joints, shape (nf,)."""
        self._targets = problem.targets
        self._q = np.array(problem.q_start)
        return self._q[self.free].copy()

    def full(self, x: Array) -> Array:
        """Returns the whole configuration, shape (n,), with free joints `x`, inside the limits."""
        q = self._q.copy()
        q[self.free] = np.minimum(np.maximum(x, self.lower), self.upper)
        return q

    def errors(self, q: Array) -> tuple[float, float]:
        """Largest position error [m] and rotation error [rad] at `q`, shape (n,)."""
        out = self.evaluate(q, jacobian=False)
        return out.position_error, out.rotation_error

    def at(self, x: Array) -> Linearization:
        """Residual and Jacobian at the free joints `x`, shape (nf,)."""
        q = self._q.copy()
        q[self.free] = x
        return self.evaluate(q, jacobian=True)

    def value(self, x: Array) -> Linearization:
        """Residual alone (its J is empty) at the free joints `x`, shape (nf,)."""
        q = self._q.copy()
        q[self.free] = x
        return self.evaluate(q, jacobian=False)

    def evaluate(self, q: Array, *, jacobian: bool) -> Linearization:
        """Residual, and on request its Jacobian, at a whole configuration `q`, shape (n,)."""
        self._kinematics.update(q)
        rows: list[Array] = []
        blocks: list[Array] = []
        position_error = rotation_error = 0.0
        for target, shape in zip(self._targets, self.shape.targets, strict=True):
            e, J, position, rotation = self._target(target, shape, jacobian)
            rows += e
            blocks += J
            position_error = max(position_error, position)
            rotation_error = max(rotation_error, rotation)
        e_all = np.concatenate(rows)
        J_all = np.concatenate(blocks) if jacobian else np.empty((0, 0))
        if jacobian and not self._all_free:
            J_all = J_all[:, self.free]
        return Linearization(e_all, J_all, position_error, rotation_error)

    def _target(
        self, target: Target, shape: TargetShape, jacobian: bool
    ) -> tuple[list[Array], list[Array], float, float]:
        p, R, quaternion, J = self._relative(shape, jacobian)
        Jp, Jr = J[:3], J[3:]
        wp = target.position_weight
        wr = target.rotation_weight if self.rotation_weight is None else self.rotation_weight
        masked = not all(shape.mask)
        mp = np.flatnonzero(shape.mask[:3]) if masked else slice(None)
        mr = np.flatnonzero(shape.mask[3:]) if masked else slice(None)
        ep = (target.position - p)[mp]
        rows, blocks = [wp * ep], [wp * Jp[mp]] if jacobian else []
        position_error, rotation_error = float(np.sqrt(ep @ ep)), 0.0
        if shape.kind == "pose":
            assert target.quaternion is not None
            whole = rotation_vector(target.quaternion, quaternion)
            r = whole[mr]
            rotation_error = float(np.sqrt(r @ r))
            if self.kind == "log" or masked:
                rows.append(wr * r)
                if jacobian and masked:
                    # A part of the logarithm has no shortcut: r^T J_right^-1 = r^T needs all of r.
                    blocks.append(wr * (right_jacobian_inverse(whole) @ Jr)[mr])
                elif jacobian:
                    blocks.append(wr * Jr)
            else:
                s = wr * np.sqrt(0.5)
                wanted = rotation_of(target)
                rows.append(s * (wanted - R).T.reshape(9))
                if jacobian:
                    blocks += [-s * (skew(R[:, i]) @ Jr) for i in range(3)]
        elif shape.kind == "axis":
            assert target.axis is not None
            x, t = R @ target.axis[0], target.axis[1]
            r = axis_rotation_vector(x, t)
            rotation_error = float(np.sqrt(r @ r))
            if self.kind == "log":
                rows.append(wr * r)
                if jacobian:
                    blocks.append(wr * (Jr - np.outer(x, x @ Jr)))
            else:
                rows.append(wr * (t - x))
                if jacobian:
                    blocks.append(-wr * (skew(x) @ Jr))
        return rows, blocks, position_error, rotation_error

    def _relative(self, shape: TargetShape, jacobian: bool) -> tuple[Array, Array, Array, Array]:
        """Pose and Jacobian of the frame, in the axes of `relative_to`."""
        kinematics = self._kinematics
        p = kinematics.position(shape.frame)
        R = kinematics.rotation(shape.frame)
        quaternion = kinematics.quaternion(shape.frame) if shape.kind == "pose" else _NONE
        J = kinematics.jacobian(shape.frame) if jacobian else _NO_JACOBIAN
        if shape.relative_to is None:
            return p, R, quaternion, J
        base_p = kinematics.position(shape.relative_to)
        base_R = kinematics.rotation(shape.relative_to)
        gap = p - base_p
        if shape.kind == "pose":
            inverse, product = np.empty(4), np.empty(4)
            mujoco.mju_negQuat(inverse, kinematics.quaternion(shape.relative_to))
            mujoco.mju_mulQuat(product, inverse, quaternion)
            quaternion = product
        if jacobian:
            base_J = kinematics.jacobian(shape.relative_to)
            linear = J[:3] - base_J[:3] + skew(gap) @ base_J[3:]
            J = np.concatenate((base_R.T @ linear, base_R.T @ (J[3:] - base_J[3:])))
        return base_R.T @ gap, base_R.T @ R, quaternion, J


_NONE = np.empty(0)
_NO_JACOBIAN = np.empty((6, 0))


def skew(v: Array) -> Array:
    """Returns [v]x, shape (3, 3), with [v]x a = v x a."""
    x, y, z = float(v[0]), float(v[1]), float(v[2])
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def right_jacobian_inverse(r: Array) -> Array:
    """Inverse right Jacobian of SO(3), shape (3, 3): log(exp(r) exp(d)) = r + J^-1 d + O(d^2).

        J^-1 = 1 + [r]x / 2 + (1 / a^2 - (1 + cos a) / (2 a sin a)) [r]x^2,    a = |r|

    Args:
        r: rotation vector, shape (3,) [rad].
    """
    K = skew(r)
    a = float(np.sqrt(r @ r))
    if a < 1e-4:
        factor = 1.0 / 12.0 + a * a / 720.0
    elif np.pi - a < 1e-9:  # the cotangent of a quarter turn is zero
        factor = 1.0 / (a * a)
    else:
        factor = 1.0 / (a * a) - (1.0 + np.cos(a)) / (2.0 * a * np.sin(a))
    return np.eye(3) + 0.5 * K + factor * (K @ K)


def axis_rotation_vector(x: Array, t: Array) -> Array:
    """Returns the shortest rotation vector that turns unit vector `x` onto `t`, shape (3,) [rad].

    At exactly opposite vectors any perpendicular axis will do; one is picked.
    """
    cross = np.array(
        [x[1] * t[2] - x[2] * t[1], x[2] * t[0] - x[0] * t[2], x[0] * t[1] - x[1] * t[0]]
    )
    sine, cosine = float(np.sqrt(cross @ cross)), float(x @ t)
    if sine > 1e-12:
        return cross * (np.arctan2(sine, cosine) / sine)
    if cosine > 0:
        return cross
    other = np.zeros(3)
    other[int(np.argmin(np.abs(x)))] = 1.0
    normal = other - (other @ x) * x
    return normal * (np.pi / float(np.sqrt(normal @ normal)))


def rotation_of(target: Target) -> Array:
    """Rotation matrix, shape (3, 3), of a pose target."""
    assert target.quaternion is not None
    return matrix_from_quaternion(target.quaternion)
