r"""The second phase: from a solution towards a posture, with the targets held.

    minimise over q    1/2 |W (q - q_rest)|^2    subject to  e(q) = 0,  lower <= q <= upper

A feasible-point method.  The step solves one box QP in which the targets weigh 1/rho times the
posture, so that J d = e holds up to O(rho) and the rest of d goes to the posture,

    minimise over d    1/2 |J d - e|^2 + rho/2 |W (q + d - q_rest)|^2,    |d_i| <= radius,

and is brought back onto e = 0 by box steps with next to no damping.  It is kept if the posture has
come closer; the radius then doubles, else it shrinks to 0.3 of itself (a trust region; Conn, Gould
and Toint 2000).  Every accepted configuration reaches the targets to about 1e-7 m and rad, so the
phase can stop at any time.  Where the targets cannot be met that well the first solution is left
alone.

Stopping: the objective falls by less than 1e-9 of itself, the radius is below 1e-6, or `steps`.
"""

from __future__ import annotations

import numpy as np

from optik.compiled.boxqp import box_qp
from optik.compiled.entries import fill_goal, keep
from optik.compiled.general import size, targets, workspace
from optik.compiled.layout import HEADER, W_D, W_G, W_HI, W_LO, W_VECTORS
from optik.compiled.pointers import pointer
from optik.compiled.rows import normal_equations
from optik.pose import Array

RHO = 1e-7
RESTORED = 1e-14  # cost at which the targets count as met
RESTORE_STEPS = 5


def relax(
    positions: Array,
    rotations: Array,
    asked: Array,
    rest: Array,
    squares: Array,
    q: Array,
    values: Array,
    fixed: Array,
    steps: int,
) -> int:
    """Moves a solution towards the posture.

    Args:
        positions: wanted positions, as in `solve_rows`.
        rotations: wanted rotations, as in `solve_rows`.
        asked: tolerances and weights, as in `solve_rows`.
        rest: q_rest, shape (n,) [rad or m].
        squares: W_i^2, shape (n,).
        q: a solution; the better one is written here, shape (n,).
        values: the objective at the end, infinite where nothing was kept, and iterations, shape
            (2,), written.
        fixed: the solver's numbers.
        steps: largest number of iterations.

    Returns:
        Kinematics evaluations.
    """
    f = pointer(fixed)
    n, many = size(f), targets(f)
    stride = rotations.shape[0] // many
    room = workspace(f)
    w = pointer(room)
    p, r, a = pointer(positions), pointer(rotations), pointer(asked)
    for t in range(many):
        fill_goal(p, 3 * t, r, stride * t, a, t, 0, f, w)
    g, lo, hi, d, H = W_G * n, W_LO * n, W_HI * n, W_D * n, W_VECTORS * n
    least = 0.0
    for i in range(n):
        w[i] = q[i]
        least = max(least, squares[i])
    least *= 1e-6  # a little damping for joints that have no weight
    radius, best, count, iteration = 0.5, np.inf, 0, 0
    # The first round only restores the given solution; each later one begins with a posture step.
    while iteration <= steps:
        if iteration > 0:
            for i in range(n):
                w[i] = q[i]
            normal_equations(f, w)
            count += 1
            for i in range(n):
                w[g + i] += RHO * squares[i] * (rest[i] - q[i])
                w[H + i * n + i] += RHO * (squares[i] + least) + 1e-15
                w[lo + i] = max(f[HEADER + i] - q[i], -radius)
                w[hi + i] = min(f[HEADER + n + i] - q[i], radius)
            box_qp(w, 0, n)
            for i in range(n):
                w[i] = min(max(q[i] + w[d + i], f[HEADER + i]), f[HEADER + n + i])
        met = False
        for k in range(RESTORE_STEPS):
            cost, _, _ = normal_equations(f, w)
            count += 1
            met = cost <= RESTORED
            if met or k == RESTORE_STEPS - 1 or not cost < np.inf:
                break
            for i in range(n):
                w[H + i * n + i] += 1e-9
                w[lo + i] = max(f[HEADER + i] - w[i], -0.5)
                w[hi + i] = min(f[HEADER + n + i] - w[i], 0.5)
            box_qp(w, 0, n)
            for i in range(n):
                x = w[i] + w[d + i]
                w[i] = min(max(x, f[HEADER + i]), f[HEADER + n + i])
        objective = 0.0
        for i in range(n):
            objective += 0.5 * squares[i] * (w[i] - rest[i]) ** 2
        if iteration == 0 and not met:
            break
        if met and objective < best:
            fall = best - objective
            for i in range(n):
                q[i] = w[i]
            done = iteration > 0 and fall <= 1e-9 * best
            best = objective
            radius = min(2.0 * radius, 2.0) if iteration > 0 else radius
            if done:
                break
        else:
            radius *= 0.3
            if radius < 1e-6:
                break
        iteration += 1
    values[0], values[1] = best, iteration
    keep(room)
    return count
