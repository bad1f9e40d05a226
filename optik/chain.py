"""The chain of joints from the world to a frame, folded into constants.

MuJoCo poses a body by its fixed offset, then by its joints in order; a hinge turns about an
anchor by its offset from the reference configuration, a slide shifts along its axis:

    T_world_frame = F_0 M_1 F_1 M_2 ... M_m F_m
    hinge:  M = Rot(axis, u),     slide:  M = Trans(axis u),     u = poly(q_i - ref_i)

Every constant between two moving joints (bodies, anchors, joints that are held) is multiplied into
one fixed transform F.  The symbolic and the compiled kinematics and the proofs are all built from
this one description; MuJoCo (kinematics.py) stays the reference that they are tested against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import mujoco
import numpy as np

from optik.errors import RobotError
from optik.kinematics import Frame
from optik.pose import Array, frozen, matrix_from_quaternion

if TYPE_CHECKING:
    from optik.robot import Robot


@dataclass(frozen=True, eq=False)
class ChainJoint:
    """One moving joint of a chain and the fixed transform that stands before it.

    Attributes:
        name: the joint's name in the model.
        kind: "hinge" or "slide".
        axis: unit axis, in the frame that stands before the joint, shape (3,).
        index: which entry of the robot's q moves it.
        reference: the value of that entry at which u = poly(0) [rad or m].
        polynomial: coefficients of u in (q_i - reference), constant first; (0, 1, 0, 0, 0) for a
            joint that is moved directly.
        offset: fixed translation before the joint, shape (3,) [m].
        rotation: fixed rotation before the joint, shape (3, 3).
    """

    name: str
    kind: Literal["hinge", "slide"]
    axis: Array
    index: int
    reference: float
    polynomial: tuple[float, ...]
    offset: Array
    rotation: Array


@dataclass(frozen=True, eq=False)
class Chain:
    """The moving joints between the world and a frame, and the last fixed transform.

    Attributes:
        joints: in order from the world.
        tool_offset: fixed translation after the last joint, shape (3,) [m].
        tool_rotation: fixed rotation after the last joint, shape (3, 3).
        size: length of the robot's q, of which the chain may use a part.
    """

    joints: tuple[ChainJoint, ...]
    tool_offset: Array
    tool_rotation: Array
    size: int


# MuJoCo's enums do not compare equal to the integers in its arrays.
_FREE = int(mujoco.mjtJoint.mjJNT_FREE)
_BALL = int(mujoco.mjtJoint.mjJNT_BALL)
_HINGE = int(mujoco.mjtJoint.mjJNT_HINGE)

DIRECT = (0.0, 1.0, 0.0, 0.0, 0.0)


def axis_rotation(axis: Array, angle: float) -> Array:
    """Returns the rotation matrix, shape (3, 3), about a unit axis by `angle` [rad]."""
    quaternion = np.empty(4)
    mujoco.mju_axisAngle2Quat(quaternion, axis, angle)
    return matrix_from_quaternion(quaternion)


def chain_to(robot: Robot, frame: Frame | None = None) -> Chain:
    """Folds the model's constants into the chain from the world to a frame.

    Args:
        robot: the robot; its joints move, every other joint is a constant.
        frame: any frame of the model; the robot's own if None.

    Raises:
        RobotError: if a ball or free joint stands on the way that cannot be folded.
    """
    frame = robot.frame_ref if frame is None else frame
    model, held = robot.model, robot.joint_map.qpos_held
    index_at = {int(a): i for i, a in enumerate(robot.joint_map.qpos_addresses)}
    coupling_at = {c.qpos_address: c for c in robot.joint_map.couplings}
    p, R = np.zeros(3), np.eye(3)  # the fixed transform gathered since the last moving joint
    joints: list[ChainJoint] = []
    path: list[int] = []
    body = frame.body
    while body != 0:
        path.append(body)
        body = int(model.body_parentid[body])

    for b in reversed(path):
        first, count = int(model.body_jntadr[b]), int(model.body_jntnum[b])
        if count and model.jnt_type[first] == _FREE:
            # A free joint replaces the body's own offset: the pose stands in qpos.
            address = int(model.jnt_qposadr[first])
            p = held[address : address + 3].copy()
            R = _unit(held[address + 3 : address + 7])
            continue
        mocap = int(model.body_mocapid[b])
        if mocap >= 0:
            data = mujoco.MjData(model)
            p, R = data.mocap_pos[mocap].copy(), _unit(data.mocap_quat[mocap])
            continue
        p = p + R @ model.body_pos[b]
        R = R @ matrix_from_quaternion(model.body_quat[b])
        for j in range(first, first + count):
            kind, address = int(model.jnt_type[j]), int(model.jnt_qposadr[j])
            axis, anchor = model.jnt_axis[j].copy(), model.jnt_pos[j].copy()
            if kind == _BALL:
                turned = R @ _unit(held[address : address + 4])
                p, R = p + R @ anchor - turned @ anchor, turned
                continue
            hinge = kind == _HINGE
            polynomial: tuple[float, ...] = DIRECT
            index = index_at.get(address, -1)
            reference = float(model.qpos0[address])
            coupling = coupling_at.get(address)
            if coupling is not None:
                polynomial, index = coupling.coefficients, coupling.joint
                reference = coupling.source_reference
            if index < 0:  # held: a constant
                u = float(held[address]) - float(model.qpos0[address])
                if hinge:
                    turned = R @ axis_rotation(axis, u)
                    p, R = p + R @ anchor - turned @ anchor, turned
                else:
                    p = p + R @ (axis * u)
                continue
            joints.append(
                ChainJoint(
                    name=model.joint(j).name,
                    kind="hinge" if hinge else "slide",
                    axis=frozen(axis),
                    index=index,
                    reference=reference,
                    polynomial=polynomial,
                    offset=frozen(p + R @ anchor if hinge else p),
                    rotation=frozen(R),
                )
            )
            p, R = (-anchor if hinge else np.zeros(3)), np.eye(3)

    if frame.kind == "site":
        offset, quaternion = model.site_pos[frame.id], model.site_quat[frame.id]
    elif frame.kind == "geom":
        offset, quaternion = model.geom_pos[frame.id], model.geom_quat[frame.id]
    else:
        offset, quaternion = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    return Chain(
        joints=tuple(joints),
        tool_offset=frozen(p + R @ offset),
        tool_rotation=frozen(R @ matrix_from_quaternion(quaternion)),
        size=len(robot.joint_names),
    )


def _unit(quaternion: Array) -> Array:
    norm = float(np.linalg.norm(quaternion))
    if norm < 1e-9:
        raise RobotError("a ball or free joint is held at a quaternion of norm 0; give qpos=")
    return matrix_from_quaternion(quaternion / norm)
