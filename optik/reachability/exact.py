r"""Checks multipliers in exact integer arithmetic.

Multipliers are integers that stand for multiples of 2^-40, the relaxation's data integers that
stand for multiples of 2^-50, and every sum and product is a Python integer, so nothing is rounded
after the data are.  Whoever found the multipliers need not be believed:

- a symmetric matrix is positive definite because its leading minors are positive (fraction-free
  elimination, Bareiss 1968, gives them as the pivots);
- the head of a second-order cone's multiplier is the exact ceiling of the root of its tail;
- value = -F_0^T z - sum_k |F_k^T z| is one integer (relaxation.py, weak duality).

What the data owe to rounding is taken off, generously: 2^-40 (1 + span)^2 for every equation and
unit of its multiplier (its coefficients are sums of products of a few dozen numbers of double
precision), 2^-42 for every unit of a matrix's trace (its coefficients are cosines).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from optik.reachability.goal import Goal
from optik.reachability.moments import Block, Template
from optik.reachability.relaxation import Program
from optik.reachability.slack import slack

MULTIPLIER_BITS = 40
DATA_BITS = 50
TEMPLATE_BITS = 10
VALUE_BITS = MULTIPLIER_BITS + DATA_BITS + TEMPLATE_BITS
SLACK_BITS = VALUE_BITS - MULTIPLIER_BITS
# No multiplier is larger than 2^12, so that an honest proof is quick to check.
LARGEST = 1 << (MULTIPLIER_BITS + 12)


@dataclass(frozen=True)
class Multipliers:
    """What proves one box of joint ranges, in multiples of 2^-40.

    Attributes:
        inner: one for each equation inside the chain.
        groups: for each group, one for each of its equations.
        balls: for each slide, the tail of its cone's multiplier.
        blocks: for each positive semidefinite condition, the lower triangle of a symmetric matrix,
            row by row.
    """

    inner: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    balls: tuple[tuple[int, ...], ...]
    blocks: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Margin:
    """A checked inequality: sum_g norms[g] s_g(errors) >= value for every configuration of the box.

    Attributes:
        value: in multiples of 2^-100.
        names: the groups.
        norms: of their multipliers, rounded up, in multiples of 2^-40.
        reach: see `Program.reach` [m].
        span: see `Program.span` [m].
    """

    value: int
    names: tuple[str, ...]
    norms: tuple[int, ...]
    reach: float
    span: float

    def excludes(self, position: float, rotation: float) -> bool:
        """Whether no configuration has errors within `position` [m] and `rotation` [rad]."""
        cost = 0
        for name, norm in zip(self.names, self.norms, strict=True):
            s = slack(name, position, rotation, reach=self.reach, span=self.span)
            # The slack is a handful of operations in double precision: 1e-12 covers them.
            cost += norm * math.ceil(s * (1.0 + 1e-12) * 2.0**SLACK_BITS)
        return self.value > cost

    def largest(self, rotation: float) -> float | None:
        """The largest position error [m] that is excluded, to a part in 2^30, at a rotation error.

        Returns:
            None if not even a position error of zero is excluded; inf if the position does not
            matter.
        """
        if not self.excludes(0.0, rotation):
            return None
        if all(
            norm == 0 for name, norm in zip(self.names, self.norms, strict=True) if _moves(name)
        ):
            return math.inf
        low, high = 0.0, 2.0 * (1.0 + self.span)
        if self.excludes(high, rotation):
            return high  # nothing is farther from the target than this
        for _ in range(40):
            middle = 0.5 * (low + high)
            if self.excludes(middle, rotation):
                low = middle
            else:
                high = middle
            if high - low <= 2.0**-30 * high:
                break
        return low


def _moves(name: str) -> bool:
    return name not in ("rotation", "axis")


def check(program: Program, goal: Goal, multipliers: Multipliers) -> Margin | None:
    """Checks the multipliers of one box.

    Returns:
        The inequality that they prove, or None if they prove nothing: a wrong shape, a number that
        is no integer or too large, or a matrix that is not positive definite.
    """
    if not _well_formed(program, multipliers):
        return None
    total = [0] * (program.size + 1)  # F^T z, the constant last
    allowance = 0
    rows = [program.inner, *(g.rows for g in program.groups)]
    parts = [multipliers.inner, *multipliers.groups]
    data, z = np.concatenate(rows), [v for part in parts for v in part]
    scale = math.ceil((1.0 + program.span + float(np.linalg.norm(goal.position))) ** 2)
    for r, k, coefficient in zip(*_integers(data), strict=True):
        total[k] += z[r] * coefficient << TEMPLATE_BITS
    allowance += sum(map(abs, z)) * scale << (VALUE_BITS - MULTIPLIER_BITS - 40)
    for block, triangle in zip(program.blocks, multipliers.blocks, strict=True):
        Q = _symmetric(triangle, block.template.matrices.shape[1])
        if not positive_definite(Q):
            return None
        _subtract(total, block, Q)
        trace = sum(Q[i][i] for i in range(len(Q)))
        allowance += trace << (VALUE_BITS - MULTIPLIER_BITS - 42)
    unit = 1 << (VALUE_BITS - MULTIPLIER_BITS)
    for first, tail in zip(program.balls, multipliers.balls, strict=True):
        total[-1] -= ceil_norm(tail) * unit
        for k, v in enumerate(tail):
            total[first + k] -= v * unit
    value = total[-1] - sum(map(abs, total[:-1])) - allowance
    return Margin(
        value=value,
        names=tuple(g.name for g in program.groups),
        norms=tuple(ceil_norm(part) for part in multipliers.groups),
        reach=program.reach,
        span=program.span,
    )


def ceil_norm(vector: Sequence[int]) -> int:
    """The exact ceiling of the Euclidean norm of a vector of integers."""
    square = sum(v * v for v in vector)
    return 0 if square == 0 else math.isqrt(square - 1) + 1


def positive_definite(matrix: Sequence[Sequence[int]]) -> bool:
    """Whether a symmetric matrix of integers has positive leading minors, by exact elimination."""
    A = [list(row[: i + 1]) for i, row in enumerate(matrix)]  # the lower triangle
    n, previous = len(A), 1
    for k in range(n):
        pivot = A[k][k]
        if pivot <= 0:
            return False
        column = [A[i][k] for i in range(k + 1, n)]
        for i in range(k + 1, n):
            row, factor = A[i], column[i - k - 1]
            for j in range(k + 1, i + 1):
                row[j] = (pivot * row[j] - factor * column[j - k - 1]) // previous
        previous = pivot
    return True


def _subtract(total: list[int], block: Block, Q: list[list[int]]) -> None:
    """Takes <Q, F(x)> of one condition off the sum."""
    index, rows, columns, entries = _entries(block.template)
    weights = [round(w) for w in (block.weights * 2.0**DATA_BITS).tolist()]
    sums = [0] * len(weights)
    for k, i, j, entry in zip(index, rows, columns, entries, strict=True):
        sums[k] += entry * Q[i][j]
    for variable, w, value in zip(block.ids.tolist(), weights, sums, strict=True):
        total[variable] -= w * value


@lru_cache(maxsize=256)
def _entries(template: Template) -> tuple[list[int], list[int], list[int], list[int]]:
    """A template's entries on and below the diagonal, the latter twice, in multiples of 2^-10."""
    doubled = np.tril(template.matrices) + np.tril(template.matrices, -1)
    whole = doubled * 2.0**TEMPLATE_BITS  # exact: a product of at most six halves
    k, i, j = np.nonzero(whole)
    return k.tolist(), i.tolist(), j.tolist(), whole[k, i, j].astype(np.int64).tolist()


def _integers(data: NDArray[np.float64]) -> tuple[list[int], list[int], list[int]]:
    """The non-zero entries of a table in multiples of 2^-50: rows, columns, integers."""
    r, k = np.nonzero(data)
    scaled = data[r, k] * 2.0**DATA_BITS
    # A double of size 2^13 or more does not fit 63 bits; int() of the rounded value always does.
    return r.tolist(), k.tolist(), [int(v) for v in np.rint(scaled).tolist()]


def _symmetric(triangle: Sequence[int], d: int) -> list[list[int]]:
    Q = [[0] * d for _ in range(d)]
    k = 0
    for i in range(d):
        for j in range(i + 1):
            Q[i][j] = Q[j][i] = triangle[k]
            k += 1
    return Q


def _well_formed(program: Program, m: Multipliers) -> bool:
    shapes = (
        len(m.inner) == len(program.inner)
        and len(m.groups) == len(program.groups)
        and all(len(a) == len(g.rows) for a, g in zip(m.groups, program.groups, strict=True))
        and len(m.balls) == len(program.balls)
        and all(len(b) == 3 for b in m.balls)
        and len(m.blocks) == len(program.blocks)
        and all(
            len(t) == _triangle(b.template.matrices.shape[1])
            for t, b in zip(m.blocks, program.blocks, strict=True)
        )
    )
    if not shapes:
        return False
    parts = (m.inner, *m.groups, *m.balls, *m.blocks)
    return all(type(v) is int and -LARGEST < v < LARGEST for part in parts for v in part)


def _triangle(d: int) -> int:
    return d * (d + 1) // 2
