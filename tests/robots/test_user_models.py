"""A user's own model: joints by name, the rest held, addresses kept apart (F29, F34, F37)."""

import pickle

import mujoco
import numpy as np
import pytest

import optik
from optik import Robot, Target
from optik.chain import chain_to
from optik.errors import OptikError, RobotError, UnknownNameError
from optik.pose import matrix_from_quaternion

# A free box stands first, so that qpos addresses run ahead of dof addresses by one; the joints of
# the arms a and b interleave in the tree order because b1 is mounted between a1 and a2.
TWO_ARMS = """
<mujoco model="cell">
  <compiler angle="radian"/>
  <worldbody>
    <body name="box" pos="0 0 1"><freejoint name="box"/><geom size="0.1"/></body>
    <body pos="0 0 0.1">
      <joint name="a1" axis="0 0 1" range="-2 2"/><geom size="0.05"/>
      <body pos="0.5 0.2 0">
        <joint name="b1" axis="0 0 1" range="-2 2"/><geom size="0.05"/>
        <body pos="0.3 0 0">
          <joint name="b2" axis="0 1 0" range="-2 2"/><geom size="0.05"/>
          <body pos="0.3 0 0">
            <joint name="b3" type="slide" axis="1 0 0" range="0 0.3"/><geom size="0.05"/>
            <site name="b_tip" pos="0.2 0 0"/>
          </body>
        </body>
      </body>
      <body pos="0.4 -0.2 0">
        <joint name="wrist" type="ball"/><geom size="0.05"/>
        <body pos="0.3 0 0">
          <joint name="a2" axis="0 1 0" range="-2 2"/><geom name="a_shape" size="0.05"/>
          <site name="a_tip" pos="0.2 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <keyframe>
    <key name="turned" qpos="1 2 3 0 0 0 1  0.4  0.1 0.2 0.1  0.5 0.5 0.5 0.5  -0.3"/>
  </keyframe>
</mujoco>
"""


@pytest.fixture(scope="module")
def cell():
    return mujoco.MjModel.from_xml_string(TWO_ARMS)


def mujoco_pose(model, qpos, site):
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    return data.site(site).xpos.copy(), data.site(site).xmat.reshape(3, 3).copy()


def differences(robot, q, frame=None, step=1e-6):
    """Jacobian by central differences on the manifold: rotation columns by the log map."""
    J = np.empty((6, robot.n))
    for i in range(robot.n):
        d = np.zeros(robot.n)
        d[i] = step
        plus, minus = robot.forward(q + d, frame=frame), robot.forward(q - d, frame=frame)
        J[:3, i] = (plus.position - minus.position) / (2 * step)
        R = plus.rotation @ minus.rotation.T
        J[3:, i] = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4 * step)
    return J


def test_joints_in_the_users_order_and_everything_else_untouched(cell):
    robot = Robot.load(cell, frame="b_tip", joints=["b3", "b1", "b2"], q_nominal="turned")
    assert robot.joint_names == ("b3", "b1", "b2")
    assert robot.joint_kinds == ("slide", "hinge", "hinge")
    assert robot.name == "cell"
    np.testing.assert_array_equal(robot.q_nominal, [0.1, 0.1, 0.2])
    key = cell.key("turned").qpos
    q = np.array([0.05, -0.7, 0.3])
    qpos = robot.qpos(q)
    expected = key.copy()
    expected[[10, 8, 9]] = q  # box 0-6, a1 7, b1 8, b2 9, b3 10, wrist 11-14, a2 15
    np.testing.assert_array_equal(qpos, expected)
    position, rotation = mujoco_pose(cell, expected, "b_tip")
    np.testing.assert_array_equal(robot.forward(q).position, position)
    np.testing.assert_allclose(robot.forward(q).rotation, rotation, atol=1e-15)
    np.testing.assert_allclose(robot.jacobian(q), differences(robot, q), atol=1e-8)


def test_one_order_is_a_permutation_of_another(cell):
    a = Robot.load(cell, frame="b_tip", joints=["b1", "b2", "b3"], q_nominal="turned")
    b = Robot.load(cell, frame="b_tip", joints=["b3", "b2", "b1"], q_nominal="turned")
    target = Target(a.forward([0.5, -0.4, 0.2]).position)
    first, second = (optik.solve(optik.Problem(r, target), solver="box-qp") for r in (a, b))
    assert first.success and second.success
    np.testing.assert_allclose(first.q, second.q[::-1], atol=1e-9)


def test_two_robots_in_one_scene_do_not_touch_each_other(cell):
    a = Robot.load(cell, frame="a_tip", joints=["a2"], q_nominal="turned")
    b = Robot.load(cell, frame="b_tip", joints=["b1", "b2", "b3"], q_nominal="turned")
    before = b.forward(b.q_nominal).position
    a.forward([1.0])
    np.testing.assert_array_equal(b.forward(b.q_nominal).position, before)
    untouched = a.qpos([1.0])
    untouched[15] = b.joint_map.qpos_held[15]
    np.testing.assert_array_equal(untouched, b.qpos(b.q_nominal))


def test_default_joints_are_those_on_the_way(cell):
    assert Robot.load(cell, frame="b_tip").joint_names == ("a1", "b1", "b2", "b3")
    # the ball on the way is held
    assert Robot.load(cell, frame="a_tip").joint_names == ("a1", "a2")


def test_ball_and_free_joints_are_held_where_the_keyframe_or_qpos_puts_them(cell):
    upright = Robot.load(cell, frame="a_tip", joints=["a2"])
    turned = Robot.load(cell, frame="a_tip", joints=["a2"], q_nominal="turned")
    qpos = np.array(cell.key("turned").qpos)
    by_qpos = Robot.load(cell, frame="a_tip", joints=["a2"], qpos=qpos)
    q = [0.7]
    assert np.abs(upright.forward(q).position - turned.forward(q).position).max() > 0.05
    np.testing.assert_array_equal(by_qpos.forward(q).position, turned.forward(q).position)
    qpos[15] = q[0]
    np.testing.assert_array_equal(turned.forward(q).position, mujoco_pose(cell, qpos, "a_tip")[0])
    np.testing.assert_allclose(turned.jacobian(q), differences(turned, np.array(q)), atol=1e-8)
    on_box = Robot.load(cell, frame="b_tip", q_nominal="turned")
    box = on_box.forward(on_box.q_nominal, frame="box")
    np.testing.assert_array_equal(box.position, [1, 2, 3])


def test_moving_a_ball_or_free_joint_is_refused_by_name(cell):
    for joint in ("wrist", "box"):
        with pytest.raises(RobotError, match=rf"'{joint}' is a ball or free joint.*leave it out"):
            Robot.load(cell, frame="a_tip", joints=["a2", joint])


def test_frames_are_sites_bodies_or_geoms(cell):
    robot = Robot.load(cell, frame="a_shape", q_nominal="turned")
    assert robot.frame_ref.kind == "geom"
    body = robot.frame_named("box")
    assert body.kind == "body"
    assert robot.frame_named("site:a_tip").kind == "site"
    with pytest.raises(UnknownNameError, match="'a_tip'"):
        Robot.load(cell, frame="a_top")
    with pytest.raises(UnknownNameError):
        robot.frame_named("geom:a_tip")
    with pytest.raises(RobotError, match="frame="):
        Robot.load(cell)


def test_a_shared_name_means_the_site_and_a_prefix_picks():
    xml = """<mujoco><worldbody><body name="tool" pos="0 0 1"><joint name="j"/><geom size="0.1"
      name="tool" pos="0 0.2 0"/><site name="tool" pos="0.3 0 0"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    wanted = {"tool": "site", "body:tool": "body", "geom:tool": "geom"}
    for name, kind in wanted.items():
        robot = Robot.load(model, frame=name)
        assert (robot.frame_ref.kind, robot.frame) == (kind, "tool")
    np.testing.assert_array_equal(robot.forward([0.0]).position, [0, 0.2, 1])


def test_attached_models_keep_their_prefixed_names():
    arm = mujoco.MjSpec.from_string(
        """<mujoco><worldbody><body name="link"><joint name="j" range="-90 90"/>
        <geom size="0.1"/><site name="tip" pos="1 0 0"/></body></worldbody></mujoco>"""
    )
    scene = mujoco.MjSpec()
    for side in ("left", "right"):
        mount = scene.worldbody.add_frame(pos=[0, 1 if side == "left" else -1, 0])
        scene.attach(arm.copy(), frame=mount, prefix=f"{side}:")
    robot = Robot.load(scene, frame="right:tip", joints=["right:j"])
    np.testing.assert_allclose(robot.forward([0.0]).position, [1, -1, 0], atol=1e-15)
    assert robot.upper[0] == pytest.approx(np.pi / 2)
    assert Robot.load(scene, frame="left:tip").joint_names == ("left:j",)


def test_later_changes_of_the_users_model_change_nothing(cell):
    model = mujoco.MjModel.from_xml_string(TWO_ARMS)
    robot = Robot.load(model, frame="b_tip")
    q = np.array(robot.q_nominal) + 0.1
    before = robot.forward(q).position
    model.body_pos[:] += 1.0
    model.jnt_range[:] = 0.0
    np.testing.assert_array_equal(robot.forward(q).position, before)
    np.testing.assert_array_equal(robot.upper, [2, 2, 2, 0.3])


def test_dirty_data_elsewhere_does_not_matter(cell):
    """F37: MjData that was stepped, or written without a forward pass, is never looked at."""
    robot = Robot.load(cell, frame="b_tip", q_nominal="turned")
    q = np.array([0.3, -0.2, 0.5, 0.1])
    clean = robot.jacobian(q)
    data = mujoco.MjData(cell)
    data.qvel[:] = 3.0
    for _ in range(5):
        mujoco.mj_step(cell, data)
    kept = data.qpos.copy()
    data.qpos[7] = 1.0  # not forwarded
    robot.forward(-q)  # leaves the private data at another configuration
    np.testing.assert_array_equal(robot.jacobian(q), clean)
    np.testing.assert_allclose(clean, differences(robot, q), atol=1e-8)
    assert data.qpos[7] == 1.0 and (np.delete(data.qpos, 7) == np.delete(kept, 7)).all()


def test_anchors_and_references_are_honoured():
    xml = """
    <mujoco><compiler angle="radian"/><worldbody>
      <body pos="0.1 0 0.2" quat="1 1 0 0">
        <joint name="h" axis="1 2 3" pos="0.1 -0.2 0.3" ref="0.4" range="-2 2"/><geom size="0.1"/>
        <body pos="0.2 0.1 0">
          <joint name="s" type="slide" axis="0 1 1" ref="0.3" pos="1 1 1" range="-1 1"/>
          <joint name="t" axis="0 0 1" pos="0 0.1 0" ref="-0.5"/><geom size="0.1"/>
          <site name="tip" pos="0.1 0.2 0.3" quat="1 2 3 4"/>
        </body>
      </body>
    </worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    robot = Robot.load(model, frame="tip")
    np.testing.assert_array_equal(robot.q_nominal, [0.4, 0.3, -0.5])
    rng = np.random.default_rng(5)
    for q in robot.sample(rng, 10):
        position, rotation = mujoco_pose(model, q, "tip")
        np.testing.assert_allclose(robot.forward(q).position, position, atol=1e-15)
        np.testing.assert_allclose(robot.forward(q).rotation, rotation, atol=1e-15)
        np.testing.assert_allclose(robot.jacobian(q), differences(robot, q), atol=1e-8)
    # the chain that the fast kinematics are built from says the same
    chain = chain_to(robot)
    assert [j.kind for j in chain.joints] == ["hinge", "slide", "hinge"]


@pytest.mark.parametrize("frame", ["site", "body", "geom"])
def test_base_mounted_anywhere(frame):
    """F34: goals given relative to the base are solved the same wherever the base stands."""
    arm = """<body name="base" pos="{pos}" quat="{quat}">
      <geom size="0.05" mass="1"/><site name="mount"/><geom name="mark" size="0.01"/>
      <body pos="0 0 0.3"><joint name="j1" axis="0 0 1" range="-2 2"/><geom size="0.05"/>
      <body pos="0 0 0.2"><joint name="j2" axis="0 1 0" range="-2 2"/><geom size="0.05"/>
      <body pos="0 0 0.4"><joint name="j3" axis="0 1 0" range="-2 2"/><geom size="0.05"/>
      <body pos="0 0 0.3"><joint name="j4" axis="0 0 1" range="-2 2"/><geom size="0.05"/>
      <body pos="0 0 0.1"><joint name="j5" axis="0 1 0" range="-2 2"/><geom size="0.05"/>
      <body pos="0 0 0.1"><joint name="j6" axis="1 0 0" range="-2 2"/><geom size="0.05"/>
      <site name="tip" pos="0 0 0.1"/></body></body></body></body></body></body></body>"""
    start = np.array([0.1, 0.5, 0.7, 0.1, 0.6, 0.1])
    goal_q = np.array([0.4, 0.3, 1.0, -0.3, 0.5, 0.4])
    reference = {"site": "mount", "body": "base", "geom": "mark"}[frame]
    quat = np.array([0.5, -0.5, 0.5, 0.5])
    answers = []
    for pos, turn in (([0, 0, 0], [1, 0, 0, 0]), ([1, 0.5, 0], quat)):
        xml = arm.format(pos=" ".join(map(str, pos)), quat=" ".join(map(str, turn)))
        model = mujoco.MjModel.from_xml_string(
            f"<mujoco><compiler angle='radian'/><worldbody>{xml}</worldbody></mujoco>"
        )
        robot = Robot.load(model, frame="tip")
        pose = robot.forward(goal_q)
        R, p = matrix_from_quaternion(np.array(turn, float)), np.array(pos)
        local_p, local_R = R.T @ (pose.position - p), R.T @ pose.rotation
        inside = Target(local_p, rotation=local_R, relative_to=reference)
        world = Target(pose.position, quaternion=pose.quaternion)
        for target in (inside, world):
            problem = optik.Problem(robot, target, q_init=start)
            solution = optik.solve(problem, solver="box-qp")
            assert solution.success
            answers.append(solution.q)
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=1e-6)


def test_a_subset_of_a_bundled_robot_keeps_home_for_the_rest():
    whole, four = Robot.load("so101"), Robot.load("so101", joints=["wrist_flex", "elbow_flex"])
    assert four.joint_names == ("wrist_flex", "elbow_flex")
    q = [0.3, -0.4]
    expected = whole.forward([0, 0, -0.4, 0.3, 0]).position
    np.testing.assert_allclose(four.forward(q).position, expected, atol=1e-15)
    panda = Robot.load("panda", joints=["joint4", "joint2"])
    np.testing.assert_array_equal(panda.q_nominal, [-1.57079, 0])
    np.testing.assert_allclose(
        panda.forward(panda.q_nominal).position,
        Robot.load("panda").forward(Robot.load("panda").q_nominal).position,
        atol=1e-15,
    )


def test_g1_moves_29_joints_on_a_held_base():
    g1 = Robot.load("g1")
    assert g1.n == 29
    J = g1.jacobian(g1.q_nominal)
    moved = [name for name, column in zip(g1.joint_names, J.T, strict=True) if column.any()]
    assert moved == [n for n in g1.joint_names if n.startswith(("left_hip", "left_knee", "left_a"))]
    for frame in ("right_foot", "left_palm", "right_palm", "imu_in_torso"):
        assert np.isfinite(g1.forward(g1.q_nominal, frame=frame).position).all()
    leg = Robot.load("g1", joints=moved)
    np.testing.assert_array_equal(
        leg.forward(leg.q_nominal).position, g1.forward(g1.q_nominal).position
    )


def test_robots_pickle(cell):
    robot = Robot.load(cell, frame="b_tip", q_nominal="turned")
    again = pickle.loads(pickle.dumps(robot))
    q = np.array([0.1, 0.2, 0.3, 0.1])
    np.testing.assert_array_equal(again.forward(q).position, robot.forward(q).position)
    assert again.joint_names == robot.joint_names


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"qpos": [0.0]}, "16 finite numbers"),
        ({"q_nominal": "turne"}, "'turned'"),
        ({"q_nominal": [np.nan] * 4}, "4 finite numbers"),
        ({"joints": "a1"}, "list of names"),
        ({"joints": ["a1", "b_1"]}, "'b1'"),
        ({"sampling": {"a1": (3, 4)}}, "overlap"),
        ({"sampling": {"a9": (3, 4)}}, "'a1'"),
    ],
)
def test_wrong_choices_name_the_right_ones(cell, options, says):
    with pytest.raises(OptikError, match=says):
        Robot.load(cell, frame="b_tip", **options)


def test_wrong_sources(tmp_path):
    with pytest.raises(RobotError, match="from_string"):
        Robot.load("<mujoco/>", frame="x")
    with pytest.raises(RobotError, match="no model file"):
        Robot.load(tmp_path / "arm.xml", frame="x")
    broken = tmp_path / "broken.xml"
    broken.write_text("<mujoco><worldbody><body><joint typ='hinge'/></body></worldbody></mujoco>")
    with pytest.raises(RobotError, match=r"broken.xml does not compile.*typ"):
        Robot.load(broken, frame="x")
    with pytest.raises(RobotError, match="no hinge or slide joint moves"):
        Robot.load(
            mujoco.MjModel.from_xml_string(
                "<mujoco><worldbody><body name='b'><freejoint/><geom size='1'/></body>"
                "</worldbody></mujoco>"
            ),
            frame="b",
        )
