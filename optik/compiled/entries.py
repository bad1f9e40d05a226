"""The kernels that Python calls; everything else is reached through them.

Each comes with its signature, so that it is compiled when the solver is prepared and never inside
a solve.  Inputs are read-only arrays, which accepts writable ones too.  There is one entry for
every kind of solve because each entry carries, and compiles, its own copy of all it calls.
"""

from __future__ import annotations

import math

import numpy as np

from optik.compiled.descent import search, workspace
from optik.compiled.general import frames, size, target_field, targets
from optik.compiled.layout import (
    AXIS,
    FRAME_HEAD,
    G_POSITION_WEIGHT,
    G_ROTATION,
    G_ROTATION_WEIGHT,
    GOAL,
    POSE,
)
from optik.compiled.rows import block_of
from optik.pose import Array


def solve_rows(
    positions: Array,
    rotations: Array,
    asked: Array,
    q_init: Array,
    q_out: Array,
    codes: Array,
    values: Array,
    trace: Array,
    fixed: Array,
    first: int,
    last: int,
    steps: int,
) -> None:
    """Solves one problem after the other; each answer depends on that problem alone.

    All arrays but `trace` are flat, row after row.

    Args:
        positions: wanted positions [m], 3 for each target of each of the N rows.
        rotations: for each target of each row a quaternion (4) or a body axis and a world axis (6),
            padded to a common length; empty for position targets.
        asked: position tolerance [m], measure of the rotation tolerance, then w_p and w_r [m/rad]
            of each target, shape (2 + 2 targets,).
        q_init: starts, shape (N n,), or (n,) for one common start.
        q_out: answers, shape (N n,), written.
        codes: code + steps * 2^4 + starts * 2^34 of each row, shape (N,), int64, written.
        values: cost, position error [m] and rotation error [rad] of each answer, shape (3 N,),
            written.
        trace: configurations visited, shape (k, n), k = 0 if not wanted.
        fixed: the solver's numbers.
        first: number of the first start, 0 for the given one.
        last: number of the start after the last.
        steps: iterations allowed for each row.
    """
    n, many = size(fixed), targets(fixed)
    total = codes.shape[0]
    stride = rotations.shape[0] // (total * many)
    common = q_init.shape[0] == n
    w = workspace(fixed)
    goal = np.empty(GOAL * many + 2)
    goal[GOAL * many], goal[GOAL * many + 1] = asked[0], asked[1]
    for k in range(total):
        for t in range(many):
            fill_goal(
                positions, 3 * (k * many + t), rotations, stride * (k * many + t), asked,
                2 + 2 * t, target_field(fixed, t, 0), goal, GOAL * t,
            )  # fmt: skip
        begin = 0 if common else k * n
        codes[k] = search(
            goal, q_init[begin : begin + n], q_out[k * n : k * n + n],
            values[3 * k : 3 * k + 3], fixed, w, trace, first, last, steps,
        )  # fmt: skip


def fill_goal(
    positions: Array,
    p: int,
    rotations: Array,
    r: int,
    weights: Array,
    u: int,
    kind: int,
    goal: Array,
    o: int,
) -> None:
    """Writes one target's numbers at `goal[o]`, from those that begin at `p`, `r` and `u`."""
    for i in range(3):
        goal[o + i] = positions[p + i]
    if kind == POSE:
        a, b, c, d = rotations[r], rotations[r + 1], rotations[r + 2], rotations[r + 3]
        s = 2.0 / (a * a + b * b + c * c + d * d)
        o += G_ROTATION
        goal[o] = 1.0 - s * (c * c + d * d)
        goal[o + 1] = s * (b * c - a * d)
        goal[o + 2] = s * (b * d + a * c)
        goal[o + 3] = s * (b * c + a * d)
        goal[o + 4] = 1.0 - s * (b * b + d * d)
        goal[o + 5] = s * (c * d - a * b)
        goal[o + 6] = s * (b * d - a * c)
        goal[o + 7] = s * (c * d + a * b)
        goal[o + 8] = 1.0 - s * (b * b + c * c)
        o -= G_ROTATION
    elif kind == AXIS:
        for h in range(2):
            x, y, z = rotations[r + 3 * h], rotations[r + 3 * h + 1], rotations[r + 3 * h + 2]
            scale = 1.0 / math.sqrt(x * x + y * y + z * z)
            goal[o + G_ROTATION + 3 * h] = scale * x
            goal[o + G_ROTATION + 3 * h + 1] = scale * y
            goal[o + G_ROTATION + 3 * h + 2] = scale * z
    goal[o + G_POSITION_WEIGHT] = weights[u]
    goal[o + G_ROTATION_WEIGHT] = weights[u + 1]


def forward(q: Array, fixed: Array, pose: Array, jacobian: Array) -> None:
    """Pose and Jacobian of every target's frame, in the axes of its base.

    Args:
        q: configuration, shape (n,) [rad or m].
        fixed: the solver's numbers.
        pose: position then rotation matrix, shape (targets, 12), written.
        jacobian: shape (targets, 6, n), written.
    """
    n = size(fixed)
    w = workspace(fixed)
    frames(q, fixed, w)
    for k in range(targets(fixed)):
        at = block_of(k, fixed, w, n)
        for i in range(FRAME_HEAD):
            pose[k, i] = w[at + i]
        for i in range(6):
            for j in range(n):
                jacobian[k, i, j] = w[at + FRAME_HEAD + i * n + j]


def repeat_forward(q: Array, fixed: Array, times: int) -> float:
    """Kinematics and Jacobian `times` times, each from the last one's numbers: for timing."""
    w = workspace(fixed)
    total = 0.0
    x = q.copy()
    for _ in range(times):
        frames(x, fixed, w)
        total += w[FRAME_HEAD]
        x[0] = q[0] + 1e-9 * w[0]
    return total
