"""The descent is monotone, stays inside, and ends where the certificate says a minimum is."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from random_models import random_chain

from optik.diagnosis import descend
from optik.diagnosis.descent import STEP_BOX
from optik.evaluation import evaluate
from optik.problem import Problem, Target
from optik.robot import Robot


def problems(robot: Robot, rng: np.random.Generator, count: int) -> list[Problem]:
    made = []
    for _ in range(count):
        pose = robot.forward(robot.sample(rng))
        quaternion = pose.quaternion if robot.n >= 6 else None
        made.append(Problem(robot, Target(pose.position, quaternion=quaternion)))
    return made


@pytest.mark.parametrize("name", ["panda", "so101", "ur5e", "gen3", "arm2"])
def test_ends_in_a_solution_or_a_minimum(name):
    robot, rng = Robot.load(name), np.random.default_rng(17)
    for problem in problems(robot, rng, 15):
        q = robot.sample(rng)
        descent = descend(problem, q)
        verdict = evaluate(problem, descent.q)
        assert descent.end in ("solved", "minimum")
        assert verdict.limit_violation == 0.0
        assert verdict.solved == (descent.end == "solved")
        assert verdict.cost == pytest.approx(descent.cost, abs=1e-13)
        assert descent.cost <= evaluate(problem, q).cost
        if descent.end == "minimum":
            assert descent.certificate.minimum
            assert descent.certificate.relative_optimality < 1e-8


def test_the_cost_never_rises_and_steps_stay_in_the_box():
    robot, rng = Robot.load("panda"), np.random.default_rng(19)
    for problem in problems(robot, rng, 10):
        q, cost = robot.q_mid, evaluate(problem, robot.q_mid).cost
        for steps in range(1, 25):
            descent = descend(problem, robot.q_mid, max_steps=steps)
            assert descent.cost <= cost * (1 + 1e-12)
            # Deterministic: the path to `steps` begins with the path to `steps - 1`.
            assert np.abs(descent.q - q).max() <= STEP_BOX * (1 + 1e-12)
            q, cost = descent.q, descent.cost


def test_random_chains():
    rng = np.random.default_rng(23)
    for joints in (1, 2, 4, 6, 8):
        robot = random_chain(rng, joints)
        for problem in problems(robot, rng, 5):
            descent = descend(problem, np.clip(robot.q_nominal, robot.lower, robot.upper))
            assert descent.end in ("solved", "minimum")


def test_a_start_outside_is_moved_inside():
    robot = Robot.load("arm7")
    problem = problems(robot, np.random.default_rng(1), 1)[0]
    outside = descend(problem, robot.upper + 1.0)
    assert np.array_equal(outside.q, descend(problem, robot.upper).q)
    assert evaluate(problem, outside.q).limit_violation == 0.0


def test_minima_of_small_error_are_found_too():
    """Targets a fraction of a millimetre out of reach: the cost is 1e-8, the gradient smaller."""
    robot = Robot.load("planar2_05_05")
    for beyond in (2e-4, 1e-3, 1e-2):
        problem = Problem(robot, Target([1.0 + beyond, 0.0, 0.0]))
        descent = descend(problem, np.array([0.3, 0.4]))
        assert descent.end == "minimum"
        assert descent.position_error == pytest.approx(beyond, rel=1e-6)


def test_the_path_is_kept_and_can_be_stopped():
    robot = Robot.load("panda")
    problem = problems(robot, np.random.default_rng(3), 1)[0]
    whole = descend(problem, robot.q_mid)
    assert whole.path.shape == (whole.steps + 1, robot.n)
    assert np.array_equal(whole.path[0], robot.q_mid)
    assert np.array_equal(whole.path[-1], whole.q)
    costs = [evaluate(problem, q).cost for q in whole.path]
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(costs))
    asked = iter([False, False, True])
    part = descend(problem, robot.q_mid, stop=lambda: next(asked))
    assert part.end == "stopped"
    assert np.array_equal(part.path, whole.path[: part.steps + 1])
