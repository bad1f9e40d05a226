"""What a proof speaks of: one target of a problem, and the path of joints that should reach it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

import numpy as np

from optik.chain import axis_rotation
from optik.kinematics import Frame
from optik.pose import Array, frozen
from optik.problem import ALL_ROWS, Problem
from optik.reachability.path import Path, path_between
from optik.residual import rotation_of
from optik.robot import Robot


@dataclass(frozen=True, eq=False)
class Goal:
    """One target in the axes of its base, and its tolerances.

    Attributes:
        position: shape (3,) [m].
        rotation: wanted rotation, shape (3, 3), or None.
        axis: (axis fixed to the tool, where it should point), or None.
        rows: which coordinates of the position count.
        position_tolerance: [m].
        rotation_tolerance: [rad].
    """

    position: Array
    rotation: Array | None
    axis: tuple[Array, Array] | None
    rows: tuple[bool, ...]
    position_tolerance: float
    rotation_tolerance: float

    @property
    def position_only(self) -> bool:
        """Whether nothing is asked of the tool's rotation."""
        return self.rotation is None and self.axis is None


_PATHS: weakref.WeakKeyDictionary[Robot, dict[tuple[Frame, Frame | None, bool], Path]]
_PATHS = weakref.WeakKeyDictionary()


def path_and_goal(problem: Problem, index: int, *, anew: bool = False) -> tuple[Path, Goal]:
    """Returns the path and the goal of the problem's target number `index`.

    A rotation of which only some rows count is left out altogether: what is then proved is more
    than what was asked.

    Args:
        problem: the problem.
        index: which of its targets.
        anew: fold the path out of the model now, even if this robot's is known.
    """
    target, shape = problem.targets[index], problem.shape.targets[index]
    whole = shape.mask[3:] == ALL_ROWS[3:]
    axis = target.axis if shape.kind == "axis" else None
    goal = Goal(
        position=target.position,
        rotation=frozen(rotation_of(target)) if shape.kind == "pose" and whole else None,
        axis=axis,
        rows=shape.mask[:3],
        position_tolerance=problem.tolerance.position,
        rotation_tolerance=problem.tolerance.rotation,
    )
    key = (shape.frame, shape.relative_to, goal.position_only)
    known = _PATHS.setdefault(problem.robot, {})
    path = None if anew else known.get(key)
    if path is None:
        path = path_between(problem.robot, shape.frame, shape.relative_to)
        if goal.position_only:
            path = without_idle_joints(path)
        known[key] = path
    return path, goal


def without_idle_joints(path: Path) -> Path:
    """Leaves out last hinges whose axis passes through the tool: they do not move its position."""
    while path.steps and path.steps[-1].hinge:
        last = path.steps[-1]
        along = last.axis * (last.axis @ path.tool_offset)
        # Within 1e-15 m the joint's own motion is below every allowance that a proof makes.
        if float(np.linalg.norm(path.tool_offset - along)) > 1e-15:
            break
        turned = last.rotation @ axis_rotation(last.axis, last.middle)
        path = replace(
            path,
            steps=path.steps[:-1],
            tool_offset=frozen(last.offset + turned @ path.tool_offset),
            tool_rotation=frozen(turned @ path.tool_rotation),
        )
    return path
