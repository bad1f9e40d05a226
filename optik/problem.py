"""What is asked: targets, the start, the posture, the tolerance and the budget.

    minimise over q    1/2 sum_k ( w_p,k^2 |p_k(q) - p_k*|^2 + w_r,k^2 |r_k(q)|^2 )
                       + 1/2 w_post^2 |W (q - q_rest)|^2
    subject to         lower <= q <= upper

Every number is checked here, once: behind this border a quaternion is a unit quaternion with a
fixed sign, an axis has length one, and every array is finite, read-only and of the right shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from optik.errors import ProblemError, TargetError, unknown_name
from optik.kinematics import Frame
from optik.pose import Array, canonical_quaternion, frozen, quaternion_from_matrix
from optik.robot import Robot

TargetKind = Literal["position", "axis", "pose"]
ALL_ROWS = (True,) * 6


@dataclass(frozen=True, eq=False, init=False)
class Target:
    """What one frame should reach: a position, and optionally an orientation or an axis.

    Attributes:
        position: wanted position, shape (3,) [m], in `relative_to`.
        quaternion: wanted orientation, shape (4,) wxyz, or None.
        axis: (axis fixed to the frame, where it should point), two unit vectors of shape (3,), or
            None.
        frame: name of the controlled frame; the robot's own if None.
        relative_to: name of the frame in which the target is given; the world if None.
        position_weight: w_p [1], cost of a metre.
        rotation_weight: w_r [m/rad], how many metres of position error one radian is worth.
        mask: which of the six error rows (x y z, rotation about x y z) count.
    """

    position: Array
    quaternion: Array | None
    axis: tuple[Array, Array] | None
    frame: str | None
    relative_to: str | None
    position_weight: float
    rotation_weight: float
    mask: tuple[bool, ...]

    def __init__(
        self,
        position: ArrayLike,
        *,
        quaternion: ArrayLike | None = None,
        rotation: ArrayLike | None = None,
        axis: tuple[ArrayLike, ArrayLike] | None = None,
        frame: str | None = None,
        relative_to: str | None = None,
        position_weight: float = 1.0,
        rotation_weight: float = 1.0,
        mask: Sequence[bool] | None = None,
    ) -> None:
        """Checks and stores a target.

        Args:
            position: shape (3,) [m].
            quaternion: w x y z, norm 1 to within 1e-3; q and -q are the same target.
            rotation: rotation matrix, shape (3, 3), instead of a quaternion.
            axis: (body_axis, world_axis) instead of a full orientation.
            frame: the controlled frame, by name.
            relative_to: the frame in which the numbers are given, by name.
            position_weight: w_p, positive.
            rotation_weight: w_r [m/rad], positive.
            mask: six booleans, True where a row counts; rows are along and about the axes of
                `relative_to`.

        Raises:
            TargetError: naming what is wrong and what would be right.
        """
        if sum(given is not None for given in (quaternion, rotation, axis)) > 1:
            raise TargetError("give at most one of quaternion=, rotation= and axis=")
        put = object.__setattr__
        put(self, "position", frozen(_vector(position, "position [m]")))
        if rotation is not None:
            quaternion = quaternion_from_matrix(_rotation_matrix(rotation))
        put(
            self,
            "quaternion",
            None if quaternion is None else frozen(canonical_quaternion(quaternion)),
        )
        put(self, "axis", None if axis is None else _axis_pair(axis))
        for label, value in (("frame", frame), ("relative_to", relative_to)):
            if value is not None and not isinstance(value, str):
                raise TargetError(f"{label}= is the name of a site, body or geom, got {value!r}")
        put(self, "frame", frame)
        put(self, "relative_to", relative_to)
        put(self, "position_weight", _weight(position_weight, "position_weight"))
        put(self, "rotation_weight", _weight(rotation_weight, "rotation_weight [m/rad]"))
        put(self, "mask", _mask(mask))

    @property
    def kind(self) -> TargetKind:
        """One of "position", "axis" and "pose"."""
        if self.quaternion is not None:
            return "pose"
        return "position" if self.axis is None else "axis"


@dataclass(frozen=True)
class TargetShape:
    """The structure of a target without its numbers: what a solver can be built for once."""

    frame: Frame
    relative_to: Frame | None
    kind: TargetKind
    mask: tuple[bool, ...] = ALL_ROWS


@dataclass(frozen=True)
class Shape:
    """The structure of a problem: its targets, and whether a posture is asked for."""

    targets: tuple[TargetShape, ...]
    posture: bool = False


@dataclass(frozen=True, eq=False)
class Posture:
    """A configuration to stay close to, as far as the targets allow.

        1/2 weight^2 sum_i (joint_weights_i (q_i - q_rest_i))^2

    Attributes:
        q_rest: shape (n,) [rad or m]; the middle of the ranges if None.
        weight: w_post [m/rad], used by solvers that put the posture into one sum with the targets;
            at most 1e-3, beyond which the posture pulls the frame off its target.
        joint_weights: W, shape (n,), or a mapping from joint names; joints not named weigh 1.
    """

    q_rest: ArrayLike | None = None
    weight: float = 1e-3
    joint_weights: ArrayLike | Mapping[str, float] | None = None


@dataclass(frozen=True)
class Tolerance:
    """When a target counts as reached.

    Attributes:
        position: largest position error [m].
        rotation: largest rotation error [rad].
    """

    position: float = 1e-4
    rotation: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("position", "rotation"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ProblemError(f"the {name} tolerance must be a positive number, got {value!r}")


@dataclass(frozen=True)
class Budget:
    """How much work a solve may take; one object for every solver.

    Attributes:
        iterations: steps from one start.
        seconds: wall time for the whole solve, all starts together; unlimited if None.
        restarts: how many further starts after the given one.
    """

    iterations: int = 200
    seconds: float | None = None
    restarts: int = 0

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ProblemError(f"a budget needs at least 1 iteration, got {self.iterations}")
        if self.restarts < 0:
            raise ProblemError(f"restarts cannot be negative, got {self.restarts}")
        if self.seconds is not None and not self.seconds > 0:
            raise ProblemError(f"a time limit must be positive [s], got {self.seconds!r}")


@dataclass(frozen=True, eq=False)
class Problem:
    """A robot, what it should reach, where it starts, and how close is close enough.

    Attributes:
        robot: the robot.
        targets: one target or several, each for a frame of its own; always a tuple here.
        q_init: the start, shape (n,) [rad or m]; `robot.q_nominal` if None.
        posture: a secondary objective, or None.
        tolerance: when the targets count as reached.
    """

    robot: Robot
    targets: tuple[Target, ...]
    q_init: Array = field(default=cast(Array, None), kw_only=True)
    posture: Posture | None = field(default=None, kw_only=True)
    tolerance: Tolerance = field(default=Tolerance(), kw_only=True)

    def __post_init__(self) -> None:
        put, robot = object.__setattr__, self.robot
        if not isinstance(robot, Robot):
            raise ProblemError(f"a problem needs a Robot first, got {type(robot).__name__}")
        targets: object = self.targets
        targets = (targets,) if isinstance(targets, Target) else targets
        if not isinstance(targets, Sequence) or not targets:
            raise ProblemError("a problem needs a Target or a non-empty list of them")
        for t in targets:
            if not isinstance(t, Target):
                raise ProblemError(f"a problem needs Targets, got {type(t).__name__}")
        put(self, "targets", tuple(targets))
        q_init = robot.q_nominal if self.q_init is None else robot.configuration(self.q_init)
        put(self, "q_init", frozen(q_init))
        if self.posture is not None:
            put(self, "posture", _resolved(self.posture, robot))
        # Resolves the frames now, so that an unknown name is reported where it was written.
        put(self, "shape", shape_of(robot, self.targets, self.posture is not None))

    shape: Shape = field(init=False, repr=False)

    @cached_property
    def q_start(self) -> Array:
        """The start moved into the limits, shape (n,) [rad or m]; where every solver begins."""
        return frozen(np.clip(self.q_init, self.robot.lower, self.robot.upper))

    @property
    def start_projected(self) -> bool:
        """Whether `q_init` lay outside the limits."""
        return bool((self.q_start != self.q_init).any())

    @property
    def q_rest(self) -> Array:
        """The posture, shape (n,) [rad or m]; the middle of the ranges if none is asked for."""
        if self.posture is None:
            return self.robot.q_mid
        return cast(Array, self.posture.q_rest)

    @property
    def posture_weights(self) -> Array:
        """W of the posture term, shape (n,)."""
        if self.posture is None:
            return np.ones(self.robot.n)
        return cast(Array, self.posture.joint_weights)


def shape_of(robot: Robot, targets: Sequence[Target], posture: bool) -> Shape:
    """Returns the structure of a problem; raises UnknownNameError for a frame that is not there."""
    return Shape(
        tuple(
            TargetShape(
                frame=robot.frame_named(t.frame),
                relative_to=None if t.relative_to is None else robot.frame_named(t.relative_to),
                kind=t.kind,
                mask=t.mask,
            )
            for t in targets
        ),
        posture,
    )


def _resolved(posture: Posture, robot: Robot) -> Posture:
    rest = robot.q_mid if posture.q_rest is None else robot.configuration(posture.q_rest)
    given = posture.joint_weights
    weights = np.ones(robot.n)
    if isinstance(given, Mapping):
        for name, value in given.items():
            if name not in robot.joint_names:
                raise unknown_name("joint", name, robot.joint_names)
            weights[robot.joint_names.index(name)] = value
    elif given is not None:
        weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (robot.n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ProblemError(
            f"joint_weights needs {robot.n} non-negative numbers or a mapping from joint names"
        )
    if not (np.isfinite(posture.weight) and posture.weight > 0):
        raise ProblemError(f"the posture weight must be positive [m/rad], got {posture.weight!r}")
    return Posture(frozen(rest), float(posture.weight), frozen(weights))


def _vector(values: ArrayLike, what: str) -> Array:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TargetError(f"{what} needs 3 numbers: {error}") from None
    if array.shape != (3,):
        raise TargetError(f"{what} needs 3 numbers, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise TargetError(f"{what} needs finite numbers, got {array.tolist()}")
    return array


def _rotation_matrix(values: ArrayLike) -> Array:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TargetError(f"rotation= needs a 3 by 3 matrix: {error}") from None
    if array.shape != (3, 3):
        raise TargetError(f"rotation= needs a 3 by 3 matrix, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise TargetError("rotation= needs finite numbers")
    off = float(np.abs(array @ array.T - np.eye(3)).max())
    determinant = float(np.linalg.det(array))
    if off > 1e-3:
        raise TargetError(f"rotation= needs orthonormal rows; R R^T is off by {off:.2g}")
    if determinant < 0:
        raise TargetError(
            f"rotation= needs determinant +1, got {determinant:.3g}: "
            "a reflection is not a rotation; flip one axis"
        )
    u, _, vt = np.linalg.svd(array)
    return u @ vt


def _axis_pair(axis: tuple[ArrayLike, ArrayLike]) -> tuple[Array, Array]:
    if not isinstance(axis, (tuple, list)) or len(axis) != 2:
        raise TargetError("axis= needs (body_axis, world_axis), two vectors of 3 numbers")
    pair = []
    for values, what in zip(axis, ("body_axis", "world_axis"), strict=True):
        vector = _vector(values, what)
        norm = float(np.linalg.norm(vector))
        if norm < 1e-9:
            raise TargetError(f"{what} must not be zero")
        pair.append(frozen(vector / norm))
    return pair[0], pair[1]


def _weight(value: float, what: str) -> float:
    if not (isinstance(value, (int, float, np.number)) and np.isfinite(value) and value > 0):
        raise TargetError(f"{what} must be a positive number, got {value!r}")
    return float(value)


def _mask(mask: Sequence[bool] | None) -> tuple[bool, ...]:
    if mask is None:
        return ALL_ROWS
    values = tuple(bool(m) for m in mask)
    if len(values) != 6:
        raise TargetError(
            f"mask= needs 6 booleans (x y z, rotation about x y z), got {len(values)}"
        )
    if not any(values):
        raise TargetError("mask= leaves no row of the target")
    return values
