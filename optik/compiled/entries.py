"""The kernels that Python calls; everything else is reached through them.

Each comes with its signature, so that it is compiled when the solver is prepared and never inside
a solve.  Inputs are read-only arrays, which accepts writable ones too.  One entry, `solve_rows`,
serves every solve, of one problem or of many, because each entry carries, and compiles, its own
copy of all that it calls.
"""

from __future__ import annotations

import math

import numpy as np

from optik.compiled.descent import advance, bend, place_start, rank_table
from optik.compiled.general import (
    blocks_at,
    frames,
    goal_at,
    lane_count,
    size,
    state_at,
    target_field,
    targets,
    workspace,
)
from optik.compiled.layout import (
    AXIS,
    BROKEN,
    CODE_BITS,
    EMPTY,
    F_METHOD,
    F_ROWS,
    F_START_STEPS,
    FRAME_HEAD,
    G_POSITION_WEIGHT,
    G_QUATERNION,
    G_ROTATION,
    G_ROTATION_WEIGHT,
    GAVE_UP,
    GOING,
    HEADER,
    OUT_OF_STEPS,
    POSE,
    S_ALLOWED,
    S_BEST,
    S_BEST_POSITION,
    S_BEST_ROTATION,
    S_CODE,
    S_COST,
    S_CUT,
    S_MARK,
    S_POSITION,
    S_POSITION_TOLERANCE,
    S_RANKED,
    S_ROTATION,
    S_ROTATION_TOLERANCE,
    S_ROW,
    S_SINCE,
    S_START,
    S_TABLE_ROW,
    S_TAKEN,
    S_USED,
    SOLVED,
    STEP_BITS,
    W_BEST,
    W_NEXT,
    W_Q,
)
from optik.compiled.pointers import pointer
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
    """Solves many problems; each answer depends on its own problem alone.

    All arrays but `trace` are flat, row after row.

    Args:
        positions: wanted positions [m], 3 for each target of each of the N rows.
        rotations: for each target of each row a quaternion (4) or a body axis and a world axis (6),
            padded to a common length; empty for position targets.
        asked: position tolerance [m], measure of the rotation tolerance, then w_p and w_r [m/rad]
            of each target, shape (2 + 2 targets,).
        q_init: starts, shape (N n,), or (n,) for one common start; moved into the limits.
        q_out: answers, shape (N n,), written; always inside the limits.
        codes: code + steps * 2^4 + starts * 2^34 of each row, shape (N,), int64, written.
        values: cost, position error [m] and rotation error [rad] of each answer, shape (3 N,),
            written.
        trace: the first k configurations visited, shape (k, n), written; k = 0 if not wanted.  For
            one row and a module of one lane.
        fixed: the solver's numbers.
        first: number of the first start, 0 for the given one.
        last: number of the start after the last.
        steps: iterations allowed for each row, all starts together.
    """
    f = pointer(fixed)
    n, many = size(f), lane_count(f)
    total = codes.shape[0]
    count = targets(f)
    stride = rotations.shape[0] // (total * count)
    own = 0 if q_init.shape[0] == n else n
    # Pointers know no length: here is the last place where a wrong one can be told.
    fits = positions.shape[0] == 3 * total * count and values.shape[0] == 3 * total
    fits = fits and q_out.shape[0] == n * total and q_init.shape[0] == (own * total if own else n)
    for t in range(count):
        kind = target_field(f, t, 0)
        fits = fits and stride >= (4 if kind == POSE else 6 if kind == AXIS else 0)
    if not fits:
        raise ValueError("an array has the wrong length")
    room = workspace(f)
    w = pointer(room)
    p, r, a = pointer(positions), pointer(rotations), pointer(asked)
    start_at, q, out = pointer(q_init), pointer(q_out), pointer(values)
    if many > 1:
        # An idle lane's numbers are looked at by nobody, but have to be numbers.
        for i in range(blocks_at(f)):
            w[i] = 0.0
    for lane in range(many):
        w[many * (state_at(n) + S_CODE) + lane] = EMPTY
        w[many * (state_at(n) + S_ROW) + lane] = -1.0
    coming, busy, visited = 0, many, 0
    while True:
        for lane in range(many):
            s = many * state_at(n) + lane
            k = int(w[s + many * S_ROW])
            code, start = int(w[s + many * S_CODE]), first
            if code != EMPTY:
                cut = w[s + many * S_CUT] != 0.0 or f[F_METHOD] != 0.0
                if k < 0 or (code == GOING and (not cut or bend(lane, f, w))):
                    continue
                # A descent has ended; a step that did not move does not count.
                w[s + many * S_TAKEN] += w[s + many * S_USED] - (1.0 if code == GOING else 0.0)
                start = int(w[s + many * S_START]) + 1
                code = code_of(lane, steps, f, w)
                if code in (SOLVED, OUT_OF_STEPS) or start >= last:
                    unload_row(lane, k, code, q, out, f, w)
                    taken = int(w[s + many * S_TAKEN]) << CODE_BITS
                    codes[k] = code + taken + ((start - 1 - first) << (CODE_BITS + STEP_BITS))
                    code, start = EMPTY, first
            if code == EMPTY:
                if coming == total:
                    w[s + many * S_ROW] = -1.0
                    busy -= 1
                    continue
                load_row(lane, coming, p, r, stride, a, start_at, own, f, w)
                w[s + many * S_ROW] = coming
                coming += 1
            if start > 0 and w[s + many * S_RANKED] == 0.0:
                rank_table(lane, f, w)
            begin_descent(lane, start, steps, f, w)
        if busy == 0:
            break
        advance(f, w)
        if visited < trace.shape[0]:
            for i in range(n):
                trace[visited, i] = w[many * i]
            visited += 1
    keep(room)


def keep(array: Array) -> None:
    """Uses an array once more, after the last use of a pointer into it: so long it is kept."""
    array[0] = 0.0


def code_of(lane: int, steps: int, fixed: Array, w: Array) -> int:
    """How a lane's descent ended."""
    many = lane_count(fixed)
    s = many * state_at(size(fixed)) + lane
    if w[s + many * S_CODE] == SOLVED:
        return SOLVED
    if not w[s + many * S_COST] < np.inf:
        return BROKEN
    return OUT_OF_STEPS if w[s + many * S_TAKEN] >= steps else GAVE_UP


def unload_row(
    lane: int, k: int, code: int, q_out: Array, values: Array, fixed: Array, w: Array
) -> None:
    """Writes a lane's answer into row k: where it was solved, or the best configuration.

    The measure of a rotation error becomes an angle here.
    """
    n, many = size(fixed), lane_count(fixed)
    s = many * state_at(n) + lane
    place = W_Q if code == SOLVED else W_BEST
    for i in range(n):
        q_out[k * n + i] = w[many * (place * n + i) + lane]
    c, p, r = S_BEST, S_BEST_POSITION, S_BEST_ROTATION
    if code == SOLVED:
        c, p, r = S_COST, S_POSITION, S_ROTATION
    values[3 * k], values[3 * k + 1] = w[s + many * c], w[s + many * p]
    measure = w[s + many * r]
    if measure > 1.0:
        values[3 * k + 2] = math.pi - math.asin(min(max(2.0 - measure, 0.0), 1.0))
    else:
        values[3 * k + 2] = math.asin(measure)


def load_row(
    lane: int,
    k: int,
    positions: Array,
    rotations: Array,
    stride: int,
    asked: Array,
    q_init: Array,
    own: int,
    fixed: Array,
    w: Array,
) -> None:
    """Gives a lane the problem of row k, at its given start.

    Args:
        lane: the lane.
        k: the row.
        positions: as in `solve_rows`.
        rotations: as in `solve_rows`.
        stride: numbers of `rotations` for each target.
        asked: as in `solve_rows`.
        q_init: as in `solve_rows`.
        own: numbers of `q_init` for each row; 0 for one common start.
        fixed: the solver's numbers.
        w: workspace.
    """
    n, many, count = size(fixed), lane_count(fixed), targets(fixed)
    for t in range(count):
        fill_goal(
            positions, 3 * (k * count + t), rotations, stride * (k * count + t), asked, t, lane,
            fixed, w,
        )  # fmt: skip
    for i in range(n):
        x = min(max(q_init[own * k + i], fixed[HEADER + i]), fixed[HEADER + n + i])
        w[many * (W_NEXT * n + i) + lane] = x
        w[many * (W_BEST * n + i) + lane] = x
    s = many * state_at(n) + lane
    for state in (S_BEST, S_BEST_POSITION, S_BEST_ROTATION):
        w[s + many * state] = np.inf
    w[s + many * S_POSITION_TOLERANCE] = asked[0]
    w[s + many * S_ROTATION_TOLERANCE] = asked[1]
    w[s + many * S_TAKEN] = 0.0
    w[s + many * S_RANKED] = 0.0
    w[s + many * S_TABLE_ROW] = -1.0


def begin_descent(lane: int, start: int, steps: int, fixed: Array, w: Array) -> None:
    """Moves a lane to a start, and counts from there; at start 0, the given one, it is already."""
    many = lane_count(fixed)
    s = many * state_at(size(fixed)) + lane
    if start > 0:
        # A solve that goes on in a further call: what earlier starts used up is used up again.
        number = start if w[s + many * S_RANKED] != 0.0 else 1
        w[s + many * S_RANKED] = 1.0
        while True:
            place_start(number, lane, fixed, w)
            if number == start:
                break
            # Starts after twice the table's rows take none of it any more.
            number = start if number > 2 * int(fixed[F_ROWS]) else number + 1
    w[s + many * S_ALLOWED] = min(steps - w[s + many * S_TAKEN], fixed[F_START_STEPS])
    w[s + many * S_START] = start
    w[s + many * S_USED] = 0.0
    w[s + many * S_MARK] = np.inf
    w[s + many * S_SINCE] = 0.0


def fill_goal(
    positions: Array,
    p: int,
    rotations: Array,
    r: int,
    asked: Array,
    t: int,
    lane: int,
    fixed: Array,
    w: Array,
) -> None:
    """Writes target t's numbers into a lane's goal, from those that begin at `p` and `r`."""
    many = lane_count(fixed)
    o = many * goal_at(t, size(fixed)) + lane
    for i in range(3):
        w[o + many * i] = positions[p + i]
    fill_rotation(rotations, r, t, o, fixed, w)
    w[o + many * G_POSITION_WEIGHT] = asked[2 + 2 * t]
    w[o + many * G_ROTATION_WEIGHT] = asked[3 + 2 * t]


def fill_rotation(rotations: Array, r: int, t: int, o: int, fixed: Array, w: Array) -> None:
    """Writes a target's rotation; a folded module has its own, which knows the target's kind."""
    kind = target_field(fixed, t, 0)
    if kind == POSE:
        fill_pose(rotations, r, o, fixed, w)
    elif kind == AXIS:
        fill_axis(rotations, r, o, fixed, w)


def fill_pose(rotations: Array, r: int, o: int, fixed: Array, w: Array) -> None:
    """Writes a quaternion, and the rotation matrix of it."""
    many = lane_count(fixed)
    a, b, c, d = rotations[r], rotations[r + 1], rotations[r + 2], rotations[r + 3]
    for i in range(4):
        w[o + many * (G_QUATERNION + i)] = rotations[r + i]
    s = 2.0 / (a * a + b * b + c * c + d * d)
    g = o + many * G_ROTATION
    w[g] = 1.0 - s * (c * c + d * d)
    w[g + many] = s * (b * c - a * d)
    w[g + 2 * many] = s * (b * d + a * c)
    w[g + 3 * many] = s * (b * c + a * d)
    w[g + 4 * many] = 1.0 - s * (b * b + d * d)
    w[g + 5 * many] = s * (c * d - a * b)
    w[g + 6 * many] = s * (b * d - a * c)
    w[g + 7 * many] = s * (c * d + a * b)
    w[g + 8 * many] = 1.0 - s * (b * b + c * c)


def fill_axis(rotations: Array, r: int, o: int, fixed: Array, w: Array) -> None:
    """Writes the body axis and the world axis, with length 1."""
    many = lane_count(fixed)
    for h in range(2):
        x, y, z = rotations[r + 3 * h], rotations[r + 3 * h + 1], rotations[r + 3 * h + 2]
        scale = 1.0 / math.sqrt(x * x + y * y + z * z)
        g = o + many * (G_ROTATION + 3 * h)
        w[g], w[g + many], w[g + 2 * many] = scale * x, scale * y, scale * z


def forward(q: Array, fixed: Array, pose: Array, jacobian: Array) -> None:
    """Pose and Jacobian of every target's frame, in the axes of its base.

    Args:
        q: configuration, shape (n,) [rad or m].
        fixed: the solver's numbers.
        pose: position then rotation matrix, shape (targets, 12), written.
        jacobian: shape (targets, 6, n), written.
    """
    f = pointer(fixed)
    n = size(f)
    room = workspace(f)
    w = pointer(room)
    for i in range(n):
        w[i] = q[i]
    frames(f, w)
    for k in range(targets(f)):
        at = block_of(k, f, w, n)
        for i in range(FRAME_HEAD):
            pose[k, i] = w[at + i]
        for i in range(6):
            for j in range(n):
                jacobian[k, i, j] = w[at + FRAME_HEAD + i * n + j]
    keep(room)


def repeat_forward(q: Array, fixed: Array, times: int) -> float:
    """Kinematics and Jacobian `times` times, each from the last one's numbers: for timing.

    Returns a number that depends on all of them, so that none can be left out.
    """
    f = pointer(fixed)
    room = workspace(f)
    w = pointer(room)
    for i in range(size(f)):
        w[i] = q[i]
    total = 0.0
    at = blocks_at(f)
    for _ in range(times):
        frames(f, w)
        total += w[at + FRAME_HEAD]
        w[0] = q[0] + 1e-9 * w[at]
    keep(room)
    return total
