"""Files as users have them: without meshes, without masses, with every link kept."""

import mujoco
import numpy as np
import pytest

from optik import Robot
from optik.errors import RobotError

URDF = """<robot name="bare">
  <link name="base_link"><visual><geometry><mesh filename="package://arm/base.stl"/></geometry>
  </visual></link>
  <link name="upper"><visual><geometry><mesh filename="upper.dae"/></geometry></visual></link>
  <link name="fore"/><link name="finger"/><link name="tool0"/>
  <joint name="j1" type="revolute"><parent link="base_link"/><child link="upper"/>
    <origin xyz="0 0 0.3" rpy="0.1 0.2 0.3"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="2" effort="1" velocity="1"/></joint>
  <joint name="j2" type="continuous"><parent link="upper"/><child link="fore"/>
    <origin xyz="0 0 0.4"/><axis xyz="0 1 0"/></joint>
  <joint name="j3" type="prismatic"><parent link="fore"/><child link="finger"/>
    <origin xyz="0 0 0.2"/><axis xyz="0 0 1"/>
    <limit lower="0" upper="0.05" effort="1" velocity="1"/>
    <mimic joint="j1" multiplier="0.02" offset="0.01"/></joint>
  <joint name="fixed" type="fixed"><parent link="finger"/><child link="tool0"/>
    <origin xyz="0 0 0.1" rpy="0 1.5707963267948966 0"/></joint>
</robot>"""

MJCF = """<mujoco model="bare">
  <asset>
    <mesh name="gone" file="gone.stl"/>
    <texture name="skin" type="2d" file="gone.png"/><material name="skin" texture="skin"/>
    <hfield name="hills" file="gone.bin" size="1 1 1 1"/>
  </asset>
  <worldbody>
    <geom type="hfield" hfield="hills"/>
    <body name="link"><joint name="j" axis="0 0 1" range="-90 90"/>
      <geom type="mesh" mesh="gone" material="skin"/><geom name="kept" size="0.1" material="skin"/>
      <site name="tip" pos="1 0 0" material="skin"/></body>
  </worldbody>
</mujoco>"""


def test_a_urdf_without_meshes_and_masses(tmp_path):
    path = tmp_path / "bare.urdf"
    path.write_text(URDF)
    robot = Robot.load(path, frame="tool0")
    assert robot.name == "bare" and robot.joint_names == ("j1", "j2")
    # j3 = 0.01 + 0.02 j1 in [0, 0.05] leaves j1 in [-0.5, 2]
    np.testing.assert_allclose(robot.lower, [-0.5, -np.inf], atol=1e-12)
    np.testing.assert_allclose(robot.upper, [2, np.inf], atol=1e-12)
    assert robot.qpos([1.0, 0.0])[2] == pytest.approx(0.03)
    pose = robot.forward([0.0, 0.0])
    axis = robot.forward([0.0, 0.0], frame="upper").rotation[:, 2]
    expected = np.array([0, 0, 0.3]) + axis * (0.4 + 0.2 + 0.01 + 0.1)
    np.testing.assert_allclose(pose.position, expected, atol=1e-12)
    for link in ("base_link", "upper", "fore", "finger"):
        assert robot.frame_named(link).kind == "body"


def test_an_mjcf_whose_files_are_missing(tmp_path):
    path = tmp_path / "bare.xml"
    path.write_text(MJCF)
    robot = Robot.load(str(path), frame="tip")
    np.testing.assert_allclose(robot.forward([np.pi / 2]).position, [0, 1, 0], atol=1e-15)
    assert robot.frame_named("kept").kind == "geom"
    with pytest.raises(RobotError, match="kept"):
        Robot.load(path)


def test_the_first_error_is_the_one_that_is_told(tmp_path):
    path = tmp_path / "broken.xml"
    path.write_text(MJCF.replace('range="-90 90"', 'range="-90"'))
    with pytest.raises(RobotError, match=r"broken\.xml does not compile: "):
        Robot.load(path, frame="tip")


def test_a_spec_that_does_not_compile():
    spec = mujoco.MjSpec()
    spec.worldbody.add_body(name="ghost").add_joint(name="j")
    with pytest.raises(RobotError, match=r"the MjSpec does not compile: .*mass"):
        Robot.load(spec, frame="ghost")


def test_a_spec_with_its_own_assets_and_unchanged_afterwards():
    corners = "0 0 0  1 0 0  0 1 0  0 0 1"
    spec = mujoco.MjSpec.from_string(
        f"""<mujoco><asset><mesh name="m" vertex="{corners}"/></asset><worldbody>
        <body><joint name="j"/><geom type="mesh" mesh="m"/><site name="tip" pos="1 0 0"/></body>
        </worldbody></mujoco>"""
    )
    before = spec.to_xml()
    robot = Robot.load(spec, frame="tip")
    assert robot.model.nmesh == 1
    assert spec.to_xml() == before
    spec.body("world").add_site(name="later")
    assert spec.compile().nsite == 2 and robot.model.nsite == 1
