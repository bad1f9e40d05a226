"""Models that nobody here wrote, as packages on the index ship them, opened as files only.

Forward kinematics and Jacobians are compared with Pinocchio (Carpentier et al. 2019), which reads
the same files by itself.  Packages: gymnasium (MIT, MJCF) and airo-models (MIT, URDF).
"""

from importlib.metadata import distribution

import numpy as np
import pinocchio
import pytest

from optik import Robot
from optik.chain import chain_to

# (package, file, frame, free joint above it)
MJCF = [
    ("gymnasium", "gymnasium/envs/mujoco/assets/pusher_v5.xml", "tips_arm"),
    ("gymnasium", "gymnasium/envs/mujoco/assets/reacher.xml", "fingertip"),
]
URDF = [
    ("airo-models", "airo_models/arms/ur5e/ur5e.urdf", "tool0"),
    ("airo-models", "airo_models/arms/ur3e/ur3e.urdf", "flange"),
]
GRIPPER = ("airo-models", "airo_models/grippers/robotiq_2f_85/urdf/robotiq_2f_85.urdf")


def shipped(package, file):
    """The path of a file inside an installed package, which is not imported."""
    return distribution(package).locate_file(file)


def pinocchio_model(path):
    if path.suffix == ".urdf":
        return pinocchio.buildModelFromUrdf(str(path))
    model = pinocchio.buildModelFromMJCF(str(path))
    return model[0] if isinstance(model, tuple) else model


def pinocchio_q(model, robot, q):
    full = pinocchio.neutral(model)
    for name, value in zip(robot.joint_names, q, strict=True):
        joint = model.joints[model.getJointId(name)]
        if joint.nq == 2:  # a hinge without limits is a point on the circle there
            full[joint.idx_q : joint.idx_q + 2] = np.cos(value), np.sin(value)
        else:
            full[joint.idx_q] = value
    return full


@pytest.mark.parametrize("package", ["gymnasium", "airo-models"])
def test_the_licence_allows_it(package):
    files = [f for f in distribution(package).files or [] if "LICENSE" in f.name]
    text = "".join(f.read_text() for f in files).lower()
    assert "mit license" in text and "permission is hereby granted, free of charge" in text


@pytest.mark.parametrize(("package", "file", "frame"), MJCF + URDF)
def test_forward_kinematics_and_jacobian_equal_pinocchios(package, file, frame):
    path = shipped(package, file)
    robot, model = Robot.load(path, frame=frame), pinocchio_model(path)
    assert robot.n >= 2
    data, frame_id = model.createData(), model.getFrameId(frame)
    assert frame_id < model.nframes
    columns = [model.joints[model.getJointId(n)].idx_v for n in robot.joint_names]
    for q in robot.sample(np.random.default_rng(1), 20):
        full = pinocchio_q(model, robot, q)
        pinocchio.framesForwardKinematics(model, data, full)
        expected, pose = data.oMf[frame_id], robot.forward(q)
        np.testing.assert_allclose(pose.position, expected.translation, atol=1e-12)
        np.testing.assert_allclose(pose.rotation, expected.rotation, atol=1e-12)
        J = pinocchio.computeFrameJacobian(
            model, data, full, frame_id, pinocchio.LOCAL_WORLD_ALIGNED
        )
        np.testing.assert_allclose(robot.jacobian(q), J[:, columns], atol=1e-12)


@pytest.mark.parametrize(("package", "file", "frame"), MJCF + URDF)
def test_limits_equal_pinocchios(package, file, frame):
    path = shipped(package, file)
    robot, model = Robot.load(path, frame=frame), pinocchio_model(path)
    for name, lower, upper in zip(robot.joint_names, robot.lower, robot.upper, strict=True):
        joint = model.joints[model.getJointId(name)]
        if joint.nq == 2 or np.isinf(lower):
            assert np.isinf([lower, upper]).all()
            continue
        limits = model.lowerPositionLimit[joint.idx_q], model.upperPositionLimit[joint.idx_q]
        assert (lower, upper) == pytest.approx(limits, abs=1e-12)


def test_a_urdf_keeps_links_that_are_fixed_to_each_other():
    robot = Robot.load(shipped(*URDF[0][:2]), frame="tool0")
    for link in ("base_link", "base_link_inertia", "wrist_3_link", "flange"):
        assert robot.frame_named(link).kind == "body"
    assert [j.kind for j in chain_to(robot).joints] == ["hinge"] * 6


def test_mimic_joints_of_a_urdf_follow():
    robot = Robot.load(shipped(*GRIPPER), frame="left_inner_finger")
    assert robot.joint_names == ("finger_joint",)
    followers = {c.name: c.coefficients[1] for c in robot.joint_map.couplings}
    assert followers == {
        "left_inner_knuckle_joint": 1,
        "left_inner_finger_joint": -1,
        "right_outer_knuckle_joint": 1,
        "right_inner_knuckle_joint": 1,
        "right_inner_finger_joint": -1,
    }
    model = pinocchio_model(shipped(*GRIPPER))
    data, frame_id = model.createData(), model.getFrameId("left_inner_finger")
    for value in np.linspace(robot.lower[0], robot.upper[0], 5):
        full = pinocchio.neutral(model)
        full[model.joints[model.getJointId("finger_joint")].idx_q] = value
        for name, factor in followers.items():
            full[model.joints[model.getJointId(name)].idx_q] = factor * value
        pinocchio.framesForwardKinematics(model, data, full)
        pose = robot.forward([value])
        np.testing.assert_allclose(pose.position, data.oMf[frame_id].translation, atol=1e-12)
        np.testing.assert_allclose(pose.rotation, data.oMf[frame_id].rotation, atol=1e-12)
    # the followers' ranges are all wider than the finger's; a narrower one binds it
    assert robot.upper[0] == pytest.approx(0.8)
    narrow = Robot.load(
        shipped(*GRIPPER),
        frame="left_inner_finger",
        limits={"left_inner_finger_joint": (-0.5, 0.0)},
        unit="rad",
    )
    assert (narrow.lower[0], narrow.upper[0]) == pytest.approx((0.0, 0.5))
