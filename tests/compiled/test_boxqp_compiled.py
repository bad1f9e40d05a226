"""The compiled box QP on thousands of programs, most of them degenerate, by their KKT residual."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from kernel_problems import Array
from test_general import core_for

from optik.compiled import layout as at
from optik.compiled import module
from optik.compiled.fronts import LANES
from optik.robot import Robot

# Every program of a batch, through the kernels as a solver's module holds them: from the clipped
# Newton step on, or, in a module of several lanes, from no step in one lane after the other.
ENTRY = """
@numba.njit(
    "void(float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1])",
    error_model="numpy", cache=CACHED)
def solve_programs(H, g, lo, hi, d, fixed):
    f = pointer(fixed)
    n, many = size(f), lane_count(f)
    room = np.empty((many + 1) * (state_at(n) + 2 * n * n))
    w = pointer(room)
    for k in range(g.shape[0] // n):
        lane = k % many
        for i in range(n):
            w[many * (W_G * n + i) + lane] = g[k * n + i]
            w[many * (W_LO * n + i) + lane] = lo[k * n + i]
            w[many * (W_HI * n + i) + lane] = hi[k * n + i]
            w[many * (W_D * n + i) + lane] = 0.0
            for j in range(n):
                w[many * (W_VECTORS * n + i * n + j) + lane] = H[(k * n + i) * n + j]
        inside = free_step(w, 0, n) if many == 1 else False
        if not inside:
            box_step(lane, f, w)
        for i in range(n):
            d[k * n + i] = w[many * (W_D * n + i) + lane]
    keep(room)
"""


@cache
def programs_kernel(lanes: int):
    # The folded kernels of seven joints are written out, without loops.
    core = core_for(Robot.load("panda"), folded=lanes > 0)
    front = core._folded(lanes) if lanes else core._front
    text = module._text(front, module.SEARCH, ()) + ENTRY
    return module.load("boxqp", text).solve_programs


def solve(H: Array, g: Array, lo: Array, hi: Array, *, lanes: int = 0) -> Array:
    """Solves m programs, shapes (m, n, n) and (m, n); by the general kernel if lanes is 0."""
    d = np.full(g.shape, np.nan)
    fixed = np.zeros(at.HEADER)
    fixed[at.F_SIZE] = g.shape[1]
    lower = np.tril(H) + np.triu(np.full_like(H, np.nan), 1)  # above the diagonal nothing is read
    flat = [np.ascontiguousarray(a).reshape(-1) for a in (lower, g, lo, hi)]
    programs_kernel(lanes)(*flat, d.reshape(-1), fixed)
    return d


def kkt(H: Array, g: Array, lo: Array, hi: Array, d: Array) -> Array:
    """Largest violation of the optimality conditions over 1 + |g|, shape (m,), in 80 bits."""
    assert np.isfinite(d).all() and (d >= lo).all() and (d <= hi).all()
    wide = [a.astype(np.longdouble) for a in (H, g, d)]
    r = np.einsum("kij,kj->ki", wide[0], wide[2]) - wide[1]
    held = ((d <= lo) & (r >= 0)) | ((d >= hi) & (r <= 0)) | (lo == hi)
    worst = np.where(held, 0.0, np.abs(r)).max(axis=1)
    return np.asarray(worst / (1.0 + np.abs(g).max(axis=1)), dtype=np.float64)


def programs(
    rng: np.random.Generator, family: str, m: int, n: int, rank: int, mu: float
) -> tuple[Array, Array, Array, Array]:
    """Random programs of a family; every box holds 0, as that of a step does."""
    J, e = rng.normal(size=(m, rank, n)), rng.normal(size=(m, rank))
    if family == "columns almost parallel":
        J = J[:, :, :1] + 1e-4 * J
    if family == "columns of all lengths":
        J *= 10.0 ** rng.uniform(-3, 3, (m, 1, n))
    H = np.einsum("kri,krj->kij", J, J) + mu * np.eye(n)
    g = np.einsum("kri,kr->ki", J, e)
    lo, hi = -rng.uniform(0, 0.5, (m, n)), rng.uniform(0, 0.5, (m, n))
    one, other = rng.random((m, n)), rng.random((m, n))
    if family == "a gradient that no step answers":
        g = rng.normal(size=(m, n))
    elif family == "a tiny box":
        lo, hi = 1e-3 * lo, 1e-3 * hi
    elif family == "starts on bounds":
        lo, hi = np.where(one < 0.6, 0.0, lo), np.where(other < 0.6, 0.0, hi)
    elif family == "most variables fixed":
        lo, hi = np.where(one < 0.7, 0.0, lo), np.where(one < 0.7, 0.0, hi)
    elif family == "bounds at infinity":
        lo, hi = np.where(one < 0.5, -np.inf, lo), np.where(other < 0.5, np.inf, hi)
    elif family == "no bounds":
        lo, hi = np.full_like(lo, -np.inf), np.full_like(hi, np.inf)
    elif family == "multipliers of zero":
        d = 0.2 * rng.normal(size=(m, n))  # the minimum, which lies on many bounds
        g = np.einsum("kij,kj->ki", H, d)
        lo = np.minimum(d, 0.0) - np.where(one > 0.6, 0.0, 1.0)
        hi = np.maximum(d, 0.0) + np.where(one < 0.4, 0.0, 1.0)
    elif family == "nothing to do":
        g = np.where(one < 0.2, 0.0, np.where(other < 0.5, 1.0, -1.0))
        lo, hi = np.where(g < 0, 0.0, lo), np.where(g > 0, 0.0, hi)
        g *= rng.uniform(0, 1, (m, 1))
    return H, g, lo, hi


FAMILIES = (
    "plain",
    "columns almost parallel",
    "columns of all lengths",
    "a gradient that no step answers",
    "a tiny box",
    "starts on bounds",
    "most variables fixed",
    "bounds at infinity",
    "no bounds",
    "multipliers of zero",
    "nothing to do",
)
ON_BOUNDS = {"a tiny box", "starts on bounds", "most variables fixed", "nothing to do"}
SIZES = [(1, 0), (2, 0), (3, 0), (7, 0), (7, 1), (7, LANES), (12, 0), (30, 0)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n", "lanes"), SIZES)
def test_optimality_conditions(family, n, lanes):
    rng = np.random.default_rng([n, FAMILIES.index(family)])
    held = []
    for rank, mu in itertools.product((1, 6), (1e-6, 1e-2)):
        H, g, lo, hi = programs(rng, family, 40, n, rank, mu)
        d = solve(H, g, lo, hi, lanes=lanes)
        assert kkt(H, g, lo, hi, d).max() <= 1e-10
        held.append((d <= lo) | (d >= hi))
    if family in ON_BOUNDS:
        assert np.mean(held) > 0.5


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_best_of_every_set_of_held_bounds(n):
    """Against all 3^n choices of what is free, at its lower or at its upper bound."""
    rng = np.random.default_rng(7)
    for family in FAMILIES:
        H, g, lo, hi = programs(rng, family, 20, n, 6, 1e-3)
        d = solve(H, g, lo, hi)
        for k in range(20):
            best = np.inf
            for choice in itertools.product((0, 1, 2), repeat=n):
                state = np.array(choice)
                x = np.where(state == 1, lo[k], hi[k])
                free = state == 0
                if not np.isfinite(x[~free]).all():
                    continue
                x[free] = 0.0
                rest = g[k] - H[k] @ x
                x[free] = np.linalg.solve(H[k][np.ix_(free, free)], rest[free])
                if ((x >= lo[k] - 1e-12) & (x <= hi[k] + 1e-12)).all():
                    best = min(best, 0.5 * x @ H[k] @ x - g[k] @ x)
            own = 0.5 * d[k] @ H[k] @ d[k] - g[k] @ d[k]
            assert own == pytest.approx(best, rel=1e-10, abs=1e-10)
