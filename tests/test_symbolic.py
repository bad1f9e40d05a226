"""CasADi's kinematics, residual and derivatives against MuJoCo and the NumPy residual."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from random_models import random_chain

from optik.chain import axis_rotation, chain_to
from optik.pose import quaternion_from_matrix
from optik.problem import Problem, Target
from optik.residual import Residual
from optik.robot import Robot, bundled_robots
from optik.symbolic import parameters_of, symbolic_forward, symbolic_residual

PARITY = 1e-12


def assert_forward_parity(robot: Robot, rng: np.random.Generator, count: int) -> None:
    q = ca.SX.sym("q", robot.n)
    pose = symbolic_forward(chain_to(robot), q)
    function = ca.Function("f", [q], [pose.position, pose.rotation, pose.quaternion])
    for _ in range(count):
        configuration = robot.sample(rng)
        position, rotation, quaternion = (np.array(v) for v in function(configuration))
        wanted = robot.forward(configuration)
        assert np.abs(position.ravel() - wanted.position).max() < PARITY
        assert np.abs(rotation - wanted.rotation).max() < PARITY
        assert abs(abs(quaternion.ravel() @ wanted.quaternion) - 1) < PARITY


@pytest.mark.parametrize("name", bundled_robots())
def test_forward_equals_mujoco_on_every_robot(name):
    assert_forward_parity(Robot.load(name), np.random.default_rng(1), 20)


@pytest.mark.parametrize("joints", [1, 2, 3, 4, 5, 6, 7, 8])
def test_forward_equals_mujoco_on_random_chains(joints):
    rng = np.random.default_rng(joints)
    for _ in range(7):
        assert_forward_parity(random_chain(rng, joints), rng, 3)


def targets(kind: str, robot: Robot, rng: np.random.Generator) -> Target:
    pose = robot.forward(robot.sample(rng))
    weights = {"position_weight": 2.0, "rotation_weight": 0.3}
    if kind == "pose":
        return Target(pose.position, quaternion=pose.quaternion, **weights)
    if kind == "axis":
        return Target(pose.position, axis=(rng.normal(size=3), rng.normal(size=3)), **weights)
    if kind == "masked":
        mask = [True, False, True, False, True, True]
        return Target(pose.position, quaternion=pose.quaternion, mask=mask, **weights)
    if kind == "relative":
        return Target(pose.position, quaternion=pose.quaternion, relative_to="link3", **weights)
    return Target(pose.position, **weights)


@pytest.mark.parametrize("kind", ["position", "axis", "pose", "masked", "relative"])
def test_residual_and_gradient_equal_the_numeric_ones(kind, arm7):
    rng = np.random.default_rng(3)
    function = None
    for _ in range(20):
        problem = Problem(arm7, targets(kind, arm7, rng))
        if function is None:
            s = symbolic_residual(arm7, problem.shape)
            gradient = ca.gradient(ca.dot(s.log, s.log) / 2, s.q)
            jacobian = ca.jacobian(s.chordal, s.q)
            function = ca.Function("f", [s.q, s.parameters], [s.log, s.chordal, gradient, jacobian])
            log, chordal = (Residual(arm7, problem.shape, kind=k) for k in ("log", "chordal"))
        q = arm7.sample(rng)
        log.load(problem)
        chordal.load(problem)
        one, two = log.at(q), chordal.at(q)
        e_log, e_chordal, g, J = (np.array(v) for v in function(q, parameters_of(problem)))
        assert np.abs(e_log.ravel() - one.e).max() < 1e-11
        assert np.abs(e_chordal.ravel() - two.e).max() < 1e-11
        # With the logarithm, -J^T e with the geometric Jacobian is the exact gradient.
        assert np.abs(g.ravel() + one.J.T @ one.e).max() < 1e-10
        if kind != "masked":  # a masked rotation keeps the logarithm, whose J is geometric
            assert np.abs(J + two.J).max() < 1e-11


@pytest.mark.parametrize("kind", ["position", "axis", "pose"])
def test_derivatives_are_finite_at_the_solution(kind, arm7):
    rng = np.random.default_rng(4)
    q = arm7.sample(rng)
    pose = arm7.forward(q)
    target = {
        "position": Target(pose.position),
        "pose": Target(pose.position, quaternion=pose.quaternion),
        "axis": Target(pose.position, axis=([0, 0, 1], pose.rotation[:, 2])),
    }[kind]
    problem = Problem(arm7, target)
    s = symbolic_residual(arm7, problem.shape)
    cost = ca.dot(s.log, s.log) / 2
    hessian, gradient = ca.hessian(cost, s.q)
    H, g = ca.Function("h", [s.q, s.parameters], [hessian, gradient])(q, parameters_of(problem))
    assert np.isfinite(np.array(H)).all() and np.abs(np.array(g)).max() < 1e-10
    # At a solution the Hessian is the Gauss-Newton matrix.
    residual = Residual(arm7, problem.shape)
    residual.load(problem)
    J = residual.at(q).J
    assert np.abs(np.array(H) - J.T @ J).max() < 1e-7


def test_equality_rows_vanish_exactly_where_the_target_is_met(arm7):
    rng = np.random.default_rng(6)
    for kind in ("pose", "axis"):
        q = arm7.sample(rng)
        pose = arm7.forward(q)
        met = (
            Target(pose.position, quaternion=pose.quaternion)
            if kind == "pose"
            else Target(pose.position, axis=([0, 0, 1], pose.rotation[:, 2]))
        )
        problem = Problem(arm7, met)
        s = symbolic_residual(arm7, problem.shape)
        function = ca.Function("f", [s.q, s.parameters], [s.equality, s.facing])
        rows, facing = (np.array(v).ravel() for v in function(q, parameters_of(problem)))
        assert np.abs(rows).max() < PARITY
        assert (facing > 0).all()
        rows, _ = (np.array(v).ravel() for v in function(arm7.sample(rng), parameters_of(problem)))
        assert np.abs(rows).max() > 1e-3


def test_half_turn_is_finite(arm7):
    q = arm7.q_nominal
    pose = arm7.forward(q)
    turned = quaternion_from_matrix(pose.rotation @ axis_rotation(np.array([0.0, 1, 0]), np.pi))
    problem = Problem(arm7, Target(pose.position, quaternion=turned))
    s = symbolic_residual(arm7, problem.shape)
    e = np.array(ca.Function("f", [s.q, s.parameters], [s.log])(q, parameters_of(problem))).ravel()
    assert np.linalg.norm(e[3:]) == pytest.approx(np.pi, abs=1e-9)
