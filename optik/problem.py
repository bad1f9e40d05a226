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
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from optik.checks import LARGEST, instance, numbers, positive, real, whole
from optik.errors import ProblemError, TargetError, unknown_name
from optik.kinematics import Frame
from optik.pose import Array, frozen
from optik.robot import Robot
from optik.target import ALL_ROWS, Target, TargetKind

__all__ = [
    "ALL_ROWS",
    "Budget",
    "Posture",
    "Problem",
    "Shape",
    "Target",
    "TargetKind",
    "TargetShape",
    "Tolerance",
    "shape_of",
]


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
            value = real(getattr(self, name), f"the {name} tolerance", ProblemError)
            if not value > 0.0:
                raise ProblemError(f"the {name} tolerance must be a positive number, got {value!r}")
            object.__setattr__(self, name, value)


_TOLERANCE = Tolerance()


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
        put = object.__setattr__
        put(self, "iterations", whole(self.iterations, "iterations", ProblemError, least=1))
        put(self, "restarts", whole(self.restarts, "restarts", ProblemError, least=0))
        put(self, "seconds", time_limit_of(self.seconds))


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """A robot, what it should reach, where it starts, and how close is close enough.

    Attributes:
        robot: the robot.
        targets: the targets, always a tuple.
        q_init: the start, shape (n,) [rad or m].
        posture: a secondary objective, or None.
        tolerance: when the targets count as reached.
        shape: the structure of the problem.
    """

    robot: Robot
    targets: tuple[Target, ...]
    q_init: Array
    posture: Posture | None
    tolerance: Tolerance
    shape: Shape = field(init=False, repr=False)

    def __init__(
        self,
        robot: Robot,
        targets: Target | Sequence[Target],
        *,
        q_init: ArrayLike | None = None,
        posture: Posture | None = None,
        tolerance: Tolerance = _TOLERANCE,
    ) -> None:
        """Checks and stores a problem.

        Args:
            robot: the robot.
            targets: one target, or several, each for a frame of its own.
            q_init: the start, shape (n,) [rad or m]; `robot.q_nominal` if None.  A start outside
                the limits is moved onto them, for every solver alike; `start_projected` tells so,
                here and in the solution.
            posture: a configuration to stay close to, as far as the targets allow.
            tolerance: when the targets count as reached; 0.1 mm and 1 mrad if left out.

        Raises:
            ProblemError: for anything but a robot and targets, or a posture that does not fit.
            RobotError: for a start that is not n finite numbers.
            UnknownNameError: for a frame that the robot does not have.
        """
        put = object.__setattr__
        if not isinstance(robot, Robot):
            raise ProblemError(f"a problem needs a Robot first, got {type(robot).__name__}")
        targets = (targets,) if isinstance(targets, Target) else targets
        if not isinstance(targets, Sequence) or not targets:
            raise ProblemError("a problem needs a Target or a non-empty list of them")
        for t in targets:
            if not isinstance(t, Target):
                raise ProblemError(f"a problem needs Targets, got {type(t).__name__}")
        put(self, "robot", robot)
        put(self, "targets", tuple(targets))
        start = robot.q_nominal if q_init is None else robot.configuration(q_init)
        put(self, "q_init", frozen(start))
        if np.abs(self.q_init).max() > LARGEST and np.abs(self.q_start).max() > LARGEST:
            i = int(np.abs(self.q_start).argmax())
            raise ProblemError(
                f"q_init of the joint {robot.joint_names[i]!r}, which has no limit, must not be "
                f"beyond {LARGEST:g}, got {start[i]:g}"
            )
        put(self, "tolerance", instance(tolerance, Tolerance, "tolerance=", ProblemError))
        if posture is not None:
            posture = _resolved(instance(posture, Posture, "posture=", ProblemError), robot)
        put(self, "posture", posture)
        # Resolves the frames now, so that an unknown name is reported where it was written.
        put(self, "shape", shape_of(robot, self.targets, posture is not None))

    @cached_property
    def q_start(self) -> Array:
        """The start moved into the limits, shape (n,) [rad or m]; where every solver begins."""
        # Not np.clip, which takes three times as long on arrays this short.
        return frozen(np.minimum(np.maximum(self.q_init, self.robot.lower), self.robot.upper))

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
    """Returns the structure of a problem.

    Raises:
        UnknownNameError: for a frame that is not there.
        TargetError: for a frame that is asked for relative to itself.
    """
    for t in targets:
        if t.relative_to is not None and (
            robot.frame_named(t.relative_to) == robot.frame_named(t.frame)
        ):
            raise TargetError(f"the frame {t.relative_to!r} cannot be given relative to itself")
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
            weights[robot.joint_names.index(name)] = real(
                value, f"joint weight {name}", ProblemError
            )
    elif given is not None:
        weights = numbers(given, f"joint_weights needs {robot.n} numbers", ProblemError)
    if weights.shape != (robot.n,) or not ((weights >= 0.0) & (weights <= LARGEST)).all():
        raise ProblemError(
            f"joint_weights needs {robot.n} non-negative numbers up to {LARGEST:g}, or a mapping "
            f"from joint names, got {weights.tolist()}"
        )
    weight = positive(posture.weight, "the posture weight [m/rad]", ProblemError)
    return Posture(frozen(rest), weight, frozen(weights))


def time_limit_of(seconds: object) -> float | None:
    """Checks a time limit [s].

    Raises:
        ProblemError: unless it is None or positive; an infinite one is none.
    """
    if seconds is None or (isinstance(seconds, (float, np.floating)) and np.isposinf(seconds)):
        return None
    limit = real(seconds, "a time limit [s]", ProblemError)
    if not limit > 0.0:
        raise ProblemError(f"a time limit must be positive [s], got {seconds!r}")
    return limit
