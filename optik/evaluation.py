"""The judge: what MuJoCo says of a configuration that a solver handed back.

A solver neither times nor scores itself.  Success is decided here, on exactly the q that is
returned: every error within tolerance, every joint inside its range with no slack, all finite.

A judgement is part of every solve, so its common case (targets in the world, no mask) is written in
plain floats on MuJoCo's own arrays, which costs a tenth of numpy on vectors of three.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from math import atan2, inf, isfinite, sqrt

import mujoco
import numpy as np

from optik.checks import instance, numbers
from optik.errors import ProblemError
from optik.kinematics import Frame, Kinematics
from optik.pose import Array
from optik.problem import Problem, Shape, Target
from optik.residual import Residual
from optik.robot import Robot

_LOCAL = threading.local()
_KEPT = 32
_ALL = (True,) * 6


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What a configuration really achieves.

    Attributes:
        position_error: largest over the targets [m].
        rotation_error: largest over the targets [rad]; 0 for position targets, the angle between
            the axes for axis targets.
        limit_violation: how far the worst joint is outside its range [rad or m]; exactly 0 inside.
        cost: the problem's own cost without the posture term, 1/2 sum (w_p^2 |p|^2 + w_r^2 |r|^2).
        solved: errors within tolerance, no violation, everything finite.
        problem: the problem.
        q: the configuration that was judged, shape (n,) [rad or m].
    """

    position_error: float
    rotation_error: float
    limit_violation: float
    cost: float
    solved: bool
    problem: Problem = field(repr=False)
    q: Array = field(repr=False)

    @property
    def posture_distance(self) -> float:
        """|W (q - q_rest)| [rad or m]; infinite where q is not finite."""
        problem, q = self.problem, self.q
        if q.shape != problem.q_rest.shape or not np.isfinite(q).all():
            return inf
        offset = problem.posture_weights * (q - problem.q_rest)
        return float(np.sqrt(offset @ offset))


def evaluate(problem: Problem, q: Array) -> Evaluation:
    """Judges configuration `q` with MuJoCo alone.

        solved  <=>  |p - p*| <= tol_p,  |log| <= tol_r,  lower <= q <= upper,  q finite

    Args:
        problem: the problem.
        q: configuration, shape (n,) [rad or m].

    Returns:
        The errors; infinite where `q` is not finite or not n numbers.

    Raises:
        ProblemError: if `q` holds no real numbers, or `problem` is none.
    """
    if type(problem) is not Problem:
        instance(problem, Problem, "the first argument", ProblemError)
    if type(q) is not np.ndarray or q.dtype != np.float64:
        q = numbers(q, "a configuration", ProblemError)
    robot = problem.robot
    judge = _judge(robot)
    violation = judge.violation(q)
    if violation is None:
        return Evaluation(inf, inf, inf, inf, False, problem, q)
    shapes = problem.shape.targets
    if any(s.relative_to is not None or s.mask != _ALL for s in shapes):
        residual = problem_residual(robot, problem.shape)
        residual.load(problem)
        value = residual.evaluate(q, jacobian=False)
        position_error, rotation_error = value.position_error, value.rotation_error
        cost = value.cost
    else:
        position_error = rotation_error = cost = 0.0
        judge.update(q)
        for target, shape in zip(problem.targets, shapes, strict=True):
            position, rotation = judge.errors(target, shape.frame)
            cost += (target.position_weight * position) ** 2
            cost += (target.rotation_weight * rotation) ** 2
            # max() would drop a NaN; a comparison that is false keeps it out of "solved" below.
            position_error = position if not position <= position_error else position_error
            rotation_error = rotation if not rotation <= rotation_error else rotation_error
        cost *= 0.5
    tolerance = problem.tolerance
    return Evaluation(
        position_error,
        rotation_error,
        violation,
        cost,
        violation == 0.0
        and position_error <= tolerance.position
        and rotation_error <= tolerance.rotation,
        problem,
        q,
    )


def limit_violation(robot: Robot, q: Array) -> float:
    """Largest distance of a joint outside its range [rad or m]; exactly 0 when all are inside."""
    return float(max(0.0, (robot.lower - q).max(), (q - robot.upper).max()))


class _Judge(Kinematics):
    """A robot's kinematics with the arrays that a judgement reads kept as views; for one thread."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot.model, robot.joint_map)
        self._lower, self._upper = robot.lower.tolist(), robot.upper.tolist()
        self._views: dict[tuple[str, int], tuple[Array, Array, Array | None]] = {}
        self._quat = np.empty(4)

    def violation(self, q: Array) -> float | None:
        """Distance outside the limits; None where q is not n finite numbers."""
        if q.ndim != 1 or len(q) != len(self._lower):
            return None
        worst = total = 0.0
        for value, low, high in zip(q.tolist(), self._lower, self._upper, strict=True):
            total += value
            if value < low:
                worst = max(worst, low - value)
            elif value > high:
                worst = max(worst, value - high)
        return worst if isfinite(total) else None  # a NaN or an infinity stays in the sum

    def errors(self, target: Target, frame: Frame) -> tuple[float, float]:
        """Position error [m] and rotation error [rad] of one target in the world."""
        key = (frame.kind, frame.id)
        views = self._views.get(key)
        if views is None:
            body = self._data.xquat[frame.id] if frame.kind == "body" else None
            views = self._views[key] = (
                self.position(frame),
                self.rotation(frame).reshape(9),
                body,
            )
        p, R, quaternion = views
        px, py, pz = p.tolist()
        tx, ty, tz = target.position.tolist()
        dx, dy, dz = tx - px, ty - py, tz - pz
        position = sqrt(dx * dx + dy * dy + dz * dz)
        if target.quaternion is not None:
            if quaternion is None:
                quaternion = self._quat
                mujoco.mju_mat2Quat(quaternion, R)
            # The angle of target * conj(current), by atan2: exact at 0 and at a half turn.
            qw, qx, qy, qz = quaternion.tolist()
            tw, tx, ty, tz = target.quaternion.tolist()
            w = tw * qw + tx * qx + ty * qy + tz * qz
            x = tx * qw - tw * qx - ty * qz + tz * qy
            y = ty * qw - tw * qy - tz * qx + tx * qz
            z = tz * qw - tw * qz - tx * qy + ty * qx
            return position, 2.0 * atan2(sqrt(x * x + y * y + z * z), abs(w))
        if target.axis is None:
            return position, 0.0
        a, b, c = target.axis[0].tolist()
        u, v, w = target.axis[1].tolist()
        m = R.tolist()
        x = m[0] * a + m[1] * b + m[2] * c
        y = m[3] * a + m[4] * b + m[5] * c
        z = m[6] * a + m[7] * b + m[8] * c
        sx, sy, sz = y * w - z * v, z * u - x * w, x * v - y * u
        sine = sqrt(sx * sx + sy * sy + sz * sz)
        return position, atan2(sine, x * u + y * v + z * w)


def _judge(robot: Robot) -> _Judge:
    cache: weakref.WeakKeyDictionary[Robot, _Judge] | None = getattr(_LOCAL, "judges", None)
    if cache is None:
        cache = _LOCAL.judges = weakref.WeakKeyDictionary()
    judge = cache.get(robot)
    if judge is None:
        judge = cache[robot] = _Judge(robot)
    return judge


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
