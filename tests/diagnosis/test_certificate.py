"""What a certificate says against what happens when the arm or its limits are moved."""

from __future__ import annotations

import json

import numpy as np
import pytest

from optik.diagnosis import Descent, certificate, descend
from optik.errors import RobotError
from optik.evaluation import evaluate
from optik.problem import Problem, Target
from optik.robot import Robot


def unreached(name: str, seed: int, count: int) -> list[tuple[Problem, Descent]]:
    """Targets on which the descent from mid-range ends in a minimum instead of a solution."""
    robot, rng = Robot.load(name), np.random.default_rng(seed)
    found = []
    while len(found) < count:
        pose = robot.forward(robot.sample(rng))
        quaternion = pose.quaternion if robot.n >= 6 else None
        problem = Problem(robot, Target(pose.position, quaternion=quaternion, rotation_weight=0.5))
        descent = descend(problem, robot.q_mid)
        if descent.end == "minimum":
            found.append((problem, descent))
    return found


@pytest.mark.parametrize("name", ["panda", "so101", "ur5e"])
def test_no_small_motion_lowers_the_cost_of_a_minimum(name):
    rng = np.random.default_rng(7)
    for problem, descent in unreached(name, 11, 5):
        facts, robot = descent.certificate, problem.robot
        assert facts.stationary and facts.minimum
        assert facts.relative_optimality < 1e-8
        for _ in range(200):
            length = 10.0 ** rng.uniform(-4, -2)
            nearby = descent.q + length * rng.normal(size=robot.n)
            nearby = np.clip(nearby, robot.lower, robot.upper)
            assert evaluate(problem, nearby).cost >= descent.cost * (1 - 1e-12)


@pytest.mark.parametrize("name", ["panda", "arm7", "so101"])
def test_a_multiplier_is_what_room_at_the_limit_is_worth(name):
    """Envelope theorem: d(lowest cost)/d(limit) = -multiplier, by solving again with more room."""
    room = 1e-5
    checked = 0
    for problem, descent in unreached(name, 13, 4):
        robot = problem.robot
        for force in descent.certificate.holding:
            if force.multiplier < 1e-3:
                continue  # lost in the second order of `room`
            edge = np.array(robot.upper if force.side == "upper" else robot.lower)
            assert edge[force.index] == force.limit == descent.q[force.index]
            assert force.sign == (-1 if force.side == "upper" else 1)
            assert np.sign(descent.certificate.gradient[force.index]) == force.sign
            edge[force.index] += room if force.side == "upper" else -room
            roomy = robot.replace(**{force.side: edge})
            again = descend(Problem(roomy, problem.targets, q_init=problem.q_init), descent.q)
            fell = descent.cost - again.cost
            assert fell == pytest.approx(force.multiplier * room, rel=0.05)
            error, less = np.sqrt(2 * descent.cost), np.sqrt(2 * again.cost)
            assert (error - less) / error == pytest.approx(force.error_share * room, rel=0.05)
            checked += 1
    assert checked >= 3


def test_limits_that_are_touched_but_do_not_hold_have_no_multiplier():
    robot = Robot.load("arm7")
    q = np.array(robot.q_nominal)
    q[3] = robot.lower[3]
    reached = robot.forward(q)
    facts = certificate(Problem(robot, Target(reached.position, quaternion=reached.quaternion)), q)
    assert facts.relative_optimality == 0.0 or facts.stationary
    (touched,) = facts.limits
    assert (touched.joint, touched.side, touched.multiplier, touched.sign) == ("j4", "lower", 0, 0)
    assert facts.holding == ()
    assert facts.free.all()


def test_a_locked_joint_is_no_active_limit():
    robot = Robot.load("arm7")
    lower, upper = np.array(robot.lower), np.array(robot.upper)
    lower[2] = upper[2] = 0.3
    locked = robot.replace(lower=lower, upper=upper)
    q = np.array(robot.q_nominal)
    q[2] = 0.3
    facts = certificate(Problem(locked, Target([0.3, 0.2, 0.5])), q)
    assert [f.joint for f in facts.limits] == []
    assert not facts.free[2]
    assert facts.gradient[2] == facts.projected_gradient[2] == 0.0
    assert facts.jacobian_shape == (3, 6)


def test_every_joint_locked_leaves_nothing_to_do():
    robot = Robot.load("arm7")
    fixed = robot.replace(lower=robot.q_nominal, upper=robot.q_nominal)
    problem = Problem(fixed, Target([0.3, 0.2, 0.5]))
    facts = certificate(problem, robot.q_nominal)
    assert facts.minimum and facts.smallest_curvature == np.inf
    assert facts.rank == 0 and facts.smallest_singular_value == 0.0
    descent = descend(problem, robot.q_nominal)
    assert (descent.end, descent.steps) == ("minimum", 0)
    json.dumps(facts.to_json(), allow_nan=False)


def test_an_unlimited_joint_is_never_active():
    robot = Robot.load("gen3")
    facts = certificate(Problem(robot, Target([0.3, 0.2, 0.5])), 50.0 * (robot.lower == -np.inf))
    assert not facts.active_lower[robot.lower == -np.inf].any()
    assert np.isfinite(facts.relative_optimality)


def test_relative_optimality_is_the_definition():
    robot = Robot.load("panda")
    q = np.array(robot.q_nominal)
    q[1] = robot.upper[1]
    problem = Problem(robot, Target([0.1, 0.2, 1.0], quaternion=[1, 0, 0, 0], rotation_weight=0.3))
    facts = certificate(problem, q)
    pose, J = robot.forward(q), robot.jacobian(q)
    # The error by scipy's rotations, the gradient by -J^T e, limits by hand.
    from scipy.spatial.transform import Rotation

    turn = Rotation.identity() * Rotation.from_matrix(pose.rotation).inv()
    e = np.concatenate((problem.targets[0].position - pose.position, 0.3 * turn.as_rotvec()))
    J = np.concatenate((J[:3], 0.3 * J[3:]))
    gradient = -J.T @ e
    projected = gradient.copy()
    if gradient[1] < 0:
        projected[1] = 0.0
    assert np.abs(facts.gradient - gradient).max() < 1e-12
    wanted = np.linalg.norm(projected) / (np.linalg.norm(J) * np.linalg.norm(e))
    assert facts.relative_optimality == pytest.approx(wanted, rel=1e-9)
    assert facts.optimality == pytest.approx(np.linalg.norm(projected), rel=1e-9)
    assert np.abs(facts.singular_values - np.linalg.svd(J, compute_uv=False)).max() < 1e-12


def test_a_wrong_configuration_is_named():
    robot = Robot.load("arm7")
    problem = Problem(robot, Target([0.3, 0.2, 0.5]))
    with pytest.raises(RobotError, match="7 numbers"):
        certificate(problem, np.zeros(3))
    with pytest.raises(RobotError, match="finite"):
        certificate(problem, np.full(7, np.nan))
