r"""A chain in normal form: every joint turns about, or slides along, the z axis of its own frame.

The chain of optik.chain has joints with any axis.  With C_i a constant rotation that takes z onto
the axis of joint i, M_i = C_i Mz_i C_i^T, and the C_i go into the fixed transforms between:

    T = F_0 Mz_1 F_1 Mz_2 ... Mz_m F_m,      F_i = C_i^T (t_i, R_i) C_{i+1}

A turn about z costs twelve multiplications, where one about any axis costs twenty-seven and the
matrix itself.  Between two hinges the fixed rotation R = Rz(a) Rx(b) Rz(c) keeps only Rx(b): the
constants a and c are added to the angles of the two hinges (Denavit and Hartenberg 1955 choose
their frames for the same reason).  Entries within 2e-15 of 0, 1 or -1 are rounded to them, so that
the folded kernel can leave the multiplication out; this moves a frame by less than 1e-13 of the
arm's length at 30 joints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optik.chain import DIRECT, Chain
from optik.pose import Array, frozen

_ROUND = 2e-15


@dataclass(frozen=True, eq=False)
class NormalJoint:
    """One joint about or along z, and the fixed transform before it.

        hinge: Rot(z, u),   slide: Trans(z u),   u = shift + poly(q[index] - reference)

    Attributes:
        hinge: True for a hinge, False for a slide.
        index: which entry of q moves it.
        shift: constant added to the joint's value [rad or m].
        reference: value of q[index] at which poly(0) applies [rad or m].
        polynomial: five coefficients, constant first.
        offset: fixed translation before the joint, shape (3,) [m].
        rotation: fixed rotation before the joint, shape (3, 3).
    """

    hinge: bool
    index: int
    shift: float
    reference: float
    polynomial: tuple[float, ...]
    offset: Array
    rotation: Array

    @property
    def direct(self) -> bool:
        """Whether u = shift + q[index] - reference, without a polynomial."""
        return self.polynomial == DIRECT


@dataclass(frozen=True, eq=False)
class NormalChain:
    """A whole chain in normal form.

    Attributes:
        joints: in order from the world.
        tool_offset: fixed translation after the last joint, shape (3,) [m].
        tool_rotation: fixed rotation after the last joint, shape (3, 3).
    """

    joints: tuple[NormalJoint, ...]
    tool_offset: Array
    tool_rotation: Array


def normal_form(chain: Chain) -> NormalChain:
    """Brings a chain into normal form; the frame's pose is the same to rounding."""
    m = len(chain.joints)
    turns = [_onto(j.axis) for j in chain.joints]
    offsets: list[Array] = []
    rotations: list[Array] = []
    before = np.eye(3)
    for joint, turn in zip(chain.joints, turns, strict=True):
        offsets.append(before.T @ joint.offset)
        rotations.append(before.T @ joint.rotation @ turn)
        before = turn
    offsets.append(before.T @ chain.tool_offset)
    rotations.append(before.T @ chain.tool_rotation)
    shifts = [0.0] * m
    for i in range(1, m):
        if chain.joints[i - 1].kind != "hinge" or chain.joints[i].kind != "hinge":
            continue
        if _plain(rotations[i]):
            continue
        first, middle, last = _zxz(rotations[i])
        shifts[i - 1] += first
        shifts[i] += last
        offsets[i] = _rz(first).T @ offsets[i]
        rotations[i] = _rx(middle)
    return NormalChain(
        joints=tuple(
            NormalJoint(
                hinge=j.kind == "hinge",
                index=j.index,
                shift=shifts[i],
                reference=j.reference,
                polynomial=tuple(float(c) for c in j.polynomial),
                offset=frozen(_rounded(offsets[i])),
                rotation=frozen(_rounded(rotations[i])),
            )
            for i, j in enumerate(chain.joints)
        ),
        tool_offset=frozen(_rounded(offsets[m])),
        tool_rotation=frozen(_rounded(rotations[m])),
    )


def _onto(axis: Array) -> Array:
    """A rotation whose third column is `axis`; a signed permutation for the six main axes."""
    k = int(np.argmax(np.abs(axis)))
    others = np.delete(axis, k)
    z = np.array(axis, dtype=np.float64)
    if (np.abs(others) < _ROUND).all():
        z = np.zeros(3)
        z[k] = math.copysign(1.0, axis[k])
    x = np.zeros(3)
    x[(k + 1) % 3] = 1.0
    x -= (x @ z) * z
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def _rounded(values: Array) -> Array:
    out = np.array(values, dtype=np.float64)
    for exact in (0.0, 1.0, -1.0):
        out[np.abs(out - exact) < _ROUND] = exact
    return out + 0.0


def _plain(rotation: Array) -> bool:
    return bool(np.isin(_rounded(rotation), (0.0, 1.0, -1.0)).all())


def _zxz(R: Array) -> tuple[float, float, float]:
    """Angles with R = Rz(a) Rx(b) Rz(c); a = 0 where the z axes are parallel."""
    sine = math.hypot(R[0, 2], R[1, 2])
    if sine < _ROUND:
        return 0.0, 0.0 if R[2, 2] > 0 else math.pi, math.atan2(-R[0, 1], R[0, 0])
    a = math.atan2(R[0, 2], -R[1, 2])
    c = math.atan2(R[2, 0], R[2, 1])
    return a, math.atan2(sine, R[2, 2]), c


def _rz(angle: float) -> Array:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _rx(angle: float) -> Array:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
