"""Poses and rotations: unit quaternions in w x y z order, rotation vectors, rotation matrices.

The rotation logarithm goes through the quaternion with atan2 and the sign of w, never through
arccos: it is finite and exact at the identity and at a half turn (Sola, Deray and Atchuthan 2018,
"A micro Lie theory for state estimation in robotics").
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from optik.checks import numbers
from optik.errors import TargetError

Array = NDArray[np.float64]


def frozen(values: ArrayLike) -> Array:
    """Returns a read-only float64 copy of `values`."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def quaternion_from_matrix(rotation: Array) -> Array:
    """Returns the unit quaternion, shape (4,) wxyz, of a rotation matrix, shape (3, 3)."""
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(rotation, dtype=np.float64).reshape(9))
    return quaternion


def matrix_from_quaternion(quaternion: Array) -> Array:
    """Returns the rotation matrix, shape (3, 3), of a unit quaternion, shape (4,) wxyz."""
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, quaternion)
    return rotation.reshape(3, 3)


def rotation_vector(target: Array, current: Array) -> Array:
    """Returns the rotation that turns `current` into `target`, in world axes.

        r = log(target * conj(current)),  |r| in [0, pi]

    Args:
        target: unit quaternion, shape (4,) wxyz.
        current: unit quaternion, shape (4,) wxyz.

    Returns:
        Axis times angle [rad], shape (3,).
    """
    conjugate, difference, vector = np.empty(4), np.empty(4), np.empty(3)
    mujoco.mju_negQuat(conjugate, current)
    mujoco.mju_mulQuat(difference, target, conjugate)
    mujoco.mju_quat2Vel(vector, difference, 1.0)
    return vector


def canonical_quaternion(quaternion: ArrayLike) -> Array:
    """Checks, normalises and signs a quaternion once, at the border of the library.

    Args:
        quaternion: shape (4,), wxyz, norm within 1e-3 of 1.

    Returns:
        The unit quaternion of the same rotation whose first non-zero entry is positive, so that
        q and -q give bit-equal answers.

    Raises:
        TargetError: for a wrong shape, a NaN or a norm that is not 1.
    """
    q = numbers(quaternion, "a quaternion is 4 numbers in w x y z order", TargetError)
    if q.shape != (4,):
        raise TargetError(
            f"a quaternion is 4 numbers in w x y z order, got shape {q.shape}; "
            "give a rotation matrix as rotation=, an axis as axis="
        )
    if not np.all(np.isfinite(q)):
        raise TargetError(f"a quaternion needs finite numbers (w x y z), got {q.tolist()}")
    norm = float(np.linalg.norm(q))
    if abs(norm - 1.0) > 1e-3:
        raise TargetError(
            f"a quaternion (w x y z) needs norm 1 to within 1e-3; {q.tolist()} has norm {norm:.4g}"
        )
    q /= norm
    first = q[np.flatnonzero(np.abs(q) > 0.0)[0]]
    # "+ 0.0" turns the -0.0 that a sign change leaves into 0.0: q and -q must be bit-equal.
    return (q if first > 0 else -q) + 0.0


def canonical_quaternions(quaternions: Array) -> Array:
    """What `canonical_quaternion` makes of each row, shape (N, 4), to the bit."""
    q = unit_rows(quaternions)
    first = q[np.arange(len(q)), np.argmax(np.abs(q) > 0.0, axis=1)]
    return np.where(first[:, None] > 0, q, -q) + 0.0


def unit_rows(vectors: Array) -> Array:
    """Each row divided by its norm, to the bit as one row alone would be."""
    # Summed as np.linalg.norm does it for one row, by dot: another order is another last bit.
    rows = np.ascontiguousarray(vectors)
    return rows / np.sqrt(np.matmul(rows[:, None, :], rows[:, :, None]))[:, 0]


@dataclass(frozen=True, eq=False)
class Pose:
    """Position and orientation of a frame in the world.

    Attributes:
        position: shape (3,) [m].
        quaternion: unit quaternion, shape (4,) wxyz.
    """

    position: Array
    quaternion: Array

    def __post_init__(self) -> None:
        for name, size in (("position", 3), ("quaternion", 4)):
            array = numbers(getattr(self, name), f"a pose's {name} is {size} numbers", TargetError)
            if array.shape != (size,):
                raise TargetError(f"a pose's {name} is {size} numbers, got shape {array.shape}")
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def rotation(self) -> Array:
        """Rotation matrix, shape (3, 3)."""
        return matrix_from_quaternion(self.quaternion)
