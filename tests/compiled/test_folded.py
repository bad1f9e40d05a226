"""The folded kernels: equal to MuJoCo, and to the general kernels in everything they solve."""

from __future__ import annotations

import numpy as np
import pytest
from random_models import random_chain
from test_general import assert_equals_mujoco, core_for

from optik.robot import Robot


@pytest.mark.parametrize("joints", [1, 2, 7, 15, 30])
def test_random_chains(joints):
    rng = np.random.default_rng(100 + joints)
    for _ in range(3 if joints in (1, 7) else 2):  # twelve chains in all
        assert_equals_mujoco(core_for(random_chain(rng, joints), folded=True), rng)


@pytest.mark.parametrize("name", ["arm7", "so101"])
def test_bundled_robots(name):
    robot = Robot.load(name)
    assert_equals_mujoco(core_for(robot, folded=True), np.random.default_rng(3))
