"""The bundled models against the published offsets, axes and ranges, by other arithmetic.

`published/<robot>.json` holds the numbers as they were taken from the source; the forward
kinematics here are plain products of 4 by 4 matrices that share nothing with MuJoCo.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from optik import Robot
from optik.chain import chain_to
from optik.robot import bundled_robots, robot_file

PUBLISHED = Path(__file__).parent / "published"
NAMES = sorted(p.stem for p in PUBLISHED.glob("*.json"))


def homogeneous(pos, quat):
    w, x, y, z = np.array(quat, float) / np.linalg.norm(quat)
    T = np.eye(4)
    T[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    T[:3, 3] = pos
    return T


def moved(kind, axis, value):
    T, a = np.eye(4), np.array(axis, float)
    if kind == "slide":
        T[:3, 3] = a * value
        return T
    K = np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])
    T[:3, :3] = np.eye(3) + np.sin(value) * K + (1 - np.cos(value)) * K @ K
    return T


def published(name):
    return json.loads((PUBLISHED / f"{name}.json").read_text())


def frame_pose(table, values, frame):
    """4 by 4 pose of a frame; `values` maps joint names to values, others stand at zero."""
    bodies = {b["name"]: b for b in table["bodies"]}
    T = homogeneous(frame["pos"], frame["quat"])
    body = frame["body"]
    while body != "world":
        local = homogeneous(bodies[body]["pos"], bodies[body]["quat"])
        for joint in table["joints"]:
            if joint["body"] == body and joint["type"] != "free":
                value = values.get(joint["name"], 0.0)
                local = local @ moved(joint["type"], joint["axis"], value)
        T = local @ T
        body = bodies[body]["parent"]
    return T


@pytest.mark.parametrize("name", NAMES)
def test_forward_kinematics_equals_the_published_numbers(name):
    table, robot = published(name), Robot.load(name)
    rng = np.random.default_rng(20)
    for q in robot.sample(rng, 20):
        values = dict(zip(robot.joint_names, q, strict=True))
        for frame in table["frames"]:
            expected = frame_pose(table, values, frame)
            pose = robot.forward(q, frame=frame["name"])
            np.testing.assert_allclose(pose.position, expected[:3, 3], atol=1e-12, rtol=0)
            np.testing.assert_allclose(pose.rotation, expected[:3, :3], atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_joints_and_limits_equal_the_published_ones(name):
    table, robot = published(name), Robot.load(name)
    assert list(robot.joint_names) == table["arm_joints"]
    ranges = {j["name"]: j["range"] for j in table["joints"]}
    for joint, lower, upper in zip(robot.joint_names, robot.lower, robot.upper, strict=True):
        assert (lower, upper) == tuple(ranges[joint] or (-np.inf, np.inf))
    for key, qpos in table["keyframes"].items():
        np.testing.assert_array_equal(robot.model.key(key).qpos, qpos)


@pytest.mark.parametrize("name", bundled_robots())
def test_the_robot_file_says_where_it_comes_from(name):
    file = robot_file(name)
    assert file.source and file.licence and file.title


@pytest.mark.parametrize("name", bundled_robots())
def test_home_lies_inside_the_limits(name):
    robot = Robot.load(name)
    assert (robot.q_nominal >= robot.lower).all() and (robot.q_nominal <= robot.upper).all()


@pytest.mark.parametrize("name", bundled_robots())
def test_the_model_can_be_looked_at_without_meshes(name):
    model = Robot.load(name).model
    assert model.nmesh == 0 and model.ngeom > 0


def test_poe6_equals_its_product_of_exponentials():
    table, robot = published("poe6"), Robot.load("poe6")
    for q in robot.sample(np.random.default_rng(21), 50):
        T = np.eye(4)
        for twist, angle in zip(table["twists"], q, strict=True):
            omega, v = np.array(twist[:3]), np.array(twist[3:])
            step = moved("hinge", omega, angle)
            K = np.cross(np.eye(3), omega)
            left = angle * np.eye(3) + (1 - np.cos(angle)) * K + (angle - np.sin(angle)) * K @ K
            step[:3, 3] = left @ v
            T = T @ step
        T = T @ homogeneous(table["end"], [1, 0, 0, 0])
        pose = robot.forward(q)
        np.testing.assert_allclose(pose.position, T[:3, 3], atol=1e-14, rtol=0)
        np.testing.assert_allclose(pose.rotation, T[:3, :3], atol=1e-14, rtol=0)


def test_arm2_equals_its_closed_form():
    robot = Robot.load("arm2")
    for q1, q2 in robot.sample(np.random.default_rng(22), 50):
        x = 0.5 * np.cos(q1) + 0.4 * np.cos(q1 + q2)
        z = 1 + 0.5 * np.sin(q1) + 0.4 * np.sin(q1 + q2)
        np.testing.assert_allclose(robot.forward([q1, q2]).position, [x, 0, z], atol=1e-14)


@pytest.mark.parametrize("name", bundled_robots())
def test_the_folded_chain_equals_mujoco(name):
    """Every bundled robot, one added tomorrow included, by the product of its chain's constants."""
    robot = Robot.load(name)
    chain = chain_to(robot)
    for q in robot.sample(np.random.default_rng(23), 10):
        T = np.eye(4)
        for joint in chain.joints:
            fixed = np.eye(4)
            fixed[:3, :3], fixed[:3, 3] = joint.rotation, joint.offset
            u = np.polynomial.polynomial.polyval(q[joint.index] - joint.reference, joint.polynomial)
            T = T @ fixed @ moved(joint.kind, joint.axis, u)
        tool = np.eye(4)
        tool[:3, :3], tool[:3, 3] = chain.tool_rotation, chain.tool_offset
        T, pose = T @ tool, robot.forward(q)
        np.testing.assert_allclose(pose.position, T[:3, 3], atol=1e-12, rtol=0)
        np.testing.assert_allclose(pose.rotation, T[:3, :3], atol=1e-12, rtol=0)
