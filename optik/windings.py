"""Equivalent windings: a hinge that can turn further than once has several values for one pose.

    q_i + 2 pi k_i,   k_i an integer,   lower_i <= q_i + 2 pi k_i <= upper_i

Every frame of the model stands the same at all of them.  Slides are never shifted, nor is a hinge
that another joint follows by a coupling: the follower would move.  The pose is equal to rounding
only, so whatever is decided about a configuration has to be decided again after a shift.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from optik.errors import RobotError
from optik.pose import Array
from optik.robot import Robot

_TURN = 2.0 * np.pi
_HALF_TURN = 0.5 * _TURN * (1.0 - 1e-12)  # less than it from the reference no winding is nearer


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
        value, low, high = float(values[i]), float(robot.lower[i]), float(robot.upper[i])
        nearest = _nearest(value, low, high, float(near[i]))
        if nearest is not None:
            values[i] = nearest
    return values


def nearest_windings(robot: Robot, q: Array, reference: Array) -> Array:
    """`nearest_winding` for rows: q of shape (N, n), reference of shape (N, n) or (n,).

    Bit for bit what the rows give one after another.
    """
    values, near = q.copy(), np.broadcast_to(reference, q.shape)
    for i in _turning(robot):
        value, low, high = values[:, i].copy(), robot.lower[i], robot.upper[i]
        first, last = np.ceil((low - value) / _TURN), np.floor((high - value) / _TURN)
        turn = np.minimum(np.maximum(np.round((near[:, i] - value) / _TURN), first), last)
        turns = np.stack([np.zeros_like(turn), turn - 1.0, turn, turn + 1.0])
        turns[~np.isfinite(turns)] = 0.0
        shifted = np.where(turns == 0.0, value, value + turns * _TURN)
        away = np.abs(shifted - near[:, i])
        away[(shifted < low) | (shifted > high)] = np.inf
        moved = np.abs(shifted - value)
        moved[away > away.min(axis=0)] = np.inf
        best = np.take_along_axis(shifted, moved.argmin(axis=0)[None], axis=0)[0]
        values[:, i] = np.where(np.isfinite(away).any(axis=0), best, value)
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
        if i not in turning:
            choices.append([value] if low <= value <= high else [])
        elif not np.isfinite(high - low):
            nearest = _nearest(value, low, high, float(near[i]))
            choices.append([] if nearest is None else [nearest])
        elif (high - low) / _TURN > most + 1:
            raise RobotError(
                f"{robot.joint_names[i]!r} alone has {int((high - low) / _TURN)} windings, more "
                f"than most={most}"
            )
        else:
            choices.append(_options(value, low, high))
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


def _nearest(value: float, low: float, high: float, near: float) -> float | None:
    """The winding of one hinge inside [low, high] nearest to `near`; None if there is none.

    A tie keeps the given value.  Nothing is listed: a range may be wider than can be listed.
    """
    if low <= value <= high and abs(value - near) <= _HALF_TURN:
        return value
    turn = float(round((near - value) / _TURN))
    if low > -math.inf:
        turn = max(turn, float(math.ceil((low - value) / _TURN)))
    if high < math.inf:
        turn = min(turn, float(math.floor((high - value) / _TURN)))
    best, least = None, (math.inf, math.inf)
    # The ends of the window are rounded, so the turns beside them are looked at as well.
    for t in (0.0, turn - 1.0, turn, turn + 1.0):
        v = value + t * _TURN if t else value
        if low <= v <= high and (abs(v - near), abs(v - value)) < least:
            best, least = v, (abs(v - near), abs(v - value))
    return best


def _options(value: float, low: float, high: float) -> list[float]:
    """Every winding of one hinge inside the finite range [low, high], not too many to list."""
    first, last = _window(value, low, high)
    turns = {0, *range(int(first) - 1, int(last) + 2)}
    shifted = [value + t * _TURN if t else value for t in turns]
    return [v for v in shifted if low <= v <= high]


def _window(value: float, low: float, high: float) -> tuple[float, float]:
    """The fewest and the most whole turns that keep a value inside [low, high], to rounding."""
    return float(np.ceil((low - value) / _TURN)), float(np.floor((high - value) / _TURN))
