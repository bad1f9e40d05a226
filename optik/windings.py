"""Equivalent windings: a hinge that can turn further than once has several values for one pose.

    q_i + 2 pi k_i,   k_i an integer,   lower_i <= q_i + 2 pi k_i <= upper_i

Every frame of the model stands the same at all of them.  Slides are never shifted, nor is a hinge
that another joint follows by a coupling: the follower would move.  The pose is equal to rounding
only, so whatever is decided about a configuration has to be decided again after a shift.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from optik.errors import RobotError
from optik.pose import Array
from optik.robot import Robot

_TURN = 2.0 * np.pi


def nearest_winding(robot: Robot, q: ArrayLike, reference: ArrayLike) -> Array:
    """Shifts hinges by whole turns to the winding nearest to a reference, inside the limits.

    A hinge outside its range that has a winding inside is brought inside; one that has none is
    left as it is, as is one whose given value is already nearest: its bits do not change.

    Args:
        robot: the robot.
        q: configuration, shape (n,) [rad or m].
        reference: where to be near, shape (n,); the start or a rest posture.

    Returns:
        The shifted configuration, shape (n,).
    """
    values, near = np.array(robot.configuration(q)), robot.configuration(reference)
    for i in _turning(robot):
        options = _options(float(values[i]), robot.lower[i], robot.upper[i], float(near[i]))
        if options:
            values[i] = options[0]
    return values


def windings(robot: Robot, q: ArrayLike, reference: ArrayLike, *, most: int = 1024) -> Array:
    """Lists the windings of a configuration inside the limits, nearest to a reference first.

    A hinge without limits has windings without end; only the one nearest to the reference is
    listed for it.

    Args:
        robot: the robot.
        q: configuration, shape (n,) [rad or m].
        reference: where to be near, shape (n,).
        most: the largest number of windings to list.

    Returns:
        Shape (k, n), by distance from the reference; (0, n) if a joint has no winding inside.

    Raises:
        RobotError: if there are more than `most`.
    """
    values, near = robot.configuration(q), robot.configuration(reference)
    turning = set(_turning(robot))
    choices: list[list[float]] = []
    for i in range(robot.n):
        value, low, high = float(values[i]), float(robot.lower[i]), float(robot.upper[i])
        if i in turning:
            options = _options(value, low, high, float(near[i]))
            choices.append(options if np.isfinite(high - low) else options[:1])
        else:
            choices.append([value] if low <= value <= high else [])
    count = int(np.prod([len(c) for c in choices], dtype=np.float64))
    if count > most:
        raise RobotError(f"there are {count} windings, more than most={most}")
    listed = np.array(list(itertools.product(*choices))).reshape(count, robot.n)
    order = np.argsort(np.linalg.norm(listed - near, axis=1), kind="stable")
    return listed[order]


@lru_cache(maxsize=64)
def can_turn_around(robot: Robot) -> bool:
    """Whether some hinge of the robot has two values for one pose within its range."""
    # Not upper - lower >= 2 pi: both ends of exactly one turn are the same pose as well.
    return any(float(robot.upper[i] - robot.lower[i]) > _TURN - 1e-9 for i in _turning(robot))


def _turning(robot: Robot) -> list[int]:
    leaders = {c.joint for c in robot.joint_map.couplings}
    return [i for i, kind in enumerate(robot.joint_kinds) if kind == "hinge" and i not in leaders]


def _options(value: float, low: float, high: float, near: float) -> list[float]:
    """The windings of one hinge inside [low, high], nearest first; a tie keeps the given value."""
    if np.isinf(low) and np.isinf(high):
        turns = {round((near - value) / _TURN)}
    elif np.isinf(low) or np.isinf(high):
        end = high if np.isinf(low) else low
        k = (end - value) / _TURN
        last = int(np.floor(k)) if np.isinf(low) else int(np.ceil(k))
        inner = round((near - value) / _TURN)
        turns = {min(inner, last) if np.isinf(low) else max(inner, last)}
    else:
        turns = set(
            range(int(np.ceil((low - value) / _TURN)) - 1, int((high - value) // _TURN) + 2)
        )
    turns |= {0}
    shifted = [value + k * _TURN if k else value for k in turns]
    inside = [v for v in shifted if low <= v <= high]
    return sorted(inside, key=lambda v: (abs(v - near), abs(v - value)))
