"""Targets one after another, by calls of `solve`: warm starts, jumps, failures, single steps.

optik solves no paths.  What it promises to a caller who goes along one is asked here: a start near
the answer stays on its branch, a jump shows in `restarts`, no failure is silent.
"""

from __future__ import annotations

import numpy as np
import pytest
from arms import planar_arm

import optik
from optik.pose import Array
from optik.robot import Robot

SOLVERS = ("box-lm:starts=given", "box-qp", "clamped-dls", "dogbox", "projected-lm")


def along(
    robot: Robot, points: Array, start: Array, **options: object
) -> tuple[list[optik.Solution], Array]:
    """Every point from the answer before it: the solutions, and the largest joint move to each."""
    q, solutions, moves = start, [], []
    for point in points:
        problem = optik.Problem(robot, optik.Target(point), q_init=q)
        solutions.append(optik.solve(problem, **options))
        moves.append(np.abs(solutions[-1].q - q).max())
        q = solutions[-1].q
    return solutions, np.array(moves)


@pytest.mark.parametrize("solver", (None, *SOLVERS))
def test_a_warm_start_stays_on_its_branch(solver):
    """F47: 100 targets on a line that ends 1 mm inside the edge, the arm nearly straight."""
    arm = planar_arm([(-2.8, 2.8)] * 3)
    line = np.linspace([0.35, 0.45, 0.0], [0.899, 0.0, 0.0], 100)
    first = optik.solve(optik.Problem(arm, optik.Target(line[0]), q_init=[0.2, 0.8, 0.6])).q
    solutions, moves = along(arm, line, first, solver=solver)
    assert all(s.success for s in solutions)
    assert moves.max() < 0.3
    assert not any(s.restarts for s in solutions)


@pytest.mark.parametrize("solver", (None, *SOLVERS[1:]))
def test_a_jump_shows_in_the_restarts(solver):
    """F47: at the limit of the shoulder one branch ends; only there another start is needed."""
    arm = planar_arm([(-0.6, 2.5), (-2.5, 2.5)], links=(0.5, 0.4))
    angle = np.linspace(1.0, -0.3, 60)
    arc = 0.6 * np.stack([np.cos(angle), np.sin(angle), np.zeros(60)], axis=1)
    inner = float(np.arccos(0.75))  # of the triangle 0.5, 0.4, 0.6 at the shoulder
    elbow = float(np.arccos(-0.125))
    options = {} if solver is None else {"solver": solver, "restarts": 10}
    solutions, moves = along(arm, arc, np.array([1.0 - inner, elbow]), **options)
    lost = int(np.argmax(angle - inner < -0.6))
    assert all(s.success for s in solutions)
    assert [k for k, s in enumerate(solutions) if s.restarts] == [lost]
    assert np.flatnonzero(moves > 0.3).tolist() == [lost]


def test_failures_on_the_way_are_told_one_by_one():
    """F48: 12 of 50 targets out of reach; which, and why, and the others solved."""
    arm = planar_arm([(-2.8, 2.8)] * 3)
    radius = np.full(50, 0.6)
    out = np.array([3, 4, 5, 11, 17, 18, 26, 30, 31, 40, 48, 49])
    radius[out] = 0.95
    angle = np.linspace(-1.5, 1.5, 50)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], axis=1)
    solutions, _ = along(arm, points, np.array([-1.0, 0.8, 0.6]))
    assert [k for k, s in enumerate(solutions) if not s.success] == out.tolist()
    for k in out:
        failed = solutions[k]
        assert failed.position_error == pytest.approx(0.05, abs=1e-6)
        assert failed.status in ("singular", "constrained_minimum")
        assert "50 mm" in failed.message
        assert failed.prove() is not None and failed.status == "unreachable"
    batch = optik.solve_batch(arm, points)
    assert np.flatnonzero(~batch.solved).tolist() == out.tolist()
    assert "38 of 50" in repr(batch)
    tips = np.array([arm.forward(q).position for q in batch.q])
    gaps = np.linalg.norm(points - tips, axis=1)
    np.testing.assert_allclose(batch.position_errors, gaps, atol=1e-12)
    assert gaps[out].min() > 0.05 - 1e-9


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_step_is_not_told_as_an_answer(solver):
    """F57: 100 mm from mid-range, a single step against a whole solve."""
    robot = optik.Robot.load("panda")
    here = robot.forward(robot.q_mid)
    problem = optik.Problem(
        robot,
        optik.Target(here.position + np.array([0.0, 0.1, 0.0]), quaternion=here.quaternion),
        q_init=robot.q_mid,
        tolerance=optik.Tolerance(1e-6, 1e-6),
    )
    prepared = optik.solvers.parse_solver(solver).prepare(
        robot, problem.shape, optik.Budget(iterations=1)
    )
    step = prepared(problem)
    after = optik.evaluate(problem, step.q)
    assert step.iterations == 1 and step.status is not optik.Claim.CONVERGED
    assert 1e-3 < after.position_error < 0.1 and not after.solved
    whole = optik.solve(problem, solver=solver)
    assert whole.success and whole.iterations > 1
    assert whole.position_error < 1e-6
