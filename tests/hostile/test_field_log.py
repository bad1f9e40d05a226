"""Items of the field log that no other test asks of the public calls."""

from __future__ import annotations

import numpy as np
import pytest

from optik import Budget, Problem, Robot, Target, Tolerance, solve

DEFAULT = "box-lm:kernel=general,table_size=60"


def test_f46_a_held_target_is_held():
    """The answer to a solved start is that start, to the bit, however often it is asked."""
    arm = Robot.load("arm7")
    pose = arm.forward(arm.q_nominal)
    q = arm.q_nominal
    for _ in range(200):
        target = Target(pose.position, quaternion=pose.quaternion)
        solution = solve(Problem(arm, target, q_init=q), solver=DEFAULT)
        assert (solution.success, solution.iterations) == (True, 0)
        q = solution.q
    assert q.tobytes() == arm.q_nominal.tobytes()


@pytest.mark.parametrize("solver", [DEFAULT, "box-qp", "clamped-dls"])
def test_f57_solve_goes_all_the_way(solver):
    """A move of 100 mm from the middle ends at the tolerance asked for, not after one step."""
    arm = Robot.load("panda")
    pose = arm.forward(arm.q_nominal)
    for axis in np.eye(3):
        target = Target(pose.position - 0.1 * axis, quaternion=pose.quaternion)
        problem = Problem(arm, target, tolerance=Tolerance(1e-6, 1e-6))
        solution = solve(problem, solver=solver, budget=Budget(iterations=1000))
        assert solution.success
        assert solution.iterations > 1
        assert solution.position_error < 1e-6


def test_f60_no_baseline_is_a_straw_man():
    """Every clamped baseline, as it is by default, solves many interior targets from one start."""
    arm = Robot.load("arm7")
    rng = np.random.default_rng(60)
    middle, half = 0.5 * (arm.lower + arm.upper), 0.5 * (arm.upper - arm.lower)
    poses = [arm.forward(middle + half * rng.uniform(-0.7, 0.7, arm.n)) for _ in range(20)]
    solved = {}
    for solver in (
        "clamped-dls", "clamped-dls:clamp=at-end", "clamped-adaptive", "clamped-lm",
        "clamped-line-search", "active-set-dls",
    ):  # fmt: skip
        solved[solver] = sum(
            solve(Problem(arm, Target(p.position, quaternion=p.quaternion)), solver=solver).success
            for p in poses
        )
    assert min(solved.values()) >= 5, solved
