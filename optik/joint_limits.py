"""Joint limits: read from the compiled model, overridden with a unit, narrowed by couplings.

Limits come from MuJoCo's `jnt_limited` and `jnt_range` only, which hold radians and metres whatever
the file was written in.  A joint whose flag is off is unlimited, whatever numbers are stored.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import mujoco
import numpy as np
from numpy.polynomial.polynomial import polyroots

from optik.checks import LARGEST, listed, real
from optik.couplings import joint_name
from optik.errors import RobotError, brief, unknown_name
from optik.kinematics import Coupling
from optik.pose import Array

Unit = Literal["rad", "deg"]
Limits = Mapping[str, "tuple[float | None, float | None] | None"]
Margin = float | str
_HINGE = int(mujoco.mjtJoint.mjJNT_HINGE)
# Some importers write "unlimited" as a huge finite range; nobody should draw from that.
_HUGE = 1e3  # [rad or m]


class LimitWarning(UserWarning):
    """A limit margin that is wider than a joint's range."""


@dataclass
class Ranges:
    """The range of every joint of a model, by joint id, and where it comes from.

    Attributes:
        lower: shape (njnt,) [rad or m], -inf where unlimited.
        upper: shape (njnt,) [rad or m].
        origin: for each joint, what last set its range, for the limits table.
    """

    lower: Array
    upper: Array
    origin: list[str]


def model_ranges(model: mujoco.MjModel) -> Ranges:
    """The ranges as MuJoCo compiled them; an end beyond 1e12 stands for no limit."""
    limited = model.jnt_limited.astype(bool)
    lower = np.where(limited, model.jnt_range[:, 0], -np.inf)
    upper = np.where(limited, model.jnt_range[:, 1], np.inf)
    lower, upper = (
        np.where(lower < -LARGEST, -np.inf, lower),
        np.where(upper > LARGEST, np.inf, upper),
    )
    return Ranges(lower, upper, ["model"] * model.njnt)


def override(ranges: Ranges, model: mujoco.MjModel, limits: Limits, unit: Unit | None) -> None:
    """Replaces ranges by those that the user gives.

    Args:
        ranges: changed in place.
        model: the model.
        limits: (lower, upper) by joint name; None, or an end that is None, is unlimited.
        unit: "rad" or "deg", for hinges; slides are always in metres.

    Raises:
        RobotError: for a missing unit or an empty range.
    """
    if not isinstance(limits, Mapping):
        raise RobotError(f"limits= needs (lower, upper) by joint name, got {brief(limits)}")
    names = {joint_name(model, j): j for j in range(model.njnt)}
    for name, given in limits.items():
        if name not in names:
            raise unknown_name("joint", name, names)
        j = names[name]
        hinge = int(model.jnt_type[j]) == _HINGE
        if hinge and not (isinstance(unit, str) and unit in ("rad", "deg")):
            raise RobotError(
                f"limits= needs unit='rad' or unit='deg' for hinges, got {brief(unit)}"
            )
        pair = (None, None) if given is None else given
        low, high = (
            _end(value, missing, name)
            for value, missing in zip(
                listed(pair, f"limits[{name!r}] needs (lower, upper)", RobotError, count=2),
                (-np.inf, np.inf),
                strict=True,
            )
        )
        if not low <= high:
            raise RobotError(f"limits[{name!r}] needs lower <= upper, got ({low}, {high})")
        scale = np.pi / 180.0 if hinge and unit == "deg" else 1.0
        ranges.lower[j], ranges.upper[j] = scale * low, scale * high
        ranges.origin[j] = "limits="


def _end(value: object, missing: float, name: str) -> float:
    """One end of a range that the user gives; None and the infinity on its side are no limit."""
    if value is None or (isinstance(value, (float, np.floating)) and value == missing):
        return missing
    end = real(value, f"limits[{name!r}]: an end that is not None", RobotError)
    return missing if abs(end) > LARGEST and (end > 0.0) == (missing > 0.0) else end


def narrow_by_couplings(
    ranges: Ranges,
    model: mujoco.MjModel,
    joint_ids: Sequence[int],
    couplings: Sequence[Coupling],
    nominal: Array,
) -> None:
    """Narrows the ranges of driving joints so that the joints that follow stay in theirs.

    Where a polynomial leaves several intervals, the one nearest to the nominal value is kept.

    Args:
        ranges: changed in place.
        model: the model.
        joint_ids: the robot's joints.
        couplings: what they drive.
        nominal: their nominal values, shape (n,) [rad or m].

    Raises:
        RobotError: if no value of a driving joint keeps a dependent joint inside its range.
    """
    dependents = {int(model.jnt_qposadr[j]): j for j in range(model.njnt)}
    for c in couplings:
        d, j = dependents[c.qpos_address], joint_ids[c.joint]
        if not np.isfinite([ranges.lower[d], ranges.upper[d]]).any():
            continue
        kept = feasible_intervals(
            c, ranges.lower[d], ranges.upper[d], float(ranges.lower[j]), float(ranges.upper[j])
        )
        if not kept:
            raise RobotError(
                f"joint {c.name!r} follows {joint_name(model, j)!r}, but no value of that joint "
                f"within its range keeps {c.name!r} inside [{ranges.lower[d]:g}, "
                f"{ranges.upper[d]:g}]; widen one of the two with limits="
            )
        q = float(nominal[c.joint])
        low, high = min(kept, key=lambda i: max(i[0] - q, q - i[1], 0.0))
        if (low, high) != (ranges.lower[j], ranges.upper[j]):
            ranges.lower[j], ranges.upper[j] = low, high
            ranges.origin[j] = f"coupled joint {c.name}"


def feasible_intervals(
    c: Coupling, low: float, high: float, source_low: float, source_high: float
) -> list[tuple[float, float]]:
    """Finds where a driving joint leaves the joint that follows it inside its range.

    Args:
        c: the coupling.
        low: lower limit of the dependent joint [rad or m].
        high: its upper limit.
        source_low: lower limit of the driving joint.
        source_high: its upper limit.

    Returns:
        The intervals of [source_low, source_high] in which low <= q_c <= high, rising.
    """
    cuts = {source_low, source_high}
    for bound in (low, high):
        if np.isfinite(bound):
            shifted = np.array(c.coefficients)
            shifted[0] += c.reference - bound
            constant = not shifted[1:].any()
            roots = () if constant else polyroots(np.trim_zeros(shifted, "b"))
            real = (float(r.real) + c.source_reference for r in roots if abs(r.imag) < 1e-9)
            cuts |= {r for r in real if source_low < r < source_high}
    ordered = sorted(cuts)
    if len(ordered) == 1:  # a locked driving joint
        inside = low <= c.value(source_low) <= high
        return [(source_low, source_low)] if inside else []
    kept: list[tuple[float, float]] = []
    for a, b in pairwise(ordered):
        if low <= c.value(_between(a, b)) <= high:
            if kept and kept[-1][1] == a:
                kept[-1] = (kept[-1][0], b)
            else:
                kept.append((a, b))
    if not kept:  # a dependent joint that is locked leaves single points
        tolerance = 1e-12 * max(1.0, abs(low), abs(high))
        points = (r for r in ordered if np.isfinite(r))
        return [(r, r) for r in points if low - tolerance <= c.value(r) <= high + tolerance]
    return [(_inward(c, low, high, a, b), _inward(c, low, high, b, a)) for a, b in kept]


def _between(a: float, b: float) -> float:
    if np.isfinite(a) and np.isfinite(b):
        return 0.5 * (a + b)
    if np.isfinite(a):
        return a + 1.0
    return b - 1.0 if np.isfinite(b) else 0.0


def _inward(c: Coupling, low: float, high: float, end: float, other: float) -> float:
    """Moves a rounded root by the few units in the last place that put q_c inside."""
    step = abs(np.spacing(end)) if np.isfinite(end) else 0.0
    sign = 1.0 if other > end else -1.0
    moved = end
    while step and not low <= c.value(moved) <= high and step < 1e-9 * max(1.0, abs(end)):
        moved = end + sign * step
        step *= 2.0
    return moved


def with_margin(
    ranges: Ranges, model: mujoco.MjModel, joint_ids: Sequence[int], margin: object
) -> None:
    """Moves both limits of joints inwards.

    Args:
        ranges: changed in place.
        model: the model.
        joint_ids: the robot's joints.
        margin: a distance [rad or m] or a share of the range such as "5%" for every joint, or a
            mapping from joint names to either.

    A range narrower than twice its margin is locked at its middle, and a LimitWarning says so.

    Raises:
        RobotError: for a margin that is negative or not understood.
    """
    names = {joint_name(model, j): j for j in joint_ids}
    given = margin if isinstance(margin, Mapping) else dict.fromkeys(names, margin)
    for name, value in given.items():
        if name not in names:
            raise unknown_name("joint", name, names)
        j = names[name]
        low, high = float(ranges.lower[j]), float(ranges.upper[j])
        distance = _distance(value, high - low)
        if distance == 0.0:
            continue
        if 2.0 * distance > high - low:
            middle = 0.5 * (low + high)
            warnings.warn(
                f"the limit margin of joint {name!r}, {distance:g} on either side, is wider than "
                f"its range [{low:g}, {high:g}]; it is locked at the middle, {middle:g}",
                LimitWarning,
                stacklevel=4,
            )
            ranges.lower[j] = ranges.upper[j] = middle
        else:
            ranges.lower[j], ranges.upper[j] = low + distance, high - distance
        ranges.origin[j] += ", margin"


def _distance(value: object, width: float) -> float:
    try:
        if isinstance(value, str):
            number, percent, rest = value.partition("%")
            share = float(number) / 100.0 if percent and not rest.strip() else np.nan
            distance = share * width if np.isfinite(width) else 0.0 * share
        else:
            distance = real(value, "limit_margin=", RobotError)
    except ValueError:  # a RobotError is one
        distance = np.nan
    if not (np.isfinite(distance) and distance >= 0.0):
        raise RobotError(f"limit_margin= needs a distance [rad or m] or 'N%', got {brief(value)}")
    return distance


def sampling_ranges(
    lower: Array, upper: Array, nominal: Array, spans: Array
) -> tuple[Array, Array]:
    """Where random configurations are drawn from: the limits, and a finite span where none are.

    Args:
        lower: shape (n,) [rad or m].
        upper: shape (n,).
        nominal: shape (n,); the middle of the span of a joint with no limit at all.
        spans: width to draw from where a limit is missing, shape (n,).

    Returns:
        Lower and upper ends, shape (n,) each, finite.
    """
    no_lower, no_upper = lower < -_HUGE, upper > _HUGE
    low = np.where(no_lower, np.where(no_upper, nominal - 0.5 * spans, upper - spans), lower)
    high = np.where(no_upper, np.where(no_lower, nominal + 0.5 * spans, lower + spans), upper)
    return low, high
