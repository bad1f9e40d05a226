"""Problems that are reachable by construction."""

from __future__ import annotations

import numpy as np

from optik.problem import Problem, Target
from optik.robot import Robot


def reachable_problem(robot: Robot, rng: np.random.Generator, **options: object) -> Problem:
    """A problem whose target is the pose of a random configuration inside the limits.

    A robot with fewer than six joints gets a position target.
    """
    pose = robot.forward(robot.sample(rng))
    quaternion = pose.quaternion if robot.n >= 6 else None
    return Problem(robot, (Target(pose.position, quaternion=quaternion),), **options)
