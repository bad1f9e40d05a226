"""The box QP against its optimality conditions and against scipy's bounded least squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from optik.compiled import layout as at
from optik.compiled.boxqp import active_set, box_qp


def solve(H, g, lo, hi, method=box_qp):
    n = len(g)
    w = np.zeros(at.W_VECTORS * n + 2 * n * n)
    for place, vector in ((at.W_G, g), (at.W_LO, lo), (at.W_HI, hi)):
        w[place * n : (place + 1) * n] = vector
    w[at.W_VECTORS * n : at.W_VECTORS * n + n * n] = H.reshape(-1)
    if method is active_set:
        active_set(w, 0, n)  # from no step at all
    else:
        box_qp(w, 0, n)
    return w[at.W_D * n : (at.W_D + 1) * n].copy()


def program(rng, n, rank, mu):
    J = rng.normal(size=(rank, n))
    e = rng.normal(size=rank)
    lo, hi = -rng.uniform(0, 0.5, n), rng.uniform(0, 0.5, n)
    lo[rng.random(n) < 0.2] = 0.0
    hi[rng.random(n) < 0.2] = 0.0
    return J, e, J.T @ J + mu * np.eye(n), J.T @ e, lo, hi


@pytest.mark.parametrize("mu", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("n", [1, 3, 7, 12])
def test_optimality_conditions(n, mu):
    rng = np.random.default_rng(1000 * n + int(-np.log10(mu)))
    for _ in range(60):
        _, _, H, g, lo, hi = program(rng, n, 6, mu)
        d = solve(H, g, lo, hi)
        r = H @ d - g
        assert (d >= lo).all() and (d <= hi).all()
        held = ((d <= lo) & (r >= 0)) | ((d >= hi) & (r <= 0))
        assert np.abs(r[~held]).max(initial=0.0) <= 1e-10 * (1 + np.abs(g).max())


def test_no_worse_than_bounded_least_squares():
    rng = np.random.default_rng(4)
    for _ in range(40):
        J, e, H, g, lo, hi = program(rng, 7, 6, 1e-2)
        # lsq_linear needs lo < hi; opened by less than what the objectives are compared to.
        opened = np.where(hi - lo < 1e-9, lo + 1e-9, hi)
        A = np.vstack([J, np.sqrt(1e-2) * np.eye(7)])
        b = np.concatenate([e, np.zeros(7)])
        d = solve(H, g, lo, hi)
        reference = lsq_linear(A, b, (lo, opened), method="bvls", tol=1e-14)
        assert 0.5 * np.sum((A @ d - b) ** 2) <= reference.cost + 1e-7


def test_it_finds_the_same_point_from_anywhere():
    rng = np.random.default_rng(5)
    for _ in range(20):
        _, _, H, g, lo, hi = program(rng, 5, 6, 1e-1)
        assert np.abs(solve(H, g, lo, hi) - solve(H, g, lo, hi, method=active_set)).max() < 1e-9


def test_without_bounds_it_is_the_damped_newton_step():
    rng = np.random.default_rng(6)
    _, _, H, g, _, _ = program(rng, 4, 6, 1e-3)
    d = solve(H, g, np.full(4, -np.inf), np.full(4, np.inf))
    assert np.allclose(d, np.linalg.solve(H, g), rtol=1e-10, atol=0)
