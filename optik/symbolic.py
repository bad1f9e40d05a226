r"""CasADi expressions of the forward kinematics and of the residual, built from the MjModel.

The chain's constants (chain.py) are multiplied out in CasADi's SX, once with rotation matrices for
the positions and once with unit quaternions for the rotations.  Quaternions make the rotation
residual smooth in q: with d = conj(q_now) turned to q* (its w made non-negative)

    log      r = 2 atan2(|v|, w) / |v| v,      d = (w, v)
    chordal  (a_i* - a_i) / sqrt(2)            over the frame's three axes

and near v = 0 the factor of the logarithm is its own power series in |v|^2, so that first *and*
second derivatives stay finite at the solution (a square root would have none there).

A casadi Callback around MuJoCo would be brittle and has no Hessian; this agrees with MuJoCo to
1e-12 and has exact derivatives of every order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from optik.chain import Chain, chain_to
from optik.kinematics import Frame
from optik.pose import Array, quaternion_from_matrix
from optik.problem import Problem, Shape, Target, TargetShape
from optik.robot import Robot

SX = Any  # casadi ships no types


@dataclass(frozen=True, eq=False)
class SymbolicPose:
    """Pose of a frame as expressions of q.

    Attributes:
        position: SX (3, 1) [m].
        rotation: SX (3, 3).
        quaternion: SX (4, 1), wxyz, of norm 1.
    """

    position: SX
    rotation: SX
    quaternion: SX


def symbolic_forward(chain: Chain, q: SX) -> SymbolicPose:
    """Forward kinematics of a chain.

        T = F_0 M_1(q) F_1 ... M_m(q) F_m

    Args:
        chain: the chain, from `chain_to`.
        q: SX (n, 1) [rad or m].
    """
    p, R, quaternion = ca.SX.zeros(3), ca.SX.eye(3), ca.SX([1.0, 0.0, 0.0, 0.0])
    for joint in chain.joints:
        p, R, quaternion = _fixed(p, R, quaternion, joint.offset, joint.rotation)
        offset = q[joint.index] - joint.reference
        u = ca.SX(0.0)
        for c in reversed(joint.polynomial):
            u = u * offset + c
        if joint.kind == "hinge":
            turn = ca.vertcat(ca.cos(u / 2), ca.sin(u / 2) * ca.DM(joint.axis))
            R = R @ _axis_rotation(joint.axis, u)
            quaternion = _multiply(quaternion, turn)
        else:
            p = p + R @ (ca.DM(joint.axis) * u)
    p, R, quaternion = _fixed(p, R, quaternion, chain.tool_offset, chain.tool_rotation)
    return SymbolicPose(p, R, quaternion)


@dataclass(frozen=True, eq=False)
class SymbolicResidual:
    """The residual of every problem of one shape.

    Attributes:
        q: SX (n, 1), the unknowns.
        parameters: SX (k, 1), a problem's numbers as `parameters_of` lists them.
        log: SX (m, 1), weighted residual with the rotation vector.
        chordal: SX (m', 1), weighted residual with the axes' differences.
        equality: SX (c, 1), independent smooth equations, zero exactly where every target is met.
        facing: SX (d, 1), one for each axis target, positive on the right side of the target.
    """

    q: SX
    parameters: SX
    log: SX
    chordal: SX
    equality: SX
    facing: SX


def symbolic_residual(
    robot: Robot, shape: Shape, *, rotation_weight: float | None = None
) -> SymbolicResidual:
    """Builds the residual, signs as in residual.py: target minus current.

    Args:
        robot: the robot.
        shape: the problems' structure.
        rotation_weight: w_r for every target [m/rad]; each target's own if None.
    """
    q = ca.SX.sym("q", robot.n)
    parts: dict[str, list[SX]] = {k: [] for k in ("p", "log", "chordal", "equality", "facing")}
    poses: dict[Frame, SymbolicPose] = {}

    def pose(frame: Frame) -> SymbolicPose:
        if frame not in poses:
            poses[frame] = symbolic_forward(chain_to(robot, frame), q)
        return poses[frame]

    for k, target in enumerate(shape.targets):
        here = pose(target.frame)
        if target.relative_to is not None:
            base = pose(target.relative_to)
            here = SymbolicPose(
                base.rotation.T @ (here.position - base.position),
                base.rotation.T @ here.rotation,
                _multiply(_conjugate(base.quaternion), here.quaternion),
            )
        _add_target(parts, target, here, f"t{k}", rotation_weight)
    join = {k: ca.vertcat(*v) if v else ca.SX.zeros(0) for k, v in parts.items()}
    return SymbolicResidual(
        q, join["p"], join["log"], join["chordal"], join["equality"], join["facing"]
    )


def parameters_of(problem: Problem) -> Array:
    """A problem's numbers, in the order of `SymbolicResidual.parameters`."""
    return np.concatenate([_parameters(t) for t in problem.targets])


def _parameters(target: Target) -> Array:
    weights = [target.position_weight, target.rotation_weight]
    if target.quaternion is not None:
        return np.concatenate((target.position, weights, target.quaternion))
    if target.axis is not None:
        return np.concatenate((target.position, weights, *target.axis))
    return np.concatenate((target.position, weights))


def _add_target(
    parts: dict[str, list[SX]],
    target: TargetShape,
    here: SymbolicPose,
    name: str,
    rotation_weight: float | None,
) -> None:
    extra = {"position": 0, "pose": 4, "axis": 6}[target.kind]
    numbers = ca.SX.sym(name, 5 + extra)
    parts["p"].append(numbers)
    w_p = numbers[3]
    w_r = numbers[4] if rotation_weight is None else rotation_weight
    rows = [i for i in range(3) if target.mask[i]]
    rotation_rows = [i for i in range(3) if target.mask[3 + i]]
    gap = (numbers[:3] - here.position)[rows]
    for key, weight in (("log", w_p), ("chordal", w_p), ("equality", 1.0)):
        parts[key].append(weight * gap)
    if target.kind == "pose":
        wanted = numbers[5:9]
        difference = _multiply(wanted, _conjugate(here.quaternion))
        difference = ca.if_else(difference[0] < 0, -difference, difference)
        w, v = difference[0], difference[1:]
        r = _log(w, v)[rotation_rows]
        parts["log"].append(w_r * r)
        parts["equality"].append(v[rotation_rows])
        if len(rotation_rows) < 3:
            # Masked rows have no chordal form: the axes mix the three rotations.
            parts["chordal"].append(w_r * r)
        else:
            off = ca.vec(_matrix(wanted) - here.rotation)
            parts["chordal"].append(w_r * np.sqrt(0.5) * off)
    elif target.kind == "axis":
        x, t = here.rotation @ numbers[5:8], numbers[8:11]
        cross, cosine = ca.cross(x, t), ca.dot(x, t)
        s2 = ca.dot(cross, cross)
        safe = ca.if_else(s2 < 1e-10, 1.0, s2)
        factor = ca.if_else(
            s2 < 1e-10,
            ca.if_else(cosine > 0, 1 + s2 / 6, 0.0),
            ca.atan2(ca.sqrt(safe), cosine) / ca.sqrt(safe),
        )
        parts["log"].append(w_r * factor * cross)
        parts["chordal"].append(w_r * (t - x))
        parts["equality"].append(_perpendicular(t).T @ x)
        parts["facing"].append(cosine)


def _log(w: SX, v: SX) -> SX:
    s2 = ca.dot(v, v)
    small = s2 < 1e-10
    s = ca.sqrt(ca.if_else(small, 1.0, s2))
    # asin series of 2 asin(s) / s: the quaternion has norm 1 and w >= 0 here.
    factor = ca.if_else(small, 2 + s2 / 3, 2 * ca.atan2(s, w) / s)
    return factor * v


def _perpendicular(t: SX) -> SX:
    """Two unit vectors at right angles to `t` and to each other, SX (3, 2), smooth away from -z.

    Duff and others 2017, "Building an orthonormal basis, revisited".
    """
    sign = ca.if_else(t[2] < 0, -1.0, 1.0)
    a = -1 / (sign + t[2])
    b = t[0] * t[1] * a
    first = ca.vertcat(1 + sign * t[0] ** 2 * a, sign * b, -sign * t[0])
    second = ca.vertcat(b, sign + t[1] ** 2 * a, -t[1])
    return ca.horzcat(first, second)


def _fixed(p: SX, R: SX, quaternion: SX, offset: Array, rotation: Array) -> tuple[SX, SX, SX]:
    turn = quaternion_from_matrix(rotation)
    # Exact ones and zeros keep the expressions small.
    return (
        p + R @ ca.sparsify(ca.DM(offset)),
        R @ ca.sparsify(ca.DM(rotation)),
        _multiply(quaternion, ca.SX(ca.DM(turn))),
    )


def _axis_rotation(axis: Array, angle: SX) -> SX:
    """Rodrigues' formula: 1 + sin(u) [a]x + (1 - cos(u)) [a]x^2."""
    K = ca.DM(np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]]))
    return ca.SX.eye(3) + ca.sin(angle) * K + (1 - ca.cos(angle)) * (K @ K)


def _multiply(a: SX, b: SX) -> SX:
    w = a[0] * b[0] - ca.dot(a[1:], b[1:])
    return ca.vertcat(w, a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:]))


def _conjugate(a: SX) -> SX:
    return ca.vertcat(a[0], -a[1:])


def _matrix(q: SX) -> SX:
    v, w = q[1:], q[0]
    return (w**2 - ca.dot(v, v)) * ca.SX.eye(3) + 2 * v @ v.T + 2 * w * ca.skew(v)
