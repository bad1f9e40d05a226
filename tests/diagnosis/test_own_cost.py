"""The own cost's exact derivatives against finite differences, CasADi and the residual."""

from __future__ import annotations

import dataclasses

import casadi as ca
import mujoco
import numpy as np
import pytest
from random_models import random_chain

from optik.diagnosis.own_cost import own_cost
from optik.diagnosis.so3 import right_jacobian_coefficient
from optik.evaluation import evaluate, problem_residual
from optik.kinematics import Coupling
from optik.problem import Problem, Target
from optik.residual import skew
from optik.robot import Robot
from optik.symbolic import parameters_of, symbolic_residual

TREE = """
<mujoco><compiler angle="radian"/><worldbody>
 <body pos=".1 .2 .3" quat=".9 .1 .2 .3">
  <joint name="s0" type="slide" axis="1 .2 0" range="-1 1"/>
  <joint name="h0" axis="0 .3 1" pos=".05 0 .1" range="-2 2" ref=".2"/>
  <geom size=".1"/>
  <body pos="0 .3 .2"><joint name="h1" axis="0 1 0" range="-2 2"/>
   <geom size=".1"/><site name="elbow" pos=".1 0 .2" quat=".5 .5 .1 .2"/>
   <body pos="0 0 .4"><joint name="s1" type="slide" axis="0 1 1" range="-1 1"/>
    <joint name="h2" axis="1 0 .2" range="-2 2"/>
    <geom size=".1"/><site name="right" pos=".1 .2 .1"/>
   </body></body>
  <body pos=".2 -.1 .3"><joint name="h3" axis="1 1 0" range="-2 2"/><geom size=".1"/>
   <body pos=".2 -.1 .3"><joint name="h4" axis="1 -1 .4" range="-2 2"/>
    <geom size=".1"/><site name="left" pos="0 .1 .2"/>
   </body></body>
 </body></worldbody></mujoco>"""


def tree() -> Robot:
    """Two branches, so that one hand can be controlled relative to the other."""
    model = mujoco.MjModel.from_xml_string(TREE)
    joints = ["s0", "h0", "h1", "s1", "h2", "h3", "h4"]
    return Robot.load(model, frame="right", joints=joints, name="tree")


def coupled_tree() -> Robot:
    """The same with h2 and h4 following h1 by polynomials."""
    model = mujoco.MjModel.from_xml_string(TREE)
    robot = Robot.load(model, frame="right", joints=["s0", "h0", "h1", "s1", "h3"], name="coupled")
    couplings = tuple(
        Coupling(
            name=name,
            joint=2,
            qpos_address=int(model.joint(name).qposadr[0]),
            dof_address=int(model.joint(name).dofadr[0]),
            reference=0.1,
            source_reference=0.05,
            coefficients=coefficients,
        )
        for name, coefficients in (
            ("h2", (0.1, 0.7, -0.3, 0.2, 0.05)),
            ("h4", (0.0, -1.0, 0.0, 0.0, 0.0)),
        )
    )
    return robot.replace(joint_map=dataclasses.replace(robot.joint_map, couplings=couplings))


def unit(rng: np.random.Generator) -> np.ndarray:
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def axes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=3), rng.normal(size=3)


def target_lists(rng: np.random.Generator, *, left: str | None) -> dict[str, list[Target]]:
    p = rng.normal(0, 0.4, 3)
    lists = {
        "position": [Target(p, position_weight=1.7)],
        "pose": [Target(p, quaternion=unit(rng), rotation_weight=0.7)],
        "axis": [Target(p, axis=axes(rng), rotation_weight=0.4)],
        "masked": [Target(p, quaternion=unit(rng), mask=[1, 0, 1, 1, 0, 1], position_weight=2.0)],
    }
    if left is not None:
        lists["relative"] = [Target(p, quaternion=unit(rng), relative_to=left, position_weight=2.0)]
        lists["relative axis"] = [Target(p, axis=axes(rng), relative_to=left)]
        lists["several"] = [
            Target(p, axis=axes(rng), relative_to=left),
            Target(p, quaternion=unit(rng), frame=left, mask=[0, 1, 1, 0, 1, 0]),
            Target(p, frame="elbow"),
        ]
    return lists


def check(problem: Problem, rng: np.random.Generator, count: int) -> None:
    """Gradient and Hessian against central differences of evaluate's cost and of the gradient."""
    robot, cost = problem.robot, own_cost(problem)
    residual = problem_residual(robot, problem.shape)
    residual.load(problem)
    for _ in range(count):
        q = robot.sample(rng)
        at = cost.at(q, hessian=True)
        other = residual.evaluate(q, jacobian=True)
        assert np.abs(at.e - other.e).max() < 1e-12
        assert np.abs(at.J[:, residual.free] - other.J).max() < 1e-12
        verdict = evaluate(problem, q)
        assert at.cost == pytest.approx(verdict.cost, abs=1e-13)
        assert at.position_error == pytest.approx(verdict.position_error, abs=1e-13)
        assert at.rotation_error == pytest.approx(verdict.rotation_error, abs=1e-12)
        gradient, hessian = np.empty(robot.n), np.empty((robot.n, robot.n))
        for i, step in enumerate(1e-6 * np.eye(robot.n)):
            ahead, behind = evaluate(problem, q + step).cost, evaluate(problem, q - step).cost
            gradient[i] = (ahead - behind) / 2e-6
            ahead, behind = cost.at(q + step).gradient, cost.at(q - step).gradient
            hessian[i] = (ahead - behind) / 2e-6
        scale = 1.0 + np.abs(hessian).max()
        assert np.abs(at.gradient - gradient).max() < 1e-8 * scale
        assert np.abs(at.hessian - hessian).max() < 1e-8 * scale
        assert np.abs(at.hessian - at.hessian.T).max() < 1e-12 * scale


@pytest.mark.parametrize("kind", ["position", "pose", "axis", "masked"])
def test_derivatives_on_random_chains(kind):
    rng = np.random.default_rng(3)
    for joints in range(1, 9):
        robot = random_chain(rng, joints)
        problem = Problem(robot, target_lists(rng, left=None)[kind])
        check(problem, rng, 2)


@pytest.mark.parametrize("make", [tree, coupled_tree])
@pytest.mark.parametrize(
    "kind", ["position", "pose", "axis", "masked", "relative", "relative axis", "several"]
)
def test_derivatives_on_a_tree(make, kind):
    rng = np.random.default_rng(4)
    check(Problem(make(), target_lists(rng, left="left")[kind]), rng, 5)


@pytest.mark.parametrize("kind", ["position", "pose", "axis", "masked", "relative", "several"])
def test_hessian_equals_casadi(kind):
    rng = np.random.default_rng(5)
    problem = Problem(tree(), target_lists(rng, left="left")[kind])
    symbolic = symbolic_residual(problem.robot, problem.shape)
    hessian, gradient = ca.hessian(0.5 * ca.dot(symbolic.log, symbolic.log), symbolic.q)
    function = ca.Function("f", [symbolic.q, symbolic.parameters], [gradient, hessian])
    for _ in range(20):
        q = problem.robot.sample(rng)
        at = own_cost(problem).at(q, hessian=True)
        g, H = (np.array(v) for v in function(q, parameters_of(problem)))
        assert np.abs(at.gradient - g.ravel()).max() < 1e-10 * (1 + np.abs(g).max())
        assert np.abs(at.hessian - H).max() < 1e-9 * (1 + np.abs(H).max())


def test_hessian_at_the_solution_is_gauss_newton():
    robot = Robot.load("arm7")
    q = robot.sample(np.random.default_rng(0))
    pose = robot.forward(q)
    at = own_cost(Problem(robot, Target(pose.position, quaternion=pose.quaternion))).at(
        q, hessian=True
    )
    assert np.abs(at.gradient).max() < 1e-12
    assert np.abs(at.hessian - at.J.T @ at.J).max() < 1e-12


def test_the_cost_is_finite_at_a_half_turn():
    robot = Robot.load("arm7")
    q = robot.q_nominal
    pose = robot.forward(q)
    turned = pose.rotation @ np.diag([1.0, -1.0, -1.0])  # half a turn about the frame's x axis
    for target in (
        Target(pose.position, rotation=turned),
        Target(pose.position, axis=(np.eye(3)[2], -pose.rotation[:, 2])),
    ):
        at = own_cost(Problem(robot, target)).at(q, hessian=True)
        assert at.rotation_error == pytest.approx(np.pi, abs=1e-7)
        assert np.isfinite(at.gradient).all()
        assert np.isfinite(at.hessian).all()


def test_the_coefficient_of_the_right_jacobian():
    """J_r^-1 = 1 + [r]/2 + k [r]^2 against the matrix series of J_r, across its power series."""
    axis = np.array([0.3, -0.5, 0.8]) / np.linalg.norm([0.3, -0.5, 0.8])
    for angle in (1e-9, 1e-3, 0.0499999, 0.0500001, 1.0, 3.0, np.pi):
        X = skew(angle * axis)
        term, total = np.eye(3), np.eye(3)
        for k in range(1, 60):  # J_r = sum_k (-[r])^k / (k + 1)!
            term = term @ (-X) / (k + 1)
            total = total + term
        k, slope = right_jacobian_coefficient(angle)
        assert np.abs(np.linalg.inv(total) - (np.eye(3) + 0.5 * X + k * X @ X)).max() < 1e-12
        step = 1e-5
        if 0.1 < angle < 3.1:
            ahead, behind = (right_jacobian_coefficient(angle + s)[0] for s in (step, -step))
            assert slope == pytest.approx((ahead - behind) / (2 * step * angle), abs=1e-9)
    below, above = (right_jacobian_coefficient(0.05 + s)[1] for s in (-1e-9, 1e-9))
    assert below == pytest.approx(above, abs=1e-8)
