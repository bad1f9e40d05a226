r"""Windows of joints lifted to moments: the building block of the relaxation.

The idea.  Measure every hinge from the middle of its range, u = middle + phi, |phi| <= h.  Each
entry of a product of hinge transforms is linear in (1, cos phi, sin phi) of each joint, so the pose
after k joints is *linear* in the 3^k products

    y_alpha = prod_i m_i,     m_i in {1, cos phi_i, sin phi_i},

and so are its conformal products: with p the position and M the rotation, |p|^2 / 2, M^T p,
p x M_k and (p p^T - |p|^2 / 2) M.  They are entries of two representations of the rigid motions
whose restriction to one hinge has frequencies -1, 0 and 1 only (the five-dimensional conformal one
and its second exterior power); for six joints they are the products of Raghavan and Roth (1990).

What holds for the moments.  With v_i = (cos phi_i / 2, sin phi_i / 2), the matrices

    kron_i v_i v_i^T     and, for each j,     (cos phi_j - cos h_j) kron_(i != j) v_i v_i^T

are positive semidefinite and linear in y, because each v v^T is linear in cos phi and sin phi.  The
relaxation keeps exactly this (Lasserre 2001).  A hinge that can turn all the way round (h >= pi)
has no second condition.  For one joint this is the exact convex hull of the arc.  Products of
the second kind over two and three joints hold too; they were tried and moved no bound worth the
time.

A joint after a rotation that is known only as a matrix M of moments takes the unit quaternion of M
as a further factor: kron(z z^T, v v^T), linear in the products of (1, M) with (1, cos, sin).  With
the factor symmetric in each part this is the exact convex hull of the pairs (M, M Rot) (M in SO(3),
the angle in its range), because a matrix polynomial in one angle that is nonnegative on an arc is a
sum of squares plus the arc's condition times one (Dette and Studden 2002); the 4 by 4 matrix z z^T
is that of Saunderson, Parrilo and Willsky (2015).

References: Lasserre 2001, "Global optimization with polynomials and the problem of moments";
Saunderson, Parrilo and Willsky 2015, "Semidefinite descriptions of the convex hull of rotation
matrices"; Raghavan and Roth 1990, "Kinematic analysis of the 6R manipulator of general geometry";
Dette and Studden 2002, "Matrix measures, moment spaces and Favard's theorem for the interval [0, 1]
and [0, inf)"; Waki, Kim, Kojima and Muramatsu 2006 on relaxations that couple only neighbouring
variables.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from optik.chain import axis_rotation
from optik.pose import Array
from optik.reachability.path import Step

Indices = NDArray[np.int64]

# v v^T = 1/2 [[1 + cos, sin], [sin, 1 - cos]], one matrix for each of 1, cos, sin.
_HALF_ANGLE = 0.5 * np.array([np.eye(2), [[1.0, 0.0], [0.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]]])


def _quaternion_basis() -> Array:
    """Z = z z^T as a linear function of (1, M_11, M_12, ..., M_33), shape (10, 4, 4)."""
    basis = np.zeros((3, 3, 4, 4))
    signs = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
    for i, row in enumerate(signs):
        for d in range(3):
            basis[d, d, i, i] = row[d]
    for i, (r, c) in enumerate(((2, 1), (0, 2), (1, 0)), start=1):
        basis[r, c, 0, i] = basis[r, c, i, 0] = 1.0
        basis[c, r, 0, i] = basis[c, r, i, 0] = -1.0
    for i, j in ((1, 2), (1, 3), (2, 3)):
        for r, c in ((i - 1, j - 1), (j - 1, i - 1)):
            basis[r, c, i, j] = basis[r, c, j, i] = 1.0
    return 0.25 * np.concatenate((np.eye(4)[None], basis.reshape(9, 4, 4)))


QUATERNION = _quaternion_basis()


@dataclass(frozen=True, eq=False)
class Template:
    """The fixed part of a positive semidefinite condition; every entry is a dyadic fraction.

    Attributes:
        kept: which monomials occur, in the order of the window, shape (K,).
        matrices: symmetric, shape (K, d, d).
        low: which of the kept monomials have the limited joint's factor 1, shape (K,).
    """

    kept: Indices
    matrices: Array
    low: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Block:
    """One positive semidefinite condition, sum_k weights[k] x[ids[k]] matrices[k] >= 0.

    Attributes:
        ids: which variable, -1 for the constant 1, shape (K,).
        weights: -cos h where `template.low`, 1 elsewhere, shape (K,).
        template: the matrices.
    """

    ids: Indices
    weights: Array
    template: Template


@dataclass(frozen=True, eq=False)
class Lifted:
    """A pose that is linear in the moments of one window.

    Attributes:
        ids: the window's moments, the constant 1 (-1) first, shape (K,).
        position: shape (3, K) [m].
        rotation: shape (3, 3, K).
        slides: for each slide of the window its first variable, and the half width [m]; the
            position is `position` plus half width times that variable's vector.
    """

    ids: Indices
    position: Array
    rotation: Array
    slides: tuple[tuple[int, float], ...]


def hinge_basis(step: Step) -> tuple[Array, Array, Array]:
    """Rot(axis, middle + phi) = P_1 + cos(phi) P_c + sin(phi) P_s, three (3, 3) matrices."""
    a = step.axis
    along = np.outer(a, a)
    cross = np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
    turned = axis_rotation(a, step.middle)
    return along, turned - along, cross @ (turned - along)


def lift(steps: Sequence[Step], first: int) -> tuple[Lifted, int]:
    """Lifts a window: hinges to products, slides to a vector each.

    Args:
        steps: the window's joints.
        first: the first free variable.

    Returns:
        The pose after the last joint, and the next free variable.
    """
    hinges = sum(s.hinge for s in steps)
    size = 3**hinges
    ids = np.concatenate(([-1], np.arange(first, first + size - 1)))
    following = first + size - 1
    p, R = np.zeros((3, 1)), np.eye(3)[:, :, None]
    slides = []
    for s in steps:
        p = p + np.einsum("ijk,j->ik", R, s.offset)
        if s.hinge:
            basis = np.stack(hinge_basis(s), axis=-1)
            R = np.einsum("ijk,jlm->ilkm", R, np.einsum("ij,jkm->ikm", s.rotation, basis))
            R = R.reshape(3, 3, -1)
            p = np.pad(p[:, :, None], ((0, 0), (0, 0), (0, 2))).reshape(3, -1)
        else:
            R = np.einsum("ijk,jl->ilk", R, s.rotation)
            p = p + s.middle * np.einsum("ijk,j->ik", R, s.axis)
            slides.append((following, s.half))
            following += 3
    return Lifted(ids, p, R, tuple(slides)), following


@lru_cache(maxsize=256)
def template(joints: int, limited: int, quaternion: bool) -> Template:
    """Kron over the joints: cos - cos h for the limited one, v v^T for the others.

    Args:
        joints: how many hinges.
        limited: which of them gives its limit, or -1.
        quaternion: whether z z^T stands in front.
    """
    factors: list[Array] = [QUATERNION] if quaternion else []
    sizes = [10] * quaternion + [3] * joints
    digits = [range(10)] * quaternion
    for i in range(joints):
        factors.append(np.ones((2, 1, 1)) if i == limited else _HALF_ANGLE)
        digits.append(range(2 if i == limited else 3))
    matrices = np.ones((1, 1, 1))
    for f in factors:
        d = matrices.shape[1] * f.shape[1]
        matrices = np.einsum("aij,bkl->abikjl", matrices, f).reshape(-1, d, d)
    matrices.setflags(write=False)
    combinations = np.array(list(itertools.product(*digits)), dtype=np.int64)
    kept = np.ravel_multi_index(tuple(combinations.T), sizes)
    low = combinations[:, limited + quaternion] == 0 if limited >= 0 else np.zeros(len(kept), bool)
    return Template(kept, matrices, low)


def blocks(steps: Sequence[Step], ids: Indices, *, quaternion: bool = False) -> list[Block]:
    """The positive semidefinite conditions on a window's moments; slides have none.

    Args:
        steps: the window's joints.
        ids: its moments, the constant first, shape (3^k,), or (10 * 3^k,) with a quaternion.
        quaternion: whether the window starts from a rotation that is known by its moments only.
    """
    hinges = [s for s in steps if s.hinge]
    if not hinges:
        return []
    made = []
    for limited in (-1, *(i for i, s in enumerate(hinges) if s.half < np.pi)):
        fixed = template(len(hinges), limited, quaternion)
        weights = np.where(fixed.low, -np.cos(hinges[limited].half), 1.0)
        made.append(Block(ids[fixed.kept], weights, fixed))
    return made


_PAIRS = ((0, 1), (0, 2), (0, 3), (2, 3), (3, 1), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4))
_I, _J = [i for i, _ in _PAIRS], [j for _, j in _PAIRS]


def conformal(rotation: Array, position: Array) -> Array:
    """The 5 by 5 matrix of a rigid motion on (1, x, |x|^2 / 2), shape (5, 5)."""
    C = np.eye(5)
    C[1:4, 0] = position
    C[1:4, 1:4] = rotation
    C[4, 0] = 0.5 * position @ position
    C[4, 1:4] = position @ rotation
    return C


def exterior(C: Array) -> Array:
    """The second exterior power of a 5 by 5 matrix: its 2 by 2 minors, shape (10, 10)."""
    return C[np.ix_(_I, _I)] * C[np.ix_(_J, _J)] - C[np.ix_(_I, _J)] * C[np.ix_(_J, _I)]


def lift_products(steps: Sequence[Step], rotation: Array, offset: Array) -> tuple[Array, Array]:
    """Lifts the conformal products of the pose after a window of hinges and a fixed transform.

    Args:
        steps: hinges.
        rotation: of the fixed transform after them, shape (3, 3).
        offset: of the fixed transform, shape (3,) [m].

    Returns:
        Shape (5, 3^k): 1, p, |p|^2 / 2.  Shape (10, 3, 3^k), a column for each axis k of the frame:
        M_k, p x M_k, p . M_k, (p p^T - |p|^2 / 2) M_k.
    """
    tool = conformal(rotation, offset)
    V, W = tool[:, :1], exterior(tool)[:, :3, None]
    zero = np.zeros(3)
    for s in reversed(steps):
        before = conformal(s.rotation, s.offset)
        before2 = exterior(before)
        turns = hinge_basis(s)
        along, cosine, sine = turns
        turned, quarter, back = along + cosine, along + sine, along - cosine
        five = _parts(*(before @ conformal(r, zero) for r in (turned, quarter, back)))
        ten = _parts(*(before2 @ exterior(conformal(r, zero)) for r in (turned, quarter, back)))
        V = np.stack([a @ V for a in five], axis=1).reshape(5, -1)
        W = np.stack([np.einsum("ij,jkl->ikl", a, W) for a in ten], axis=2).reshape(10, 3, -1)
    return V, W


def _parts(at_middle: Array, at_quarter: Array, at_half: Array) -> tuple[Array, Array, Array]:
    """Splits a + b cos + c sin by its values at 0, pi / 2 and pi."""
    constant = 0.5 * (at_middle + at_half)
    return constant, 0.5 * (at_middle - at_half), at_quarter - constant
