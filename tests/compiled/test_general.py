"""The general compiled kinematics against MuJoCo, on chains of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_chain

from optik.compiled.core import Core, Settings
from optik.problem import Problem, Target
from optik.robot import Robot, bundled_robots

BARE = Settings(table_size=0)


def core_for(robot: Robot, *, folded: bool) -> Core:
    pose = robot.forward(robot.q_nominal)
    problem = Problem(robot, (Target(pose.position, quaternion=pose.quaternion),))
    return Core(robot, problem.shape, BARE, folded=folded)


def assert_equals_mujoco(core: Core, rng: np.random.Generator, *, points: int = 5) -> None:
    robot = core.robot
    for _ in range(points):
        q = np.clip(robot.sample(rng), robot.lower, robot.upper)
        pose, jacobian = core.forward(q)
        reference = robot.forward(q)
        assert np.abs(pose[0, :3] - reference.position).max() < 1e-12
        assert np.abs(pose[0, 3:].reshape(3, 3) - reference.rotation).max() < 1e-12
        assert np.abs(jacobian[0] - robot.jacobian(q)).max() < 1e-12


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), joints=st.integers(1, 30))
def test_random_chains(seed, joints):
    rng = np.random.default_rng(seed)
    assert_equals_mujoco(core_for(random_chain(rng, joints), folded=False), rng, points=2)


@pytest.mark.parametrize("name", bundled_robots())
def test_bundled_robots(name):
    robot = Robot.load(name)
    assert_equals_mujoco(core_for(robot, folded=False), np.random.default_rng(3))
