"""The residual's Jacobian against finite differences on the manifold, for every kind of target."""

import itertools

import mujoco
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from optik import Problem, Robot, Target
from optik.pose import Pose, matrix_from_quaternion, rotation_vector
from optik.residual import Residual, axis_rotation_vector, right_jacobian_inverse, skew

# Two arms on one base that turns, one of them with a mimic joint and a slide.
TREE = """
<mujoco><compiler angle="radian"/><worldbody>
  <body pos="0 0 0.2"><joint name="base" axis="0 0 1" range="-2 2" ref="0.1"/><geom size="0.05"/>
    <body pos="0 0.2 0.1" quat="1 0.2 0 0.1">
      <joint name="l1" axis="0 1 0" range="-2 2" pos="0 0 0.05"/><geom size="0.05"/>
      <body pos="0 0 0.3"><joint name="l2" axis="1 0 0.3" range="-2 2"/><geom size="0.05"/>
        <body pos="0 0 0.2"><joint name="l3" type="slide" axis="0 0 1" range="0 0.2"/>
          <geom size="0.05"/>
          <body pos="0 0 0.1"><joint name="l4" axis="0 1 0.2"/><geom size="0.05"/>
            <site name="left" pos="0 0.1 0.1" quat="1 1 0 0.5"/></body></body></body></body>
    <body pos="0 -0.2 0.1" quat="1 -0.2 0 0.1">
      <joint name="r1" axis="0 1 0" range="-2 2"/><geom size="0.05"/>
      <body pos="0 0 0.3"><joint name="r2" axis="1 0 0" range="-2 2"/><geom size="0.05"/>
        <body name="right" pos="0 0 0.2"><joint name="r3" axis="0 0.3 1"/>
          <geom name="shape" size="0.05" pos="0.1 0 0.1" quat="1 0 1 0"/></body></body></body>
  </body></worldbody>
  <equality><joint joint1="r2" joint2="l2" polycoef="0.1 0.7 -0.2 0 0"/></equality>
</mujoco>"""
LOCKED = ("l1",)


@pytest.fixture(scope="module")
def robot():
    model = mujoco.MjModel.from_xml_string(TREE)
    return Robot.load(model, frame="left", joints=["l4", "base", "r1", "l1", "l3", "r3", "l2"])


@pytest.fixture(scope="module")
def locked(robot):
    i = robot.joint_names.index("l1")
    lower, upper = np.array(robot.lower), np.array(robot.upper)
    lower[i] = upper[i] = 0.3
    return robot.replace(lower=lower, upper=upper)


def target_of(kind, rng, **options):
    position = rng.normal(0, 0.4, 3)
    if kind == "pose":
        q = rng.normal(size=4)
        options["quaternion"] = q / np.linalg.norm(q)
    elif kind == "axis":
        options["axis"] = (rng.normal(size=3), rng.normal(size=3))
    return Target(position, position_weight=1.7, rotation_weight=0.4, **options)


def jacobian_and_difference(robot, targets, kind, rng, step=1e-6):
    problem = Problem(robot, targets, q_init=robot.sample(rng))
    residual = Residual(robot, problem.shape, kind=kind)
    x = residual.load(problem)
    J = residual.at(x).J
    difference = np.empty_like(J)
    for i in range(len(x)):
        d = np.zeros(len(x))
        d[i] = step
        difference[:, i] = (residual.value(x + d).e - residual.value(x - d).e) / (2 * step)
    return residual.at(x), J, -difference


WHERE = [
    {},
    {"frame": "right"},
    {"frame": "shape"},
    {"relative_to": "right"},
    {"frame": "right", "relative_to": "left"},
]


@pytest.mark.parametrize("where", WHERE, ids=str)
@pytest.mark.parametrize("kind", ["position", "axis", "pose"])
def test_chordal_jacobians_are_exact(robot, kind, where):
    rng = np.random.default_rng(7)
    for _ in range(5):
        targets = [target_of(kind, rng, **where)]
        _, J, difference = jacobian_and_difference(robot, targets, "chordal", rng)
        np.testing.assert_allclose(J, difference, atol=1e-8)


@pytest.mark.parametrize("where", WHERE, ids=str)
@pytest.mark.parametrize("kind", ["position", "axis", "pose"])
def test_log_gradients_are_exact(robot, kind, where):
    """J is not the derivative of the logarithm, but -J^T e is that of half its square."""
    rng = np.random.default_rng(8)
    for _ in range(5):
        targets = [target_of(kind, rng, **where)]
        at, J, difference = jacobian_and_difference(robot, targets, "log", rng)
        np.testing.assert_allclose(J.T @ at.e, difference.T @ at.e, atol=1e-7)


@pytest.mark.parametrize("kind", ["log", "chordal"])
@pytest.mark.parametrize(
    "mask", [m for m in itertools.product([True, False], repeat=6) if 1 <= sum(m) <= 5][::3]
)
def test_masked_jacobians_are_exact(robot, mask, kind):
    rng = np.random.default_rng(9)
    for name in ("pose", "position"):
        if name == "position" and not any(mask[:3]):
            continue
        targets = [target_of(name, rng, mask=mask)]
        at, J, difference = jacobian_and_difference(robot, targets, kind, rng)
        if name == "pose":
            assert len(at.e) == sum(mask)
        np.testing.assert_allclose(J, difference, atol=1e-7)


def test_masked_rows_are_those_of_the_whole_error():
    robot = Robot.load("panda")
    rng = np.random.default_rng(10)
    whole = target_of("pose", rng)
    mask = (False, True, True, True, False, True)
    part = Target(
        whole.position,
        quaternion=whole.quaternion,
        mask=mask,
        position_weight=1.7,
        rotation_weight=0.4,
    )
    q = robot.sample(rng)
    e = {}
    for name, target in (("whole", whole), ("part", part)):
        problem = Problem(robot, target)
        residual = Residual(robot, problem.shape)
        residual.load(problem)
        e[name] = residual.evaluate(q, jacobian=False).e
    np.testing.assert_array_equal(e["part"], e["whole"][list(mask)])


def test_masks_are_along_the_axes_of_relative_to(robot):
    """Only the height above the other hand, in that hand's own axes."""
    rng = np.random.default_rng(11)
    q = robot.sample(rng)
    other, own = robot.forward(q, frame="right"), robot.forward(q)
    local = other.rotation.T @ (own.position - other.position)
    target = Target(
        local + np.array([0.3, 0.4, 0.05]),
        relative_to="right",
        mask=[False, False, True] + [False] * 3,
    )
    problem = Problem(robot, target)
    residual = Residual(robot, problem.shape)
    residual.load(problem)
    at = residual.evaluate(q, jacobian=False)
    np.testing.assert_allclose(at.e, [0.05], atol=1e-15)
    assert at.position_error == pytest.approx(0.05)


@pytest.mark.parametrize("kind", ["log", "chordal"])
def test_several_targets_stack_and_locked_joints_leave(locked, kind):
    rng = np.random.default_rng(12)
    targets = [
        target_of("pose", rng),
        target_of("axis", rng, frame="right"),
        target_of("position", rng, frame="shape", relative_to="left"),
    ]
    at, J, difference = jacobian_and_difference(locked, targets, kind, rng)
    assert J.shape[1] == locked.n - len(LOCKED)
    np.testing.assert_allclose(J.T @ at.e, difference.T @ at.e, atol=1e-7)
    problem = Problem(locked, targets, q_init=locked.q_nominal)
    singles = [Problem(locked, t, q_init=locked.q_nominal) for t in targets]
    parts = []
    for p in (problem, *singles):
        residual = Residual(locked, p.shape, kind=kind)
        x = residual.load(p)
        parts.append(residual.at(x))
    np.testing.assert_array_equal(parts[0].e, np.concatenate([p.e for p in parts[1:]]))
    assert parts[0].position_error == max(p.position_error for p in parts[1:])
    assert parts[0].rotation_error == max(p.rotation_error for p in parts[1:])


def test_relative_targets_do_not_see_the_common_base(robot):
    """The joint below both frames has a zero column."""
    rng = np.random.default_rng(13)
    problem = Problem(robot, target_of("pose", rng, relative_to="right"))
    residual = Residual(robot, problem.shape)
    J = residual.at(residual.load(problem)).J
    base = robot.joint_names.index("base")
    np.testing.assert_allclose(J[:, base], 0, atol=1e-14)
    assert np.abs(np.delete(J, base, axis=1)).max() > 0.1


vectors = st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(np.array)


@given(x=vectors, t=vectors)
@settings(max_examples=300, deadline=None)
def test_axis_rotation_turns_one_axis_onto_the_other(x, t):
    assume(np.linalg.norm(x) > 1e-3 and np.linalg.norm(t) > 1e-3)
    x, t = x / np.linalg.norm(x), t / np.linalg.norm(t)
    r = axis_rotation_vector(x, t)
    angle = float(np.linalg.norm(r))
    assert np.isfinite(r).all() and angle <= np.pi + 1e-12
    q = np.empty(4)
    mujoco.mju_axisAngle2Quat(q, r / angle if angle > 0 else np.array([1.0, 0, 0]), angle)
    np.testing.assert_allclose(matrix_from_quaternion(q) @ x, t, atol=1e-9)
    np.testing.assert_allclose(r @ x, 0, atol=1e-9)  # the shortest way


@pytest.mark.parametrize("axis", [[1, 0, 0], [0, -1, 0], [0.6, 0, -0.8], [0, 0, 1]])
def test_opposite_axes_are_half_a_turn_apart(axis):
    r = axis_rotation_vector(np.array(axis, float), -np.array(axis, float))
    assert np.linalg.norm(r) == pytest.approx(np.pi, abs=1e-12)
    assert abs(r @ axis) < 1e-12


@given(r=vectors, scale=st.sampled_from([1e-9, 1e-5, 1e-3, 0.1, 1.0, 1.8]))
@settings(max_examples=200, deadline=None)
def test_inverse_right_jacobian(r, scale):
    r = r * scale
    identity = Pose([0, 0, 0], [1, 0, 0, 0]).quaternion
    base, angle = np.empty(4), float(np.linalg.norm(r))
    mujoco.mju_axisAngle2Quat(base, r / angle if angle else np.array([1.0, 0, 0]), angle)
    J, h = right_jacobian_inverse(r), 1e-6
    for i in range(3):
        columns = []
        for sign in (1, -1):
            d, product = np.empty(4), np.empty(4)
            mujoco.mju_axisAngle2Quat(d, np.eye(3)[i], sign * h)
            mujoco.mju_mulQuat(product, base, d)
            columns.append(rotation_vector(product, identity))
        np.testing.assert_allclose((columns[0] - columns[1]) / (2 * h), J[:, i], atol=1e-7)
    np.testing.assert_allclose(skew(r) @ r, 0, atol=1e-15)
