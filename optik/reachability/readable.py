r"""The gap stage written out with cvxpy: what the matrices of relaxation.py mean.

Slow and plain, for reading and for the tests, which ask that both give the same number.  Here every
window is one positive semidefinite matrix W standing for the mean of kron_i v_i v_i^T, and what the
fast form does with one table of coefficients is done with sums over entries of W:

    E[prod_i m_i],  m_i in {1, cos, sin}   =  <W, kron_i D_(m_i)>,
    D_1 = I,  D_cos = diag(1, -1),  D_sin = [[0, 1], [1, 0]].

A symmetric W has more freedom than the moments have: that each factor is symmetric by itself (the
partial transpose of W in any factor is W again) is written as an equation.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

from optik.errors import ProblemError
from optik.pose import Array
from optik.reachability.goal import Goal
from optik.reachability.moments import QUATERNION, hinge_basis
from optik.reachability.path import Path, Step
from optik.reachability.relaxation import cuts

_D = (np.eye(2), np.diag([1.0, -1.0]), np.array([[0.0, 1.0], [1.0, 0.0]]))


def _cvxpy() -> Any:
    import cvxpy

    return cvxpy


def gap(path: Path, goal: Goal) -> float:
    """The smallest position gap of the relaxation [m]; inf if no orientation fits.

    Args:
        path: hinges only.
        goal: with an orientation, or with a position alone.

    Raises:
        ProblemError: for slides or axis targets, which only the fast form takes.
    """
    cp = _cvxpy()
    if goal.axis is not None or not all(s.hinge for s in path.steps):
        raise ProblemError("the readable form takes hinges, and poses or positions")
    front, back = cuts(path, goal, "gap")
    count = len(path.steps)
    conditions: list[Any] = []
    p, R = _window(path.steps[:front], conditions)
    for s in path.steps[front : count - back]:
        p, R = _pair(s, p, R, conditions)
    if goal.rotation is None:
        error = p + R @ path.tool_offset - goal.position
    else:
        other = path.reversed()
        bp, bR = _window(other.steps[:back], conditions)
        if back < count:
            rotation, offset = other.steps[back].rotation, other.steps[back].offset
        else:
            rotation, offset = other.tool_rotation, other.tool_offset
        bp, bR = bp + bR @ offset, bR @ rotation
        conditions.append(goal.rotation @ bR == R)
        error = p - goal.position - goal.rotation @ bp
    rows = np.flatnonzero(goal.rows)
    problem = cp.Problem(cp.Minimize(cp.norm(error[rows])), conditions)
    with warnings.catch_warnings():
        # "Almost solved" is told as a warning; the value is good to six digits all the same.
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def _window(steps: tuple[Step, ...], conditions: list[Any]) -> tuple[Any, Any]:
    """Pose after a window of hinges, as expressions in its matrix W."""
    cp = _cvxpy()
    k = len(steps)
    if k == 0:
        return np.zeros(3), np.eye(3)
    W = cp.Variable((2**k, 2**k), PSD=True)
    conditions.append(cp.trace(W) == 1)
    conditions += _symmetric_factors(W, [2] * k)
    for i, s in enumerate(steps):
        if s.half < np.pi:
            conditions.append(_limit(W, 2**i, 2 ** (k - 1 - i), s.half) >> 0)
    p, R = np.zeros(3), np.eye(3)
    for i, s in enumerate(steps):
        # The mean of a product is one inner product with W; a pose is a sum over all products.
        p = p + _mean_pose(W, steps[:i], k) @ s.offset
        R = _mean_pose(W, steps[: i + 1], k)
    return p, R


def _mean_pose(W: Any, steps: tuple[Step, ...], k: int) -> Any:
    """E[A_1 Rot_1 ... A_i Rot_i], shape (3, 3)."""
    cp = _cvxpy()
    total: Any = np.zeros((3, 3))
    for choice in itertools.product(range(3), repeat=len(steps)):
        coefficient: Any = np.eye(3)
        matrix: Any = np.eye(1)
        for s, m in zip(steps, choice, strict=True):
            coefficient = coefficient @ s.rotation @ hinge_basis(s)[m]
            matrix = np.kron(matrix, _D[m])
        matrix = np.kron(matrix, np.eye(2 ** (k - len(steps))))
        total = total + cp.trace(W @ matrix) * coefficient
    return total


def _pair(s: Step, p: Any, M: Any, conditions: list[Any]) -> tuple[Any, Any]:
    """The pose after one more hinge, from a rotation M that is known by its mean."""
    cp = _cvxpy()
    W = cp.Variable((8, 8), PSD=True)
    conditions.append(cp.trace(W) == 1)
    conditions += _symmetric_factors(W, [4, 2])
    if s.half < np.pi:
        conditions.append(_limit(W, 4, 1, s.half) >> 0)
    # z z^T = sum_k QUATERNION[k] M_k, and each M_k = <z z^T, 4 QUATERNION[k]>.
    means = []
    for m in range(3):
        entries = [cp.trace(W @ np.kron(4.0 * QUATERNION[k], _D[m])) for k in range(1, 10)]
        means.append(cp.reshape(cp.hstack(entries), (3, 3), order="C"))
    conditions.append(means[0] == M)
    turns = hinge_basis(s)
    p = p + means[0] @ s.offset
    return p, sum(mean @ s.rotation @ turn for mean, turn in zip(means, turns, strict=True))


def _symmetric_factors(W: Any, sizes: list[int]) -> list[Any]:
    """Equations that say that W does not change when one factor alone is transposed."""
    equations = []
    total = int(np.prod(sizes))
    index = np.arange(total).reshape(sizes)
    for axis, size in enumerate(sizes):
        for a, b in itertools.combinations(range(size), 2):
            rows, columns = np.take(index, a, axis).ravel(), np.take(index, b, axis).ravel()
            part = W[rows][:, columns]
            if part.shape != (1, 1):
                equations.append(part == part.T)
    return equations


def _limit(W: Any, before: int, after: int, half: float) -> Any:
    """E[(cos - cos h) (the other factors)]: the factor between `before` and `after` summed out."""
    total: Any = 0.0
    weight: Array = _D[1] - np.cos(half) * _D[0]
    for a in range(2):
        picked = np.kron(np.kron(np.eye(before), np.eye(2)[a : a + 1]), np.eye(after))
        total = total + weight[a, a] * (picked @ W @ picked.T)
    return total
