"""The reference kinematics: MuJoCo itself, on an MjModel and the addresses of the joints in use.

`Kinematics` owns a private MjData, so it never sees or touches a caller's, and belongs to one
thread.  MuJoCo needs `mj_kinematics` for a pose and `mj_comPos` too before a Jacobian; with
`mj_comPos` left out the Jacobian is silently that of another configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

from optik.pose import Array, Pose, quaternion_from_matrix

FrameKind = Literal["site", "body", "geom"]


@dataclass(frozen=True)
class Frame:
    """A frame fixed to a body: a site, a geom, or the body itself.

    Attributes:
        name: its name in the model.
        kind: "site", "body" or "geom".
        id: its index among the model's objects of that kind.
        body: the index of the body that carries it.
    """

    name: str
    kind: FrameKind
    id: int
    body: int


@dataclass(frozen=True)
class Coupling:
    """A dependent joint that follows another by a polynomial (a mimic joint).

        q_c - ref_c = sum_k coefficients[k] (q_i - ref_i)^k

    MuJoCo couples the offsets from the reference configuration `qpos0`, not the values.

    Attributes:
        name: the dependent joint.
        joint: index i of the independent joint among the robot's.
        qpos_address: where q_c stands in qpos.
        dof_address: where its velocity stands in qvel.
        reference: ref_c [rad or m].
        source_reference: ref_i [rad or m].
        coefficients: five polynomial coefficients, constant first.
    """

    name: str
    joint: int
    qpos_address: int
    dof_address: int
    reference: float
    source_reference: float
    coefficients: tuple[float, ...]

    def value(self, q: float) -> float:
        """Returns q_c at q_i = `q`."""
        u, total = q - self.source_reference, 0.0
        for c in reversed(self.coefficients):
            total = total * u + c
        return self.reference + total

    def slope(self, q: float) -> float:
        """Returns dq_c / dq_i at q_i = `q`."""
        u, total = q - self.source_reference, 0.0
        for k in range(len(self.coefficients) - 1, 0, -1):
            total = total * u + k * self.coefficients[k]
        return total


@dataclass(frozen=True, eq=False)
class JointMap:
    """Where the robot's joints live inside the model.

    Attributes:
        qpos_addresses: of each joint, shape (n,).
        dof_addresses: of each joint, shape (n,).
        qpos_held: the whole qpos, shape (nq,), which every joint outside the robot keeps.
        couplings: the joints that follow the robot's; a follower of a held joint is held itself.
    """

    qpos_addresses: NDArray[np.int64]
    dof_addresses: NDArray[np.int64]
    qpos_held: Array
    couplings: tuple[Coupling, ...] = ()


class Kinematics:
    """Forward kinematics and Jacobians by MuJoCo, for one thread.

    Call `update(q)` first; the other methods speak of that configuration.
    """

    def __init__(self, model: mujoco.MjModel, joints: JointMap) -> None:
        self._model = model
        self._joints = joints
        self._data = mujoco.MjData(model)
        self._data.qpos[:] = joints.qpos_held
        self._jacobian_ready = False
        self._jacp = np.zeros((3, model.nv))
        self._jacr = np.zeros((3, model.nv))

    def update(self, q: Array) -> None:
        """Poses the model at configuration `q`, shape (n,) [rad or m]."""
        qpos = self._data.qpos
        qpos[self._joints.qpos_addresses] = q
        for c in self._joints.couplings:
            qpos[c.qpos_address] = c.value(float(q[c.joint]))
        mujoco.mj_kinematics(self._model, self._data)
        self._jacobian_ready = False

    def position(self, frame: Frame) -> Array:
        """Position of `frame` in the world, shape (3,) [m]; a view, valid until the next update."""
        data = self._data
        if frame.kind == "site":
            return data.site_xpos[frame.id]
        return data.xpos[frame.id] if frame.kind == "body" else data.geom_xpos[frame.id]

    def rotation(self, frame: Frame) -> Array:
        """Rotation matrix of `frame` in the world, shape (3, 3); a view until the next update."""
        data = self._data
        if frame.kind == "site":
            return data.site_xmat[frame.id].reshape(3, 3)
        return (data.xmat if frame.kind == "body" else data.geom_xmat)[frame.id].reshape(3, 3)

    def quaternion(self, frame: Frame) -> Array:
        """Unit quaternion of `frame` in the world, shape (4,) wxyz."""
        if frame.kind == "body":
            return self._data.xquat[frame.id]
        return quaternion_from_matrix(self.rotation(frame))

    def pose(self, frame: Frame) -> Pose:
        """Pose of `frame` in the world."""
        return Pose(self.position(frame), self.quaternion(frame))

    def jacobian(self, frame: Frame) -> Array:
        """Geometric Jacobian of `frame`, world axes, shape (6, n).

        Rows 0 to 2 give the linear velocity [m per rad or m], rows 3 to 5 the angular velocity
        [rad per rad or m].  A coupled joint's column is added to that of the joint it follows.
        """
        if not self._jacobian_ready:
            mujoco.mj_comPos(self._model, self._data)
            self._jacobian_ready = True
        joints, jacp, jacr = self._joints, self._jacp, self._jacr
        mujoco.mj_jac(self._model, self._data, jacp, jacr, self.position(frame), frame.body)
        J = np.empty((6, len(joints.dof_addresses)))
        J[:3] = jacp[:, joints.dof_addresses]
        J[3:] = jacr[:, joints.dof_addresses]
        for c in joints.couplings:
            slope = c.slope(float(self._data.qpos[joints.qpos_addresses[c.joint]]))
            J[:3, c.joint] += slope * jacp[:, c.dof_address]
            J[3:, c.joint] += slope * jacr[:, c.dof_address]
        return J
