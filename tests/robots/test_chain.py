"""The folded chain against MuJoCo: held joints of every kind, couplings, every kind of frame."""

import threading

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optik import Robot
from optik.chain import axis_rotation, chain_to

MODEL = """
<mujoco><compiler angle="radian"/><worldbody>
  <body name="stage" mocap="true" pos="0.3 0.1 0.2" quat="1 0.2 0 0.3">
    <geom size="0.05"/><site name="spot" pos="0.1 0 0.2" quat="1 1 0 0"/></body>
  <body name="float" pos="9 9 9"><freejoint/><geom size="0.05"/>
    <body pos="0.1 0 0.2" quat="1 0 0.3 0">
      <joint name="ball" type="ball" pos="0.02 0.01 0"/><geom size="0.05"/>
      <body pos="0 0 0.3">
        <joint name="s1" type="slide" axis="1 0 1" ref="0.2"/>
        <joint name="h1" axis="0 1 0.2" pos="0.1 0 0.1" ref="-0.3"/><geom size="0.05"/>
        <body pos="0 0.1 0.3" quat="1 0 0.1 0">
          <joint name="h2" axis="0 0 1" ref="0.4"/><geom name="bulge" size="0.05" pos="0 0.2 0"/>
          <body name="end" pos="0 0 0.2"><joint name="h3" axis="1 0 0"/><geom size="0.05"/>
            <site name="tip" pos="0.1 0.1 0" quat="1 0 1 0"/></body></body></body></body></body>
  </worldbody>
  <equality><joint joint1="h3" joint2="s1" polycoef="0.1 0.8 0.5 0 -0.2"/></equality>
</mujoco>"""


def folded_pose(chain, q):
    p, R = np.zeros(3), np.eye(3)
    for joint in chain.joints:
        p, R = p + R @ joint.offset, R @ joint.rotation
        u = np.polynomial.polynomial.polyval(q[joint.index] - joint.reference, joint.polynomial)
        if joint.kind == "hinge":
            R = R @ axis_rotation(joint.axis, float(u))
        else:
            p = p + R @ (joint.axis * u)
    return p + R @ chain.tool_offset, R @ chain.tool_rotation


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(MODEL)


CHOICES = [("s1", "h1", "h2"), ("h2", "s1"), ("h1",), ("h2", "h1")]


@pytest.mark.parametrize("joints", CHOICES, ids=str)
def test_the_chain_equals_mujoco(model, joints):
    rng = np.random.default_rng(3)
    qpos = rng.normal(0, 0.5, model.nq)
    qpos[3:7] /= np.linalg.norm(qpos[3:7])
    qpos[7:11] /= np.linalg.norm(qpos[7:11])
    robot = Robot.load(model, frame="tip", joints=joints, qpos=qpos)
    for frame in ("tip", "end", "bulge", "float", "spot"):
        chain = chain_to(robot, robot.frame_named(frame))
        for q in rng.normal(0, 1, (5, robot.n)):
            p, R = folded_pose(chain, q)
            pose = robot.forward(q, frame=frame)
            np.testing.assert_allclose(p, pose.position, atol=1e-13)
            np.testing.assert_allclose(R, pose.rotation, atol=1e-13)
    assert chain_to(robot, robot.frame_named("spot")).joints == ()


@given(seed=st.integers(0, 10**6), joints=st.integers(2, 7))
@settings(max_examples=50, deadline=None)
def test_random_chains_with_random_joints_held(seed, joints):
    from random_models import random_chain

    rng = np.random.default_rng(seed)
    whole = random_chain(rng, joints)
    chosen = list(rng.permutation(whole.joint_names)[: rng.integers(1, joints + 1)])
    qpos = rng.normal(0, 1, whole.model.nq)
    robot = Robot.load(whole.model, frame="tip", joints=chosen, qpos=qpos)
    q = rng.normal(0, 1, robot.n)
    p, R = folded_pose(chain_to(robot), q)
    pose = robot.forward(q)
    np.testing.assert_allclose(p, pose.position, atol=1e-12)
    np.testing.assert_allclose(R, pose.rotation, atol=1e-12)
    # the same configuration asked of the whole chain
    everything = robot.qpos(q)[whole.joint_map.qpos_addresses]
    np.testing.assert_allclose(whole.forward(everything).position, pose.position, atol=1e-13)
    columns = [whole.joint_names.index(n) for n in chosen]
    np.testing.assert_allclose(
        robot.jacobian(q), whole.jacobian(everything)[:, columns], atol=1e-13
    )


def test_threads_do_not_disturb_each_other():
    """F37: one robot, many threads, every Jacobian that of the configuration asked for."""
    robot = Robot.load("panda")
    samples = robot.sample(np.random.default_rng(4), 200)
    expected = [robot.jacobian(q) for q in samples]
    wrong = []

    def work(order):
        for i in order:
            if not np.array_equal(robot.jacobian(samples[i]), expected[i]):
                wrong.append(i)

    orders = [np.random.default_rng(k).permutation(200) for k in range(4)]
    threads = [threading.Thread(target=work, args=(o,)) for o in orders]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
