"""A robot's chain written as URDF, for other people's solvers.

Only what kinematics needs: one link a joint, a fixed link `tool` at the controlled frame, limits at
full precision.  The text describes the same chain that MuJoCo's kinematics are tested against.
"""

from __future__ import annotations

import numpy as np

from optik.chain import DIRECT, chain_to
from optik.errors import SolverError
from optik.pose import Array
from optik.robot import Robot

BASE, TIP = "base", "tool"


def robot_urdf(robot: Robot) -> str:
    """Writes the chain from the world to the robot's frame.

    Raises:
        SolverError: for a robot that URDF's joints cannot say exactly: coupled or unlimited
            joints, a reference configuration other than 0, joints off the chain.
    """
    chain = chain_to(robot)
    indices = [j.index for j in chain.joints]
    if sorted(indices) != list(range(robot.n)) or any(j.polynomial != DIRECT for j in chain.joints):
        raise SolverError(
            f"peers take robots whose joints are all on the chain to {robot.frame!r} and move "
            f"independently; {robot.name} is not one"
        )
    if any(j.reference != 0.0 for j in chain.joints):
        raise SolverError(f"peers take robots whose joints read 0 at rest; {robot.name} is not one")
    if not (np.isfinite(robot.lower).all() and np.isfinite(robot.upper).all()):
        raise SolverError(
            f"peers take robots whose joints are all limited; {robot.name} has unlimited ones"
        )
    parts = [f'<robot name="{robot.name}">', _link(BASE)]
    parent = BASE
    for joint in chain.joints:
        i = joint.index
        child = f"link_{robot.joint_names[i]}"
        kind = "revolute" if joint.kind == "hinge" else "prismatic"
        parts += [
            _link(child),
            f'<joint name="{robot.joint_names[i]}" type="{kind}">',
            f'<parent link="{parent}"/><child link="{child}"/>',
            _origin(joint.offset, joint.rotation),
            f'<axis xyz="{_numbers(joint.axis)}"/>',
            f'<limit lower="{float(robot.lower[i])!r}" upper="{float(robot.upper[i])!r}"'
            ' effort="1000" velocity="1000"/>',
            "</joint>",
        ]
        parent = child
    parts += [
        _link(TIP),
        '<joint name="to_tool" type="fixed">',
        f'<parent link="{parent}"/><child link="{TIP}"/>',
        _origin(chain.tool_offset, chain.tool_rotation),
        "</joint>",
        "</robot>",
    ]
    return "\n".join(parts) + "\n"


def chain_order(robot: Robot) -> list[int]:
    """Which entry of q each joint of the URDF moves, from the base."""
    return [j.index for j in chain_to(robot).joints]


def _link(name: str) -> str:
    # Some readers refuse a link without mass.
    return (
        f'<link name="{name}"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def _origin(offset: Array, rotation: Array) -> str:
    return f'<origin xyz="{_numbers(offset)}" rpy="{_numbers(roll_pitch_yaw(rotation))}"/>'


def _numbers(values: Array) -> str:
    return " ".join(repr(float(v)) for v in values)


def roll_pitch_yaw(R: Array) -> Array:
    """Angles (r, p, y), shape (3,) [rad], with R = Rz(y) Ry(p) Rx(r), R of shape (3, 3)."""
    flat = float(np.hypot(R[0, 0], R[1, 0]))
    pitch = np.arctan2(-R[2, 0], flat)
    if flat > 1e-9:
        return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])
    # Straight up or down: roll and yaw turn about the same axis; yaw is put to 0.
    return np.array([np.arctan2(-R[1, 2], R[1, 1]), pitch, 0.0])
