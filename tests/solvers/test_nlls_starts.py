"""Starts that a bounded least-squares backend stumbles over: on a limit, near zero (F09)."""

from __future__ import annotations

import numpy as np
import pytest
from arms import planar_arm

from optik.evaluation import evaluate
from optik.problem import Budget, Problem, Target, Tolerance
from optik.robot import Robot
from optik.solvers import SOLVERS, parse_solver

BOUNDED = [name for name, cls in SOLVERS.items() if cls.family == "bounded-nlls"]


def error_after(robot: Robot, goal: list[float], start: list[float], solver: str) -> float:
    problem = Problem(
        robot,
        (Target(robot.forward(goal).position),),
        q_init=np.array(start),
        tolerance=Tolerance(position=1e-7),
    )
    result = parse_solver(solver).prepare(robot, problem.shape, Budget())(problem)
    judged = evaluate(problem, result.q)
    assert judged.limit_violation == 0.0
    return judged.position_error


@pytest.mark.parametrize("solver", BOUNDED)
@pytest.mark.parametrize(
    "start",
    [
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 1e-12],
        [-0.6, 0.0, 0.0],
        [0.6, 1.2, 1.8],
        [0.6, 0.0, 1.8],
        [0.1, 0.0, 0.5],
        [0.0, 0.6, 0.9],
    ],
)
def test_every_start_is_left(solver: str, start: list[float]) -> None:
    robot = planar_arm([(-0.6, 0.6), (0.0, 1.2), (0.0, 1.8)])
    assert error_after(robot, [0.3, 0.7, 0.9], start, solver) < 1e-6


@pytest.mark.parametrize("solver", BOUNDED)
def test_start_near_zero_inside_the_box(solver: str) -> None:
    robot = planar_arm([(-0.6, 0.6), (-0.5, 1.2), (-0.5, 1.8)])
    assert error_after(robot, [0.3, 0.7, 0.9], [0.0, 0.0, 1e-12], solver) < 1e-6


@pytest.mark.parametrize("solver", BOUNDED)
@pytest.mark.parametrize("start", [0.0, 1e-300, 1e-12, 1.0])
def test_one_joint(solver: str, start: float) -> None:
    robot = planar_arm([(0.0, 1.0)], links=(0.5,))
    assert error_after(robot, [0.3], [start], solver) < 1e-6


@pytest.mark.parametrize("solver", BOUNDED)
@pytest.mark.parametrize("width", [5e-324, 1e-17, 1e-11])
def test_a_range_of_one_rounding_error(solver: str, width: float) -> None:
    """Lower < upper, but not after a shift by one, where SciPy would raise (F08)."""
    ranges = [(-0.6, 0.6), (0.0, width), (0.0, 1.8)]
    robot = planar_arm([(-0.6, 0.6), (0.0, 1.0), (0.0, 1.8)])
    low, high = (np.array(side) for side in zip(*ranges, strict=True))
    robot = robot.replace(lower=low, upper=high, sampling_lower=low, sampling_upper=high)
    assert error_after(robot, [0.3, 0.0, 0.9], [0.1, 0.0, 0.5], solver) < 1e-6


@pytest.mark.parametrize("solver", BOUNDED)
def test_unlimited_joints(solver: str) -> None:
    robot = planar_arm([(-np.inf, np.inf), (0.0, 1.2), (-np.inf, np.inf)])
    assert error_after(robot, [2.5, 0.7, -2.0], [0.1, 0.1, 0.1], solver) < 1e-6
