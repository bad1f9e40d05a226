"""The drawing of a robot against MuJoCo."""

from __future__ import annotations

import base64

import mujoco
import numpy as np
import pytest

import optik
from optik.benchmark.report_scene import WORLD, packed, scene_of
from optik.pose import matrix_from_quaternion

MODEL = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1"/>
    <geom name="post" type="cylinder" size=".05 .2" pos="0 0 .2"/>
    <body name="a" pos="0 0 .4" quat=".9238795 .3826834 0 0">
      <joint name="h" axis="0 1 0" range="-1 1" limited="true"/>
      <geom name="arm" type="capsule" fromto="0 0 0 .2 .1 .3" size=".03" rgba=".9 .9 .9 1"/>
      <geom name="hidden" type="sphere" size=".3" group="3"/>
      <geom name="ghost" type="sphere" size=".3" rgba="1 1 1 0"/>
      <body name="b" pos=".2 .1 .3">
        <joint name="s" type="slide" axis="0 0 1" range="0 .2" limited="true"/>
        <geom name="box" type="box" size=".02 .03 .04" pos="0 0 .05" euler=".2 .3 .4" rgba=".1 .1 .1 1"/>
        <geom name="egg" type="ellipsoid" size=".02 .02 .06"/>
        <body name="tip"><site name="tool" pos="0 .01 .1" quat=".7071068 0 .7071068 0"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""  # noqa: E501


@pytest.fixture(scope="module")
def robot() -> optik.Robot:
    return optik.Robot.load(mujoco.MjModel.from_xml_string(MODEL), frame="tool")


@pytest.mark.parametrize("name", ["arm7", "panda", "ur5e", "so101", "gen3", "g1", "planar2_2_1"])
def test_frames_are_mujocos_body_poses(name: str) -> None:
    robot = optik.Robot.load(name)
    scene = scene_of(robot)
    path = robot.sample(np.random.default_rng(1), 3)
    frames = scene.frames(path)
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.joint_map.qpos_held
    for q, row in zip(path, frames, strict=True):
        data.qpos[robot.joint_map.qpos_addresses] = q
        for c in robot.joint_map.couplings:
            data.qpos[c.qpos_address] = c.value(float(q[c.joint]))
        mujoco.mj_kinematics(robot.model, data)
        np.testing.assert_allclose(row[:, :3], data.xpos[list(scene.bodies)], atol=1e-6)
        np.testing.assert_allclose(row[:, 3:], data.xquat[list(scene.bodies)], atol=1e-6)


def test_the_tool_stands_where_forward_kinematics_says(robot: optik.Robot) -> None:
    scene = scene_of(robot)
    q = np.array([0.4, 0.1])
    frame = scene.frames(q[None])[0, scene.tool["body"]].astype(float)
    R = matrix_from_quaternion(frame[3:])
    pose = robot.forward(q)
    np.testing.assert_allclose(frame[:3] + R @ scene.tool["position"], pose.position, atol=1e-6)
    tool = R @ matrix_from_quaternion(np.array(scene.tool["quaternion"]))
    np.testing.assert_allclose(tool, pose.rotation, atol=1e-6)


def test_shapes_are_what_mujoco_shows(robot: optik.Robot) -> None:
    shapes = {s["kind"] + str(s["body"]): s for s in scene_of(robot).shapes}
    # The plane, the collision group and what is transparent are left out; the post is in the world.
    assert sorted(shapes) == ["capsule0", "capsule1", f"hull{WORLD}", "hull1"]
    post = np.array(shapes[f"hull{WORLD}"]["points"])
    np.testing.assert_allclose(post.min(axis=0), [-0.05, -0.05, 0], atol=1e-3)
    np.testing.assert_allclose(post.max(axis=0), [0.05, 0.05, 0.4], atol=1e-3)
    arm = shapes["capsule0"]
    ends = sorted([arm["from"], arm["to"]])
    np.testing.assert_allclose(ends, [[0, 0, 0], [0.2, 0.1, 0.3]], atol=1e-6)
    assert arm["radius"] == 0.03
    egg = shapes["capsule1"]
    assert np.linalg.norm(np.subtract(egg["to"], egg["from"])) / 2 + egg["radius"] == pytest.approx(
        0.06
    )


def test_a_box_is_a_closed_surface_of_the_right_size(robot: optik.Robot) -> None:
    box = next(s for s in scene_of(robot).shapes if s["kind"] == "hull" and s["body"] == 1)
    points = np.array(box["points"])
    edges = {}
    area = 0.0
    for face in box["faces"]:
        for a, b in zip(face, [*face[1:], face[0]], strict=True):
            edges[frozenset((a, b))] = edges.get(frozenset((a, b)), 0) + 1
        a, b, c, d = points[face]
        area += np.linalg.norm(np.cross(c - a, d - b)) / 2
    assert set(edges.values()) == {2} and len(edges) == 12
    assert area == pytest.approx(8 * (0.02 * 0.03 + 0.03 * 0.04 + 0.02 * 0.04), rel=1e-4)


def test_joints_tell_their_limits_and_where_they_turn(robot: optik.Robot) -> None:
    hinge, slide = scene_of(robot).joints
    assert (hinge["name"], hinge["unit"], hinge["lower"], hinge["upper"]) == ("h", "rad", -1, 1)
    assert (slide["unit"], slide["upper"]) == ("m", 0.2)
    unlimited = scene_of(optik.Robot.load("gen3")).joints[0]
    assert unlimited["lower"] is None and unlimited["upper"] is None


def test_greys_span_the_whole_scale(robot: optik.Robot) -> None:
    tones = [s["tone"] for s in scene_of(robot).shapes]
    assert min(tones) == 0 and max(tones) == 1


def test_a_mesh_is_drawn_as_the_box_around_it() -> None:
    corners = "0 0 0  .1 0 0  0 .2 0  0 0 .3"
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><asset><mesh name="m" vertex="{corners}"/></asset><worldbody>'
        '<body name="b"><joint name="j"/><geom type="mesh" mesh="m"/>'
        '<site name="t" pos="0 0 .3"/></body></worldbody></mujoco>'
    )
    scene = scene_of(optik.Robot.load(model, frame="t"))
    points = np.array(scene.shapes[0]["points"])
    # In the mesh's own axes the box is wider than the mesh, never smaller.
    assert (np.ptp(points, axis=0) >= [0.0999, 0.1999, 0.2999]).all()
    assert (np.ptp(points, axis=0) < 0.5).all()


def test_numbers_are_packed_as_little_endian_float32() -> None:
    values = np.array([[1.0, -2.5], [0.1, 3e-5]])
    back = np.frombuffer(base64.b64decode(packed(values)), "<f4").reshape(2, 2)
    np.testing.assert_allclose(back, values, rtol=1e-7)
