r"""The joints between two frames, with the range of each: what every proof is built from.

The chain of `optik.chain` runs from the world to a frame.  A target may be given relative to
another frame that itself moves; the path then runs from that frame, backwards through its own
joints and forwards to the controlled frame:

    inverse of   F_1 M_1 F_2 ... M_m F_t   is   F_t^-1 M_m^-1 ... F_2^-1 M_1^-1 F_1^-1

and M^-1 turns about the same axis by -u.  Joints that both chains share at their root cancel.

A joint's range here is that of u, the angle or shift that the joint really makes: for a joint that
follows another by a polynomial, the range of that polynomial over the limits.  Two joints of a path
that follow the same entry of q are treated as if they were independent.  That can only enlarge the
set of configurations, so what is proved stays true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optik.chain import ChainJoint, axis_rotation, chain_to
from optik.kinematics import Frame
from optik.pose import Array, frozen
from optik.robot import Robot

# Every range is widened by this much at both ends [rad or m]: the sums and differences that make a
# range are rounded, and a range that is too narrow by 1e-16 would already be a false premise.
WIDENING = 1e-12


@dataclass(frozen=True, eq=False)
class Step:
    """One moving joint of a path and the fixed transform before it.

    Attributes:
        name: the joint's name.
        hinge: whether it turns (True) or slides (False).
        axis: unit axis in the frame before the joint, shape (3,).
        offset: fixed translation before the joint, shape (3,) [m].
        rotation: fixed rotation before the joint, shape (3, 3).
        middle: middle of the range of u [rad or m]; 0 where there is no limit.
        half: half the width of the range [rad or m]; inf for a slide without limits, pi for a hinge
            that can turn all the way round.
    """

    name: str
    hinge: bool
    axis: Array
    offset: Array
    rotation: Array
    middle: float
    half: float


@dataclass(frozen=True, eq=False)
class Path:
    """The joints between two frames and the last fixed transform.

    Attributes:
        steps: in order.
        tool_offset: fixed translation after the last joint, shape (3,) [m].
        tool_rotation: fixed rotation after the last joint, shape (3, 3).
    """

    steps: tuple[Step, ...]
    tool_offset: Array
    tool_rotation: Array

    @property
    def bounded(self) -> bool:
        """Whether no slide is without limits."""
        return all(s.hinge or np.isfinite(s.half) for s in self.steps)

    def halved(self, joint: int) -> tuple[Path, Path]:
        """The two paths in which one joint keeps the lower and the upper half of its range."""
        halves = []
        s = self.steps[joint]
        for sign in (-0.5, 0.5):
            half = 0.5 * s.half + WIDENING
            steps = list(self.steps)
            steps[joint] = replace(s, middle=s.middle + sign * s.half, half=half)
            halves.append(replace(self, steps=tuple(steps)))
        return halves[0], halves[1]

    def reversed(self) -> Path:
        """The same joints seen from the other end."""
        steps = []
        R, p = self.tool_rotation.T, -self.tool_rotation.T @ self.tool_offset
        for s in reversed(self.steps):
            steps.append(replace(s, axis=frozen(-s.axis), offset=frozen(p), rotation=frozen(R)))
            R, p = s.rotation.T, -s.rotation.T @ s.offset
        return Path(tuple(steps), frozen(p), frozen(R))


def path_between(robot: Robot, frame: Frame, base: Frame | None) -> Path:
    """Returns the path from `base` (the world if None) to `frame`, locked joints folded in.

    Args:
        robot: the robot, whose limits give the ranges.
        frame: the controlled frame.
        base: the frame that the target is given in.
    """
    forward = chain_to(robot, frame)
    if base is None:
        return _folded(_ranged(robot, forward.joints), forward.tool_offset, forward.tool_rotation)
    back = chain_to(robot, base)
    shared = 0
    for a, b in zip(forward.joints, back.joints, strict=False):
        if not _same(a, b):
            break
        shared += 1
    there = Path(
        _ranged(robot, forward.joints[shared:]), forward.tool_offset, forward.tool_rotation
    )
    here = Path(
        _ranged(robot, back.joints[shared:]), back.tool_offset, back.tool_rotation
    ).reversed()
    if not there.steps:
        R, p = there.tool_rotation, there.tool_offset
    else:
        R, p = there.steps[0].rotation, there.steps[0].offset
    # Where the chains part, the last fixed transform of one meets the first of the other; both were
    # measured from the last shared joint (or the world), so the two multiply.
    p = here.tool_offset + here.tool_rotation @ p
    R = here.tool_rotation @ R
    if not there.steps:
        return _folded(here.steps, p, R)
    first = replace(there.steps[0], offset=frozen(p), rotation=frozen(R))
    steps = (*here.steps, first, *there.steps[1:])
    return _folded(steps, there.tool_offset, there.tool_rotation)


def _same(a: ChainJoint, b: ChainJoint) -> bool:
    return (
        (a.name, a.kind, a.index, a.reference, a.polynomial)
        == (b.name, b.kind, b.index, b.reference, b.polynomial)
        and np.array_equal(a.axis, b.axis)
        and np.array_equal(a.offset, b.offset)
        and np.array_equal(a.rotation, b.rotation)
    )


def _ranged(robot: Robot, joints: tuple[ChainJoint, ...]) -> tuple[Step, ...]:
    steps = []
    for j in joints:
        lower = float(robot.lower[j.index]) - j.reference
        upper = float(robot.upper[j.index]) - j.reference
        low, high = polynomial_range(j.polynomial, lower, upper)
        hinge = j.kind == "hinge"
        if not (np.isfinite(low) and np.isfinite(high)):
            middle, half = 0.0, np.pi if hinge else np.inf
        elif high == low:
            middle, half = low, 0.0
        else:
            middle, half = 0.5 * (low + high), 0.5 * (high - low) + WIDENING
            if hinge and half >= np.pi:
                middle, half = 0.0, np.pi
        steps.append(Step(j.name, hinge, j.axis, j.offset, j.rotation, middle, half))
    return tuple(steps)


def polynomial_range(
    coefficients: tuple[float, ...], lower: float, upper: float
) -> tuple[float, float]:
    """Smallest and largest value of a polynomial (constant first) over [lower, upper].

    The candidates are the two ends and the real roots of the derivative.
    """
    c = np.trim_zeros(np.asarray(coefficients, dtype=np.float64), "b")
    if len(c) <= 1:
        value = float(c[0]) if len(c) else 0.0
        return value, value
    if len(c) == 2 and c[0] == 0.0 and c[1] == 1.0:
        return lower, upper
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return -np.inf, np.inf
    polynomial = np.polynomial.Polynomial(c)
    stationary = [r.real for r in np.atleast_1d(polynomial.deriv().roots())]
    points = np.clip([lower, upper, *stationary], lower, upper)
    values = polynomial(points)
    # A root is known to about 1e-8 only, where the value is flat to 1e-16: far below the widening.
    slack = WIDENING * (1.0 + float(np.abs(values).max())) if lower < upper else 0.0
    return float(values.min()) - slack, float(values.max()) + slack


def _folded(steps: tuple[Step, ...], tool_offset: Array, tool_rotation: Array) -> Path:
    """Multiplies joints that cannot move into the constants."""
    kept: list[Step] = []
    p, R = np.zeros(3), np.eye(3)
    for s in steps:
        p, R = p + R @ s.offset, R @ s.rotation
        if s.half > 0.0:
            kept.append(replace(s, offset=frozen(p), rotation=frozen(R)))
            p, R = np.zeros(3), np.eye(3)
        elif s.hinge:
            R = R @ axis_rotation(s.axis, s.middle)
        else:
            p = p + R @ (s.axis * s.middle)
    return Path(tuple(kept), frozen(p + R @ tool_offset), frozen(R @ tool_rotation))
