r"""The second phase: from a solution towards a posture, with the targets held.

    minimise over q    1/2 |W (q - q_rest)|^2    subject to  e(q) = 0,  lower <= q <= upper

A feasible-point method.  The step solves one box QP in which the targets weigh 1/rho times the
posture, so that J d = e holds up to O(rho) and the rest of d goes to the posture,

    minimise over d    1/2 |J d - e|^2 + rho/2 |W (q + d - q_rest)|^2,    |d_i| <= radius,

and is brought back onto e = 0 by undamped box steps.  It is kept if the posture has come closer;
the radius then doubles, else it shrinks to 0.3 of itself (a trust region; Conn, Gould and Toint
2000).  Every accepted configuration reaches the targets to about 1e-7 m and rad, so the phase can
stop at any time.  Where the targets cannot be met that well the first solution is left alone.

Stopping: the objective falls by less than 1e-9 of itself, the radius is below 1e-6, or `steps`.
"""

from __future__ import annotations

import numpy as np

from optik.compiled.boxqp import box_qp
from optik.compiled.descent import workspace
from optik.compiled.entries import fill_goal
from optik.compiled.general import frame_count, size, target_field, targets, trig_size
from optik.compiled.layout import FRAME_HEAD, GOAL, HEADER
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
        values: the objective at the end and iterations, shape (2,), written.
        fixed: the solver's numbers.
        steps: largest number of iterations.

    Returns:
        Kinematics evaluations.
    """
    n, many = size(fixed), targets(fixed)
    goal = np.empty(GOAL * many + 2)
    goal[GOAL * many], goal[GOAL * many + 1] = asked[0], asked[1]
    stride = rotations.shape[0] // many
    for t in range(many):
        fill_goal(
            positions, 3 * t, rotations, stride * t, asked, 2 + 2 * t,
            target_field(fixed, t, 0), goal, GOAL * t,
        )  # fmt: skip
    w = workspace(fixed)
    v = (frame_count(fixed) + targets(fixed)) * (FRAME_HEAD + 6 * n) + trig_size(fixed)
    H = w[v : v + n * n]
    L = w[v + n * n : v + 2 * n * n]
    v += 2 * n * n
    trial = w[v : v + n]
    g = w[v + n : v + 2 * n]
    lo = w[v + 2 * n : v + 3 * n]
    hi = w[v + 3 * n : v + 4 * n]
    d = w[v + 4 * n : v + 5 * n]
    r = w[v + 5 * n : v + 7 * n]
    free = w[v + 7 * n : v + 8 * n]
    least = 0.0
    for i in range(n):
        trial[i] = q[i]
        least = max(least, squares[i])
    least *= 1e-6
    radius, best, count, iteration = 0.5, np.inf, 0, 0
    # The first round only restores the given solution; each later one begins with a posture step.
    while iteration <= steps:
        if iteration > 0:
            normal_equations(q, goal, fixed, w, H, g)
            count += 1
            for i in range(n):
                g[i] += RHO * squares[i] * (rest[i] - q[i])
                H[i * n + i] += RHO * (squares[i] + least) + 1e-15
                lo[i] = max(fixed[HEADER + i] - q[i], -radius)
                hi[i] = min(fixed[HEADER + n + i] - q[i], radius)
            box_qp(H, g, lo, hi, d, r, L, free, n)
            for i in range(n):
                trial[i] = min(max(q[i] + d[i], fixed[HEADER + i]), fixed[HEADER + n + i])
        met = False
        for k in range(RESTORE_STEPS):
            cost, _, _ = normal_equations(trial, goal, fixed, w, H, g)
            count += 1
            met = cost <= RESTORED
            if met or k == RESTORE_STEPS - 1 or not cost < np.inf:
                break
            for i in range(n):
                H[i * n + i] += 1e-9
                lo[i] = max(fixed[HEADER + i] - trial[i], -0.5)
                hi[i] = min(fixed[HEADER + n + i] - trial[i], 0.5)
            box_qp(H, g, lo, hi, d, r, L, free, n)
            for i in range(n):
                x = trial[i] + d[i]
                trial[i] = min(max(x, fixed[HEADER + i]), fixed[HEADER + n + i])
        objective = 0.0
        for i in range(n):
            objective += 0.5 * squares[i] * (trial[i] - rest[i]) ** 2
        if iteration == 0 and not met:
            break
        if met and objective < best:
            fall = best - objective
            for i in range(n):
                q[i] = trial[i]
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
    return count
