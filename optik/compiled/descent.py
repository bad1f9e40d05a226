r"""Bounded Levenberg-Marquardt from one start, and the search over starts: all inside one kernel.

From one start (`descend`): at every configuration the step solves, exactly,

    minimise over d    1/2 |J d - e|^2 + 1/2 mu |d|^2
    subject to         lower - q <= d <= upper - q,   |d_i| <= step_limit

with damping proportional to the error, mu = damping * cost + damping_floor (Yamashita and Fukushima
2001; Fan and Yuan 2005 show quadratic convergence without nonsingularity), and is taken whole: no
line search.  Far away the damping and the cap keep the linearisation honest; close by mu vanishes
with the cost.  A descent ends when the target is reached, when q no longer moves, when the cost has
not fallen by the factor `fall` within `patience` iterations, or after `start_steps` iterations.
The last two tests are left out when there is only the given start.

Over starts (`search`): the given start; then solved configurations from the table, nearest in pose
first; then the middle of the ranges; then a quasi-random sequence (Roberts 2018: fractions of
multiples of powers of the generalised golden ratio), taking turns with further rows of the table.
The configuration with the lowest cost of all is what comes back.
"""

from __future__ import annotations

import math

import numpy as np

from optik.compiled.boxqp import box_qp, projected_step
from optik.compiled.general import frame_count, size, target_field, targets, trig_size
from optik.compiled.layout import (
    AXIS,
    BROKEN,
    CODE_BITS,
    F_DAMPING,
    F_DAMPING_FLOOR,
    F_FALL,
    F_METHOD,
    F_NEAR,
    F_PATIENCE,
    F_PATIENT,
    F_ROWS,
    F_SEED,
    F_START_STEPS,
    F_STEP_LIMIT,
    F_TABLE,
    F_TABLE_WEIGHT,
    FEATURES,
    FRAME_HEAD,
    G_BODY_AXIS,
    G_ROTATION,
    G_WORLD_AXIS,
    GAVE_UP,
    GOAL,
    HEADER,
    OUT_OF_STEPS,
    POSE,
    SOLVED,
    STEP_BITS,
)
from optik.compiled.rows import normal_equations
from optik.pose import Array


def workspace(fixed: Array) -> Array:
    """Everything that a solve scribbles on, in one allocation."""
    n = size(fixed)
    blocks = (frame_count(fixed) + targets(fixed)) * (FRAME_HEAD + 6 * n)
    blocks += trig_size(fixed)
    return np.empty(blocks + 2 * n * n + 8 * n + int(fixed[F_ROWS]))


def search(
    goal: Array,
    q_init: Array,
    q_out: Array,
    values: Array,
    fixed: Array,
    w: Array,
    trace: Array,
    first: int,
    last: int,
    steps: int,
) -> int:
    """Descends from one start after another until one reaches the target.

    Args:
        goal: the targets' numbers.
        q_init: the given start, shape (n,) [rad or m]; moved into the limits.
        q_out: the best configuration is written here, shape (n,); always inside the limits.
        values: its cost, position error [m] and rotation error [rad], shape (3,), written.
        fixed: the solver's numbers.
        w: workspace.
        trace: rows are filled with the configurations visited, shape (k, n); k may be 0.
        first: number of the first start, 0 for the given one.
        last: number of the start after the last.
        steps: iterations allowed, all starts together.

    Returns:
        code + steps * 2^4 + starts * 2^34.
    """
    n = size(fixed)
    v = (frame_count(fixed) + targets(fixed)) * (FRAME_HEAD + 6 * n) + trig_size(fixed)
    H = w[v : v + n * n]
    L = w[v + n * n : v + 2 * n * n]
    v += 2 * n * n
    q = w[v : v + n]
    g = w[v + n : v + 2 * n]
    lo = w[v + 2 * n : v + 3 * n]
    hi = w[v + 3 * n : v + 4 * n]
    d = w[v + 4 * n : v + 5 * n]
    r = w[v + 5 * n : v + 7 * n]
    free = w[v + 7 * n : v + 8 * n]
    distance = w[v + 8 * n : v + 8 * n + int(fixed[F_ROWS])]
    values[0] = values[1] = values[2] = np.inf
    taken, visited, code, ranked = 0, 0, GAVE_UP, False
    patient = fixed[F_PATIENT] != 0.0
    start = first
    for i in range(n):
        q_out[i] = min(max(q_init[i], fixed[HEADER + i]), fixed[HEADER + n + i])
    while True:
        if start == 0:
            for i in range(n):
                q[i] = q_out[i]
        else:
            if not ranked:
                rank_table(goal, fixed, distance)
                # A search that goes on: the rows that earlier starts used up are no starts again.
                for earlier in range(1, min(start, 2 * int(fixed[F_ROWS]) + 2)):
                    place_start(earlier, fixed, distance, q, n)
                ranked = True
            place_start(start, fixed, distance, q, n)
        code, used, visited = descend(
            q, goal, fixed, w, H, g, lo, hi, d, r, L, free, n, steps - taken, patient,
            q_out, values, trace, visited,
        )  # fmt: skip
        taken += used
        if code in (SOLVED, OUT_OF_STEPS) or start + 1 >= last:
            break
        start += 1
    measure = values[2]
    if measure > 1.0:
        values[2] = math.pi - math.asin(min(max(2.0 - measure, 0.0), 1.0))
    else:
        values[2] = math.asin(measure)
    return code + (taken << CODE_BITS) + ((start - first) << (CODE_BITS + STEP_BITS))


def descend(
    q: Array,
    goal: Array,
    fixed: Array,
    w: Array,
    H: Array,
    g: Array,
    lo: Array,
    hi: Array,
    d: Array,
    r: Array,
    L: Array,
    free: Array,
    n: int,
    steps: int,
    patient: bool,
    q_out: Array,
    values: Array,
    trace: Array,
    visited: int,
) -> tuple[int, int, int]:
    """Iterates from q until solved, hopeless or out of steps; keeps the best configuration.

    Returns:
        How it ended, the iterations taken, the rows of trace filled.
    """
    damping, floor = fixed[F_DAMPING], fixed[F_DAMPING_FLOOR]
    limit = fixed[F_STEP_LIMIT]
    patience = int(fixed[F_PATIENCE])
    allowed = steps if patient else min(steps, int(fixed[F_START_STEPS]))
    position_tolerance = goal[GOAL * targets(fixed)]
    rotation_tolerance = goal[GOAL * targets(fixed) + 1]
    mark, since = np.inf, 0
    used = 0
    while True:
        cost, position, rotation = normal_equations(q, goal, fixed, w, H, g)
        if visited < trace.shape[0]:
            for i in range(n):
                trace[visited, i] = q[i]
            visited += 1
        if not cost < np.inf:
            return BROKEN, used, visited
        solved = position <= position_tolerance and rotation <= rotation_tolerance
        if cost < values[0] or solved:
            values[0], values[1], values[2] = cost, position, rotation
            for i in range(n):
                q_out[i] = q[i]
        if solved:
            return SOLVED, used, visited
        if used >= allowed:
            return (OUT_OF_STEPS if used >= steps else GAVE_UP), used, visited
        if not patient:
            if cost <= fixed[F_FALL] * mark:
                mark, since = cost, 0
            else:
                since += 1
                if since >= patience:
                    return GAVE_UP, used, visited
        mu = damping * cost + floor
        for i in range(n):
            H[i * n + i] += mu
            lo[i] = max(fixed[HEADER + i] - q[i], -limit)
            hi[i] = min(fixed[HEADER + n + i] - q[i], limit)
        if fixed[F_METHOD] == 0.0:
            box_qp(H, g, lo, hi, d, r, L, free, n)
        else:
            projected_step(H, g, lo, hi, d, r, L, free, n)
        moved = 0.0
        for i in range(n):
            x = min(max(q[i] + d[i], fixed[HEADER + i]), fixed[HEADER + n + i])
            moved = max(moved, abs(x - q[i]))
            q[i] = x
        if moved < 1e-14:
            return GAVE_UP, used, visited
        used += 1


def rank_table(goal: Array, fixed: Array, distance: Array) -> None:
    """Writes each table row's squared distance to the targets [m^2], up to a constant.

    Position distance squared, plus weight times -tr(R^T R*) (the squared chordal distance of
    orientations up to a constant) or -x.t for an axis target.  With |p|^2 kept in the table all of
    it is linear in a row's numbers, so that each pass below is one loop in vector registers.
    """
    n, rows = size(fixed), int(fixed[F_ROWS])
    factor = np.empty(12)
    for t in range(targets(fixed)):
        at = int(fixed[F_TABLE]) + n * rows + FEATURES * rows * t
        o = GOAL * t
        kind = target_field(fixed, t, 0)
        for a in range(3):
            factor[a] = -2.0 * goal[o + a]
            for b in range(3):
                x = goal[o + G_ROTATION + 3 * a + b] if kind == POSE else 0.0
                if kind == AXIS:
                    x = goal[o + G_WORLD_AXIS + a] * goal[o + G_BODY_AXIS + b]
                factor[3 + 3 * a + b] = -fixed[F_TABLE_WEIGHT] * x
        square = fixed[at : at + rows]
        if t == 0:
            for k in range(rows):
                distance[k] = square[k]
        else:
            for k in range(rows):
                distance[k] += square[k]
        for c in range(0, 12, 3):
            first = at + (c + 1) * rows
            x, y, z = factor[c], factor[c + 1], factor[c + 2]
            if x == 0.0 and y == 0.0 and z == 0.0:
                continue
            column_x = fixed[first : first + rows]
            column_y = fixed[first + rows : first + 2 * rows]
            column_z = fixed[first + 2 * rows : first + 3 * rows]
            for k in range(rows):
                distance[k] += x * column_x[k] + y * column_y[k] + z * column_z[k]


def place_start(start: int, fixed: Array, distance: Array, q: Array, n: int) -> None:
    """Writes start number `start` (1 or more) into q."""
    rows, near = int(fixed[F_ROWS]), int(fixed[F_NEAR])
    near = min(near, rows)
    later = start - near - 1
    row = -1
    if start <= near or (later > 0 and later % 2 == 0 and near + later // 2 <= rows):
        nearest = np.inf
        for k in range(rows):
            if distance[k] < nearest:
                nearest = distance[k]
                row = k
        if row >= 0:
            distance[row] = np.inf
    low, high = HEADER + 2 * n, HEADER + 3 * n
    if row >= 0:
        table = int(fixed[F_TABLE])
        for i in range(n):
            x = fixed[table + i * rows + row]
            q[i] = min(max(x, fixed[HEADER + i]), fixed[HEADER + n + i])
    elif later == 0:
        for i in range(n):
            q[i] = 0.5 * (fixed[low + i] + fixed[high + i])
    else:
        for i in range(n):
            x = fixed[F_SEED] + later * fixed[HEADER + 4 * n + i]
            x -= math.floor(x)
            # A start right at a limit is a bad one: 5 % of the range stay free at both ends.
            x = fixed[low + i] + (0.05 + 0.9 * x) * (fixed[high + i] - fixed[low + i])
            q[i] = min(max(x, fixed[HEADER + i]), fixed[HEADER + n + i])
