"""Finds multipliers for the relaxation with Clarabel, on matrices and nothing else.

Only the numbers of the dual are used.  The solver's status is not looked at: whatever it returns is
rounded, and the exact check decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from optik.pose import Array
from optik.problem import Tolerance
from optik.reachability.exact import LARGEST, MULTIPLIER_BITS, Multipliers
from optik.reachability.relaxation import Program
from optik.reachability.slack import slack

# Added to the diagonal of every matrix, so that rounding does not cost it its definiteness.
LIFT = 1 << (MULTIPLIER_BITS - 36)


@dataclass(frozen=True, eq=False)
class Found:
    """What the solver returned for one program.

    Attributes:
        multipliers: rounded; None where the solver returned no usable numbers.
        moments: its primal point, shape (n,).
    """

    multipliers: Multipliers | None
    moments: Array


def find(
    program: Program,
    tolerance: Tolerance,
    *,
    precise: bool = True,
    seconds: float | None = None,
) -> Found:
    """Solves one relaxation.

    Args:
        program: the relaxation.
        tolerance: what the pose stage measures its equations in.
        precise: whether small gaps matter; if not, the solver stops earlier.
        seconds: time the solver may take.
    """
    import clarabel
    from scipy.sparse import csc_matrix

    hard, soft = _split(program)
    n = program.size
    scale = _scales(program, soft, tolerance)
    tables, cones = [np.pad(program.inner, ((0, 0), (0, 1)))], []
    tables += [np.pad(program.groups[g].rows, ((0, 0), (0, 1))) for g in hard]
    zeros = sum(len(t) for t in tables)
    if zeros:
        cones.append(clarabel.ZeroConeT(zeros))
    for g in soft:
        rows = program.groups[g].rows
        table = np.zeros((len(rows) + 1, n + 2))
        table[0, n + 1] = 1.0
        table[1:, : n + 1] = scale[g] * rows
        tables.append(table)
        cones.append(clarabel.SecondOrderConeT(len(table)))
    for first in program.balls:
        table = np.zeros((4, n + 2))
        table[0, n] = table[1, first] = table[2, first + 1] = table[3, first + 2] = 1.0
        tables.append(table)
        cones.append(clarabel.SecondOrderConeT(4))
    for b in program.blocks:
        d = b.template.matrices.shape[1]
        i, j, root = _triangle(d)
        table = np.zeros((len(i), n + 2))
        table[:, np.where(b.ids < 0, n, b.ids)] = (
            b.weights[:, None] * b.template.matrices[:, i, j] * root
        ).T
        tables.append(table)
        cones.append(clarabel.PSDTriangleConeT(d) if d > 1 else clarabel.NonnegativeConeT(1))
    F = np.concatenate(tables)  # columns: variables, constant, the objective's own variable
    A = csc_matrix(-np.delete(F, n, axis=1))
    q = np.zeros(n + 1)
    q[n] = 1.0
    solver = clarabel.DefaultSolver(
        csc_matrix((n + 1, n + 1)), q, A, F[:, n].copy(), cones, _settings(precise, seconds)
    )
    solution = solver.solve()
    moments = np.array(solution.x)[:n]
    return Found(_rounded(program, hard, soft, scale, np.array(solution.z)), moments)


def _settings(precise: bool, seconds: float | None) -> object:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.presolve_enable = False
    settings.chordal_decomposition_enable = False
    settings.max_iter = 60
    # Feasibility is what the exact check charges for; a part in a thousand of the bound is not.
    settings.tol_gap_abs, settings.tol_gap_rel = 1e-6, 1e-3
    settings.tol_feas = 1e-7 if precise else 1e-5
    if seconds is not None:
        settings.time_limit = max(seconds, 1e-4)
    return settings


def _split(program: Program) -> tuple[list[int], list[int]]:
    """Which groups are equations (hard), and which may be missed at a price (soft)."""
    every = list(range(len(program.groups)))
    position = [g for g in every if program.groups[g].name == "position"]
    if program.stage == "pose" or not position:
        return [], every
    return [g for g in every if g not in position], position


def _scales(program: Program, soft: list[int], tolerance: Tolerance) -> dict[int, float]:
    if program.stage == "gap":
        return dict.fromkeys(soft, 1.0)
    sizes = {
        g: slack(
            program.groups[g].name,
            tolerance.position,
            tolerance.rotation,
            reach=program.reach,
            span=program.span,
        )
        for g in soft
    }
    smallest = min(sizes.values())
    return {g: smallest / s for g, s in sizes.items()}


@lru_cache(maxsize=16)
def _triangle(d: int) -> tuple[list[int], list[int], Array]:
    """Clarabel's order of a symmetric matrix: the upper triangle, column by column."""
    pairs = [(i, j) for j in range(d) for i in range(j + 1)]
    root = np.array([1.0 if i == j else np.sqrt(2.0) for i, j in pairs])
    return [i for i, _ in pairs], [j for _, j in pairs], root


def _rounded(
    program: Program, hard: list[int], soft: list[int], scale: dict[int, float], z: Array
) -> Multipliers | None:
    if not np.isfinite(z).all():
        return None
    at = 0

    def take(count: int) -> Array:
        nonlocal at
        at += count
        return z[at - count : at]

    inner = take(len(program.inner))
    groups: dict[int, Array] = {g: take(len(program.groups[g].rows)) for g in hard}
    for g in soft:
        take(1)
        groups[g] = scale[g] * take(len(program.groups[g].rows))
    balls = []
    for _ in program.balls:
        take(1)
        balls.append(take(3))
    # In the convention of the check, the multipliers of conditions count positive and those of
    # equations are free: Clarabel's z is that of s = F x + F_0 for both.
    triangles = []
    for b in program.blocks:
        _, _, root = _triangle(b.template.matrices.shape[1])
        triangles.append(take(len(root)) / root)
    size = max((float(np.abs(g).max()) for g in groups.values()), default=0.0)
    if size <= 1e-12:
        return None
    unit = 2.0**MULTIPLIER_BITS / size
    parts = [inner, *groups.values(), *balls, *triangles]
    if max((float(np.abs(v).max()) for v in parts if len(v)), default=0.0) * unit > LARGEST // 2:
        return None
    return Multipliers(
        inner=_whole(-inner * unit),
        groups=tuple(_whole(-groups[g] * unit) for g in range(len(program.groups))),
        balls=tuple(_whole(v * unit) for v in balls),
        blocks=tuple(
            _lifted(t * unit, b.template.matrices.shape[1])
            for t, b in zip(triangles, program.blocks, strict=True)
        ),
    )


def _whole(values: Array) -> tuple[int, ...]:
    return tuple(int(v) for v in np.rint(values).tolist())


def _lifted(triangle: Array, d: int) -> tuple[int, ...]:
    """Rounds a triangle; column by column above is row by row below, for a symmetric matrix."""
    values = list(_whole(triangle))
    for i in range(d):
        values[i * (i + 3) // 2] += LIFT
    return tuple(values)
