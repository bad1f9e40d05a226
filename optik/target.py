"""A target: what one frame should reach, checked once and normalised.

Behind this border a quaternion is a unit quaternion with a fixed sign, an axis has length one, and
every array is finite, read-only and of the right shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from optik.checks import LARGEST, listed, numbers, positive
from optik.errors import TargetError, brief
from optik.pose import Array, canonical_quaternion, frozen, quaternion_from_matrix

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
                raise TargetError(
                    f"{label}= is the name of a site, body or geom, got {brief(value)}"
                )
        put(self, "frame", frame)
        put(self, "relative_to", relative_to)
        put(self, "position_weight", _weight(position_weight, "position_weight"))
        put(self, "rotation_weight", _weight(rotation_weight, "rotation_weight [m/rad]"))
        put(self, "mask", _mask(mask, self.kind))

    @property
    def kind(self) -> TargetKind:
        """One of "position", "axis" and "pose"."""
        if self.quaternion is not None:
            return "pose"
        return "position" if self.axis is None else "axis"


def _vector(values: ArrayLike, what: str) -> Array:
    array = numbers(values, f"{what} needs 3 numbers", TargetError)
    if array.shape != (3,):
        raise TargetError(f"{what} needs 3 numbers, got shape {array.shape}")
    if not np.abs(array).max() <= LARGEST:  # nor is a NaN
        size = "" if np.isinf(array).any() or np.isnan(array).any() else f" up to {LARGEST:g}"
        raise TargetError(f"{what} needs finite numbers{size}, got {array.tolist()}")
    return array


def _rotation_matrix(values: ArrayLike) -> Array:
    array = numbers(values, "rotation= needs a 3 by 3 matrix", TargetError)
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
    return positive(value, what, TargetError)


def _mask(mask: Sequence[bool] | None, kind: TargetKind) -> tuple[bool, ...]:
    if mask is None:
        return ALL_ROWS
    what = "mask= needs 6 booleans (x y z, rotation about x y z)"
    given = listed(mask, what, TargetError, count=6)
    if not all(isinstance(m, (bool, np.bool_)) or _is_bit(m) for m in given):
        raise TargetError(f"{what}, got {brief(mask)}")
    values = tuple(bool(m) for m in given)
    if not any(values[:3] if kind == "position" else values):
        raise TargetError("mask= leaves no row of the target")
    if kind == "axis" and not all(values[3:]):
        raise TargetError(
            "an axis target has no rotations about x, y and z to leave out: mask its position "
            "rows only, or give quaternion= instead of axis="
        )
    return values


def _is_bit(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and value in (0, 1)
