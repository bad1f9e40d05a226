"""Starts that a bounded least-squares backend stumbles over: on a limit, near zero (F09)."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from optik.evaluation import evaluate
from optik.problem import Budget, Problem, Target, Tolerance
from optik.robot import Robot
from optik.solvers import parse_solver

SOLVERS = ("trf", "dogbox")
LINKS = (0.4, 0.3, 0.2)


def planar(ranges: list[tuple[float, float]]) -> Robot:
    """Three hinges about z; links 0.4, 0.3 and 0.2 m along x."""
    body = ""
    end = ""
    offset = 0.0
    for i, (lo, hi) in enumerate(ranges):
        limits = f'limited="true" range="{lo} {hi}"' if np.isfinite(lo) else 'limited="false"'
        body += (
            f'<body pos="{offset} 0 0"><joint name="j{i + 1}" axis="0 0 1" {limits}/>'
            f'<geom type="capsule" size="0.01" fromto="0 0 0 {LINKS[i]} 0 0"/>'
        )
        end += "</body>"
        offset = LINKS[i]
    text = (
        '<mujoco><compiler angle="radian"/><worldbody>'
        f'{body}<site name="tip" pos="{offset} 0 0"/>{end}</worldbody></mujoco>'
    )
    return Robot.load(mujoco.MjModel.from_xml_string(text), frame="tip")


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


@pytest.mark.parametrize("solver", SOLVERS)
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
    robot = planar([(-0.6, 0.6), (0.0, 1.2), (0.0, 1.8)])
    assert error_after(robot, [0.3, 0.7, 0.9], start, solver) < 1e-6


@pytest.mark.parametrize("solver", SOLVERS)
def test_start_near_zero_inside_the_box(solver: str) -> None:
    robot = planar([(-0.6, 0.6), (-0.5, 1.2), (-0.5, 1.8)])
    assert error_after(robot, [0.3, 0.7, 0.9], [0.0, 0.0, 1e-12], solver) < 1e-6
