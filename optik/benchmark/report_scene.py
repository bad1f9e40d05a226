"""The robot as something that can be drawn: shapes fixed to bodies, and the bodies' poses.

The page draws capsules, spheres and convex polyhedra.  Every shape is written down once, in the
frame of its body; each configuration of a path then costs seven numbers a moving body, taken from
MuJoCo, so that what the page shows is what the judge sees.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from optik.kinematics import Frame
from optik.pose import Array, matrix_from_quaternion, quaternion_from_matrix
from optik.robot import Robot

# MuJoCo's enums do not compare equal to the integers in its arrays.
_PLANE, _HFIELD = int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD)
_SPHERE, _CAPSULE = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)
_ELLIPSOID, _CYLINDER = int(mujoco.mjtGeom.mjGEOM_ELLIPSOID), int(mujoco.mjtGeom.mjGEOM_CYLINDER)
# By MuJoCo's convention the groups from 3 on hold collision shapes, hidden in its viewer.
_FIRST_HIDDEN_GROUP = 3
_CYLINDER_SIDES = 12
WORLD = -1


@dataclass(frozen=True, eq=False)
class Scene:
    """A robot's shapes and the bodies that carry them.

    Attributes:
        robot: the robot.
        bodies: MuJoCo's indices of the bodies that the robot's joints move, in drawing order.
        shapes: one dictionary a shape, in the frame of `bodies[shape["body"]]`, or in the world
            where "body" is -1.
        joints: one dictionary a joint: name, unit, limits (None where unlimited), body, anchor and
            axis in that body's frame.
        tool: the controlled frame in its body: body, position (3,), quaternion (4,) wxyz.
    """

    robot: Robot
    bodies: tuple[int, ...]
    shapes: tuple[dict[str, Any], ...]
    joints: tuple[dict[str, Any], ...]
    tool: dict[str, Any]

    def frames(self, path: Array) -> NDArray[np.float32]:
        """Poses of the moving bodies along a path.

        Args:
            path: configurations, shape (k, n) [rad or m].

        Returns:
            Position [m] and unit quaternion wxyz of every body, shape (k, bodies, 7).
        """
        kinematics = self.robot.kinematics()
        out = np.empty((len(path), len(self.bodies), 7), dtype=np.float32)
        frames = [Frame(name="", kind="body", id=b, body=b) for b in self.bodies]
        for row, q in zip(out, path, strict=True):
            kinematics.update(q)
            for body, frame in zip(row, frames, strict=True):
                body[:3] = kinematics.position(frame)
                body[3:] = kinematics.quaternion(frame)
        return out

    def tool_positions(self, path: Array) -> NDArray[np.float32]:
        """Positions of the controlled frame along a path (k, n), shape (k, 3) [m]."""
        return np.array([self.robot.forward(q).position for q in path], dtype=np.float32).reshape(
            -1, 3
        )

    def as_dict(self) -> dict[str, Any]:
        """What the page needs, as plain lists."""
        return {
            "name": self.robot.name,
            "bodies": len(self.bodies),
            "shapes": list(self.shapes),
            "joints": list(self.joints),
            "tool": self.tool,
        }


def scene_of(robot: Robot) -> Scene:
    """Describes a robot for drawing."""
    model = robot.model
    moving = _moving_bodies(robot)
    place = {b: i for i, b in enumerate(moving)}
    data = mujoco.MjData(model)
    data.qpos[:] = robot.joint_map.qpos_held
    mujoco.mj_kinematics(model, data)
    geoms = [
        g
        for g in range(model.ngeom)
        if model.geom_type[g] not in (_PLANE, _HFIELD) and model.geom_rgba[g, 3] > 0
    ]
    shown = [g for g in geoms if model.geom_group[g] < _FIRST_HIDDEN_GROUP] or geoms
    shapes = []
    for g in shown:
        body = int(model.geom_bodyid[g])
        if body in place:
            p, R = model.geom_pos[g], matrix_from_quaternion(model.geom_quat[g])
        else:
            p, R = data.geom_xpos[g], data.geom_xmat[g].reshape(3, 3)
        shape = _shape(model, g, np.array(p), np.array(R))
        shape["body"] = place.get(body, WORLD)
        shapes.append(shape)
    tones = [s["tone"] for s in shapes]
    low, spread = min(tones, default=0.0), max(tones, default=0.0) - min(tones, default=0.0)
    for shape in shapes:  # the whole scale of greys, or the light end where all are alike
        shape["tone"] = round((shape["tone"] - low) / spread, 3) if spread > 0.05 else 0.8
    joints = []
    for i, name in enumerate(robot.joint_names):
        j = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
        joints.append(
            {
                "name": name,
                "unit": "rad" if robot.joint_kinds[i] == "hinge" else "m",
                "lower": _limit(robot.lower[i]),
                "upper": _limit(robot.upper[i]),
                "body": place[int(model.jnt_bodyid[j])],
                "anchor": _rounded(model.jnt_pos[j]),
                "axis": _rounded(model.jnt_axis[j]),
            }
        )
    return Scene(robot, tuple(moving), tuple(shapes), tuple(joints), _tool(robot, place, data))


def packed(values: NDArray[Any]) -> str:
    """Little-endian float32 numbers as base64, row by row."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def _moving_bodies(robot: Robot) -> list[int]:
    model = robot.model
    addresses = {int(a) for a in robot.joint_map.qpos_addresses}
    addresses |= {c.qpos_address for c in robot.joint_map.couplings}
    own = {int(model.jnt_bodyid[j]) for j in range(model.njnt) if model.jnt_qposadr[j] in addresses}
    moving: list[int] = []
    # A parent always has a smaller index than its children.
    for body in range(1, model.nbody):
        if body in own or int(model.body_parentid[body]) in moving:
            moving.append(body)
    return moving


def _tool(robot: Robot, place: dict[int, int], data: mujoco.MjData) -> dict[str, Any]:
    model, frame = robot.model, robot.frame_ref
    if frame.body not in place:
        pose = robot.forward(robot.q_nominal)
        return {
            "body": WORLD,
            "position": _rounded(pose.position),
            "quaternion": _rounded(pose.quaternion),
        }
    p, quaternion = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    if frame.kind == "site":
        p, quaternion = model.site_pos[frame.id], model.site_quat[frame.id]
    elif frame.kind == "geom":
        p, quaternion = model.geom_pos[frame.id], model.geom_quat[frame.id]
    return {
        "body": place[frame.body],
        "position": _rounded(p),
        "quaternion": _rounded(quaternion_from_matrix(matrix_from_quaternion(quaternion))),
    }


def _shape(model: mujoco.MjModel, g: int, p: Array, R: Array) -> dict[str, Any]:
    kind, size = int(model.geom_type[g]), model.geom_size[g]
    tone = float(model.geom_rgba[g, :3] @ [0.2126, 0.7152, 0.0722])  # relative luminance
    if kind in (_SPHERE, _CAPSULE, _ELLIPSOID):
        radius, half = float(size[0]), np.zeros(3)
        if kind == _CAPSULE:
            half = R[:, 2] * size[1]
        elif kind == _ELLIPSOID:
            # Drawn as the capsule along its longest axis with the mean of the other two radii.
            longest = int(np.argmax(size))
            radius = float((size.sum() - size[longest]) / 2)
            half = R[:, longest] * (size[longest] - radius)
        return {
            "kind": "capsule",
            "from": _rounded(p - half),
            "to": _rounded(p + half),
            "radius": round(radius, 5),
            "tone": tone,
        }
    if kind == _CYLINDER:
        angles = np.linspace(0, 2 * np.pi, _CYLINDER_SIDES, endpoint=False)
        ring = np.stack((np.cos(angles), np.sin(angles)), axis=1) * size[0]
        points = np.concatenate(
            [np.column_stack((ring, np.full(len(ring), z))) for z in (-size[1], size[1])]
        )
        n = _CYLINDER_SIDES
        faces = [list(range(n))[::-1], list(range(n, 2 * n))]
        faces += [[i, (i + 1) % n, n + (i + 1) % n, n + i] for i in range(n)]
    else:  # a box, or the box around a mesh
        centre, half = model.geom_aabb[g, :3], model.geom_aabb[g, 3:]
        corners = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)])
        points = centre + corners * half
        faces = [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]]
    return {
        "kind": "hull",
        "points": [_rounded(p + R @ point) for point in points],
        "faces": faces,
        "tone": tone,
    }


def _limit(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _rounded(vector: Array) -> list[float]:
    return [round(float(v), 6) + 0.0 for v in vector]
