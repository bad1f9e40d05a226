r"""The problem's own cost with its exact first and second derivatives, in closed form.

For one target with position error e_p = p* - p and rotation residual r, the cost is

    f = 1/2 w_p^2 |M_p e_p|^2 + 1/2 w_r^2 |M_r r|^2            (M: the target's mask)

Let c_j and a_j be the linear and angular columns of the geometric Jacobian of joint j, and let i
stand upstream of j (nearer to the base of the chain).  Turning joint i carries everything
downstream of it along, so

    d c_j / d q_i = d c_i / d q_j = a_i x c_j,      d a_j / d q_i = a_i x a_j,   d a_i / d q_j = 0.

Full orientation, r = log(R* R^T): a turn w of the frame changes r by -J_r(r)^-1 w with the right
Jacobian of SO(3), J_r^-1 = 1 + [r]/2 + k [r]^2, k = 1/t^2 - cot(t/2)/(2 t), t = |r| (Chirikjian
2012; Sola, Deray and Atchuthan 2018).  With v = J_r^-T M r (which is r itself without a mask)

    df/dq_j         = -a_j . v
    d2f/dq_i dq_j   =  a_j . (dv/dr) J_r^-1 a_i  -  v . (a_i x a_j)  [i upstream of j].

One axis, r = angle(x, t) (x x t)/|x x t|: the same with dr/dw = f [t][x] + f' n n^T, n = x x t,
f = angle/sin(angle), f' = (angle cos(angle) - sin(angle))/sin(angle)^3.

A frame given relative to another is the end of a chain that starts at that other frame: its joints
are ordered from there.  A coupled joint q_c = poly(q_i) enters by the chain rule, with poly'' times
its own slope of the cost on the diagonal.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from optik.diagnosis.so3 import EYE, axis_curvature, pose_curvature
from optik.kinematics import Coupling, Frame, Kinematics
from optik.pose import Array, quaternion_from_matrix, rotation_vector
from optik.problem import Problem, Shape, Target, TargetShape
from optik.residual import axis_rotation_vector, skew
from optik.robot import Robot

_LOCAL = threading.local()
_KEPT = 32


@dataclass(frozen=True, eq=False, slots=True)
class CostAt:
    """The problem's own cost at one configuration.

    Attributes:
        cost: f, without the posture term.
        e: weighted residual, shape (m,).
        J: weighted Jacobian that a step is made with (see residual.py), shape (m, n).
        gradient: exact df/dq, shape (n,).
        hessian: exact d2f/dq2, shape (n, n); empty unless asked for.
        position_error: largest over the targets [m].
        rotation_error: largest over the targets [rad].
    """

    cost: float
    e: Array
    J: Array
    gradient: Array
    hessian: Array
    position_error: float
    rotation_error: float


@dataclass(frozen=True, eq=False)
class _Path:
    """The moving degrees of freedom that carry one target's frame, base first.

    Attributes:
        dofs: their addresses in the model, shape (k,).
        joints: the entry of q that moves each, shape (k,).
        couplings: (position in `dofs`, coupling) of the dependent ones.
        above: 1 where row i stands upstream of column j, shape (k, k).
    """

    dofs: NDArray[np.int64]
    joints: NDArray[np.int64]
    couplings: tuple[tuple[int, Coupling], ...]
    above: Array


class OwnCost(Kinematics):
    """The own cost of every problem of one shape; for one thread."""

    def __init__(self, robot: Robot, shape: Shape) -> None:
        super().__init__(robot.model, robot.joint_map)
        self.robot = robot
        self.shape = shape
        self._paths = [_path(robot, t) for t in shape.targets]
        self._targets: tuple[Target, ...] = ()
        self._base_p = np.zeros((3, robot.model.nv))
        self._base_r = np.zeros((3, robot.model.nv))

    def load(self, problem: Problem) -> None:
        """Takes a problem's numbers."""
        self._targets = problem.targets

    def at(self, q: Array, *, hessian: bool = False) -> CostAt:
        """Cost and exact derivatives at `q`, shape (n,) [rad or m]."""
        self.update(q)
        mujoco.mj_comPos(self._model, self._data)
        n = len(q)
        gradient = np.zeros(n)
        H = np.zeros((n, n)) if hessian else np.zeros((0, 0))
        e_rows: list[Array] = []
        J_rows: list[Array] = []
        position_error = rotation_error = 0.0
        for target, shape, path in zip(self._targets, self.shape.targets, self._paths, strict=True):
            p, R, Jp, Jr = self._frame(shape, path)
            e, J, g, Hd, position, rotation = _target_terms(
                target, shape, p, R, Jp, Jr, path.above if hessian else None
            )
            position_error = max(position_error, position)
            rotation_error = max(rotation_error, rotation)
            slopes, bends = self._slopes(path, q)
            Jq = np.zeros((len(e), n))
            if slopes is None:
                # Every entry of q moves at most one degree of freedom of the path.
                Jq[:, path.joints] = J
                gradient[path.joints] += g
                if hessian:
                    H[path.joints[:, None], path.joints] += Hd
            else:
                S = np.zeros((len(path.dofs), n))
                S[np.arange(len(path.dofs)), path.joints] = slopes
                Jq = J @ S
                gradient += S.T @ g
                if hessian:
                    H += S.T @ Hd @ S
                    np.add.at(H, (path.joints, path.joints), bends * g)
            e_rows.append(e)
            J_rows.append(Jq)
        e_all = e_rows[0] if len(e_rows) == 1 else np.concatenate(e_rows)
        J_all = J_rows[0] if len(J_rows) == 1 else np.concatenate(J_rows)
        return CostAt(
            0.5 * float(e_all @ e_all), e_all, J_all, gradient, H, position_error, rotation_error
        )

    def _slopes(self, path: _Path, q: Array) -> tuple[Array | None, Array]:
        """dq_dof/dq_i and its derivative for each dof; None where all are 1 and 0."""
        if not path.couplings:
            return None, EYE[0]
        slopes, bends = np.ones(len(path.dofs)), np.zeros(len(path.dofs))
        for k, c in path.couplings:
            value = float(q[c.joint])
            slopes[k] = c.slope(value)
            u = value - c.source_reference
            bends[k] = sum(
                m * (m - 1) * a * u ** (m - 2) for m, a in enumerate(c.coefficients) if m > 1
            )
        return slopes, bends

    def _frame(self, shape: TargetShape, path: _Path) -> tuple[Array, Array, Array, Array]:
        """Pose and Jacobian columns of the path, in the axes of `relative_to`."""
        p, R = self.position(shape.frame), self.rotation(shape.frame)
        mujoco.mj_jac(self._model, self._data, self._jacp, self._jacr, p, shape.frame.body)
        Jp, Jr = self._jacp[:, path.dofs], self._jacr[:, path.dofs]
        if shape.relative_to is None:
            return p, R, Jp, Jr
        base_p, base_R = self.position(shape.relative_to), self.rotation(shape.relative_to)
        body = shape.relative_to.body
        mujoco.mj_jac(self._model, self._data, self._base_p, self._base_r, base_p, body)
        Bp, Br = self._base_p[:, path.dofs], self._base_r[:, path.dofs]
        gap = p - base_p
        linear = base_R.T @ (Jp - Bp + skew(gap) @ Br)
        return base_R.T @ gap, base_R.T @ R, linear, base_R.T @ (Jr - Br)


def own_cost(problem: Problem) -> OwnCost:
    """This thread's `OwnCost` for the problem's robot and shape, loaded with its numbers."""
    cache: OrderedDict[tuple[int, Shape], OwnCost] | None = getattr(_LOCAL, "cache", None)
    if cache is None:
        cache = _LOCAL.cache = OrderedDict()
    robot = problem.robot
    key = (id(robot), problem.shape)
    cost = cache.get(key)
    if cost is None or cost.robot is not robot:
        cost = cache[key] = OwnCost(robot, problem.shape)
        if len(cache) > _KEPT:
            cache.popitem(last=False)
    cost.load(problem)
    return cost


def _path(robot: Robot, shape: TargetShape) -> _Path:
    tool = _dofs_to(robot, shape.frame)
    base = [] if shape.relative_to is None else _dofs_to(robot, shape.relative_to)
    shared = set(tool) & set(base)
    # From the base frame down to where the two branches part, then up to the tool.
    order = [d for d in reversed(base) if d not in shared] + [d for d in tool if d not in shared]
    joint_at = {int(d): i for i, d in enumerate(robot.joint_map.dof_addresses)}
    coupling_at = {c.dof_address: c for c in robot.joint_map.couplings if c.joint >= 0}
    dofs = [d for d in order if d in joint_at or d in coupling_at]
    couplings = tuple((k, coupling_at[d]) for k, d in enumerate(dofs) if d in coupling_at)
    joints = [coupling_at[d].joint if d in coupling_at else joint_at[d] for d in dofs]
    return _Path(
        np.array(dofs, dtype=np.int64),
        np.array(joints, dtype=np.int64),
        couplings,
        np.triu(np.ones((len(dofs), len(dofs))), 1),
    )


def _dofs_to(robot: Robot, frame: Frame) -> list[int]:
    """The degrees of freedom between the world and a frame, base first."""
    model, body = robot.model, frame.body
    chain: list[int] = []
    while body != 0:
        first, count = int(model.body_dofadr[body]), int(model.body_dofnum[body])
        chain = list(range(first, first + count)) + chain if count else chain
        body = int(model.body_parentid[body])
    return chain


def _target_terms(
    target: Target,
    shape: TargetShape,
    p: Array,
    R: Array,
    Jp: Array,
    Jr: Array,
    above: Array | None,
) -> tuple[Array, Array, Array, Array, float, float]:
    """Rows, gradient and Hessian of one target over the degrees of freedom of its path."""
    wp, wr = target.position_weight, target.rotation_weight
    masked = not all(shape.mask)
    ep = target.position - p
    rows_p: NDArray[np.int64] | slice = slice(None)
    if masked:
        rows_p = np.flatnonzero(shape.mask[:3])
        ep = np.where(shape.mask[:3], ep, 0.0)
    position_error = float(np.sqrt(ep @ ep))
    e, J = wp * ep[rows_p], wp * Jp[rows_p]
    g = -(wp * wp) * (ep @ Jp)
    H = np.zeros((0, 0))
    if above is not None:
        bend = Jr.T @ (skew(ep) @ Jp)  # -(e . (a_i x c_j)), true for i upstream of j or equal
        off = above * bend
        H = J.T @ J + (wp * wp) * (off + off.T + np.diag(bend.diagonal()))
    if shape.kind == "position":
        return e, J, g, H, position_error, 0.0

    if shape.kind == "pose":
        assert target.quaternion is not None
        r = rotation_vector(target.quaternion, quaternion_from_matrix(R))
        M = np.diag(np.array(shape.mask[3:], dtype=np.float64)) if masked else EYE
        rows = np.flatnonzero(shape.mask[3:]) if masked else slice(None)
        seen = r[rows]
        v, turn, inverse = pose_curvature(r, M, masked)
        Jm = (inverse @ Jr)[rows] if masked else Jr
        e, J = np.concatenate((e, wr * seen)), np.concatenate((J, wr * Jm))
        rotation_error = float(np.sqrt(seen @ seen))
    else:
        assert target.axis is not None
        x, t = R @ target.axis[0], target.axis[1]
        r = axis_rotation_vector(x, t)
        e = np.concatenate((e, wr * r))
        J = np.concatenate((J, wr * (Jr - np.outer(x, x @ Jr))))
        rotation_error = float(np.sqrt(r @ r))
        v, turn = r, axis_curvature(x, t)
    g = g - (wr * wr) * (v @ Jr)
    if above is not None:
        # Element (i, j): a_j . turn a_i, less v . (a_i x a_j) for i upstream of j.
        K = (Jr.T @ turn @ Jr).T + above * (Jr.T @ skew(v) @ Jr)
        H = H + (0.5 * wr * wr) * (K + K.T)
    return e, J, g, H, position_error, rotation_error
