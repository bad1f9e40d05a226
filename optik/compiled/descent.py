r"""Bounded Levenberg-Marquardt from one start, and where the next start is.

From one start: at every configuration the step solves, exactly,

    minimise over d    1/2 |J d - e|^2 + 1/2 mu |d|^2
    subject to         lower - q <= d <= upper - q,   |d_i| <= step_limit

with damping proportional to the error, mu = damping * cost + damping_floor (Yamashita and Fukushima
2001; Fan and Yuan 2005 show quadratic convergence without nonsingularity), and is taken whole: no
line search.  Far away the damping and the cap keep the linearisation honest; close by mu falls to
its floor with the cost.  A descent ends when the target is reached, when q no longer moves, when
the cost has not fallen by the factor `fall` within `patience` iterations, or after `start_steps`
iterations.  The last two tests are left out when there is only the given start.

Over starts (`place_start`): the given start; then solved configurations from the table, nearest in
pose first, those close to a failed one passed over; then the middle of the ranges; then a
quasi-random sequence (Roberts 2018: fractions of multiples of powers of the generalised golden
ratio), taking turns with further rows of the table.  The configuration with the lowest cost of all
is what comes back.

`solve_rows` (entries.py) works on as many problems at once as the module has lanes.  `advance`
evaluates them all and makes every Newton step, in one loop that runs in vector registers; what
differs from lane to lane, a step that met a bound among it, is done one lane after the other.  A
lane whose problem is finished takes the next row, so that no row waits for another, and no answer
depends on its neighbours.
"""

from __future__ import annotations

import math

import numpy as np

from optik.compiled.boxqp import active_set, free_step, projected_step
from optik.compiled.general import (
    distances_at,
    goal_at,
    lane_count,
    program_at,
    size,
    state_at,
    target_field,
    targets,
)
from optik.compiled.layout import (
    AXIS,
    BLOCK,
    F_APART,
    F_BLOCK,
    F_DAMPING,
    F_DAMPING_FLOOR,
    F_FALL,
    F_NEAR,
    F_PATIENCE,
    F_ROWS,
    F_SEED,
    F_STEP_LIMIT,
    F_TABLE,
    F_TABLE_WEIGHT,
    G_BODY_AXIS,
    G_QUATERNION,
    G_WORLD_AXIS,
    GAVE_UP,
    GOING,
    HEADER,
    POSITION,
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
    S_ROTATION,
    S_ROTATION_TOLERANCE,
    S_SINCE,
    S_TABLE_ROW,
    S_USED,
    SOLVED,
    W_BEST,
    W_D,
    W_G,
    W_HI,
    W_LO,
    W_NEXT,
    W_VECTORS,
)
from optik.compiled.pointers import singles
from optik.compiled.rows import normal_equations
from optik.pose import Array

LEAST_MOVE = 1e-14  # [rad or m] a step below it is no step


def advance(fixed: Array, w: Array) -> None:
    """Evaluates every lane's next configuration, makes the clipped step from there, and judges.

    This one serves a single lane and any shape; straight modules have their own.
    """
    n = size(fixed)
    for i in range(n):
        w[i] = w[W_NEXT * n + i]
    cost, position, rotation = normal_equations(fixed, w)
    mu = fixed[F_DAMPING] * cost + fixed[F_DAMPING_FLOOR]
    limit = fixed[F_STEP_LIMIT]
    for i in range(n):
        w[W_VECTORS * n + i * n + i] += mu
        w[W_LO * n + i] = max(fixed[HEADER + i] - w[i], -limit)
        w[W_HI * n + i] = min(fixed[HEADER + n + i] - w[i], limit)
    cut = not free_step(w, 0, n)
    moved = take_step(0, fixed, w)
    judge(
        0, fixed, w, cost, position, rotation, moved, cut, fixed[F_FALL], fixed[F_PATIENCE]
    )  # fmt: skip


def judge(
    lane: int,
    fixed: Array,
    w: Array,
    cost: float,
    position: float,
    rotation: float,
    moved: float,
    cut: bool,
    fall: float,
    patience: float,
) -> None:
    """Judges a lane's configuration: solved, hopeless, or to be followed; keeps the best one.

    Without a branch, so that a loop over lanes can have it in vector registers; `fall` and
    `patience` are arguments because such a loop reads them once for all lanes.

    Args:
        lane: the lane.
        fixed: the solver's numbers.
        w: workspace.
        cost: at the configuration, weighted [m^2].
        position: largest position error there [m].
        rotation: largest measure of a rotation error there.
        moved: largest |d_i| of the step from there [rad or m].
        cut: whether that step met a bound: it is no answer yet, and may not end the descent.
        fall: the cost must fall by this factor ...
        patience: ... within so many iterations.
    """
    n, many = size(fixed), lane_count(fixed)
    s = many * state_at(n) + lane
    better = cost < w[s + many * S_BEST]
    w[s + many * S_BEST] = cost if better else w[s + many * S_BEST]
    w[s + many * S_BEST_POSITION] = position if better else w[s + many * S_BEST_POSITION]
    w[s + many * S_BEST_ROTATION] = rotation if better else w[s + many * S_BEST_ROTATION]
    for i in range(n):
        best = many * (W_BEST * n + i) + lane
        w[best] = w[many * i + lane] if better else w[best]
    solved = (position <= w[s + many * S_POSITION_TOLERANCE]) & (
        rotation <= w[s + many * S_ROTATION_TOLERANCE]
    )
    mark, since, used = w[s + many * S_MARK], w[s + many * S_SINCE], w[s + many * S_USED]
    fallen = cost <= fall * mark
    since = 0.0 if fallen else since + 1.0
    w[s + many * S_MARK] = cost if fallen else mark
    w[s + many * S_SINCE] = since
    ended = (
        (used >= w[s + many * S_ALLOWED])
        | (since >= patience)
        | (not cost < np.inf)
        | ((moved < LEAST_MOVE) & (not cut))
    )
    w[s + many * S_CODE] = SOLVED if solved else GAVE_UP if ended else GOING
    w[s + many * S_USED] = used if solved | ended else used + 1.0
    w[s + many * S_COST], w[s + many * S_POSITION] = cost, position
    w[s + many * S_ROTATION] = rotation
    w[s + many * S_CUT] = 1.0 if cut else 0.0


def take_step(lane: int, fixed: Array, w: Array) -> float:
    """Sets a lane's next configuration from its step; returns the largest move [rad or m]."""
    n, many = size(fixed), lane_count(fixed)
    moved = 0.0
    for i in range(n):
        here = w[many * i + lane]
        x = here + w[many * (W_D * n + i) + lane]
        x = min(max(x, fixed[HEADER + i]), fixed[HEADER + n + i])
        moved = max(moved, abs(x - here))
        w[many * (W_NEXT * n + i) + lane] = x
    return moved


def bend(lane: int, fixed: Array, w: Array) -> bool:
    """Replaces a lane's clipped step by the box step; returns whether it still moves."""
    box_step(lane, fixed, w)
    return take_step(lane, fixed, w) >= LEAST_MOVE


def box_step(lane: int, fixed: Array, w: Array) -> None:
    """The exact box step of a lane, from its clipped Newton step on.

    With several lanes the program, from W_G to W_D and H, is first copied to where it is one piece.
    """
    n, many = size(fixed), lane_count(fixed)
    o = program_at(fixed)
    if many > 1:
        for i in range(W_G * n, (W_D + 1) * n):
            w[o + i] = w[many * i + lane]
        for i in range(W_VECTORS * n, W_VECTORS * n + n * n):
            w[o + i] = w[many * i + lane]
    active_set(w, o, n)
    if many > 1:
        for i in range(W_D * n, (W_D + 1) * n):
            w[many * i + lane] = w[o + i]


def clipped_step(lane: int, fixed: Array, w: Array) -> None:
    """The step by two-metric projection of a single lane; takes the place of `box_step`."""
    projected_step(w, 0, size(fixed))


def rank_table(lane: int, fixed: Array, w: Array) -> None:
    """Writes each table row's squared distance to a lane's targets [m^2], up to a constant.

    Features and distances have single precision, two to each number of `fixed` and `w`: they only
    rank.  Summed over the targets, each by its kind.
    """
    rows, distance = int(fixed[F_ROWS]), singles(w)
    begin = 2 * distances_at(fixed) + lane * rows
    for k in range(rows):
        distance[begin + k] = np.float32(0.0)
    at = 2 * (int(fixed[F_TABLE]) + size(fixed) * rows)
    for t in range(targets(fixed)):
        at = rank_target(t, lane, at, fixed, w)


def rank_target(t: int, lane: int, at: int, fixed: Array, w: Array) -> int:
    """Adds one target's part; a folded module has its own, which knows the target's kind.

    `at` is where the target's features begin; returns where the next one's do.
    """
    kind = target_field(fixed, t, 0)
    if kind == POSITION:
        return rank_position(t, lane, at, 4, fixed, w)
    if kind == AXIS:
        rank_position(t, lane, at, 13, fixed, w)
        return rank_axis(t, lane, at, fixed, w)
    rank_position(t, lane, at, 8, fixed, w)
    return rank_pose(t, lane, at, fixed, w)


def rank_position(t: int, lane: int, at: int, features: int, fixed: Array, w: Array) -> int:
    """Adds |p|^2 - 2 p.p*, with |p|^2 and p from the table: the first four features.

    `at` is where the target's features begin, of which there are `features` for each row; returns
    where the next target's do.
    """
    many, rows = lane_count(fixed), int(fixed[F_ROWS])
    table, distance = singles(fixed), singles(w)
    begin = 2 * distances_at(fixed) + lane * rows
    block = int(fixed[F_BLOCK])  # a number that the compiler does not know keeps the loop
    o = many * goal_at(t, size(fixed)) + lane
    x, y = np.float32(-2.0 * w[o]), np.float32(-2.0 * w[o + many])
    z = np.float32(-2.0 * w[o + 2 * many])
    for out in range(begin, begin + rows, BLOCK):
        for k in range(block):
            square = table[at + k] + x * table[at + BLOCK + k]
            square += y * table[at + 2 * BLOCK + k] + z * table[at + 3 * BLOCK + k]
            distance[out + k] += square
        at += features * BLOCK
    return at


def rank_pose(t: int, lane: int, at: int, fixed: Array, w: Array) -> int:
    """Subtracts weight tr(R^T R*), which is (2 sqrt(weight) h.h*)^2 up to a constant.

    h is a quaternion, the last four features.  Returns where the next target's features begin.
    """
    many, rows = lane_count(fixed), int(fixed[F_ROWS])
    table, distance = singles(fixed), singles(w)
    begin = 2 * distances_at(fixed) + lane * rows
    block = int(fixed[F_BLOCK])
    h = many * (goal_at(t, size(fixed)) + G_QUATERNION) + lane
    scale = 2.0 * math.sqrt(fixed[F_TABLE_WEIGHT])
    a, b = np.float32(scale * w[h]), np.float32(scale * w[h + many])
    c, d = np.float32(scale * w[h + 2 * many]), np.float32(scale * w[h + 3 * many])
    at += 4 * BLOCK
    for out in range(begin, begin + rows, BLOCK):
        for k in range(block):
            cosine = a * table[at + k] + b * table[at + BLOCK + k]
            cosine += c * table[at + 2 * BLOCK + k] + d * table[at + 3 * BLOCK + k]
            distance[out + k] -= cosine * cosine
        at += 8 * BLOCK
    return at - 4 * BLOCK


def rank_axis(t: int, lane: int, at: int, fixed: Array, w: Array) -> int:
    """Subtracts weight x.t, with x = R b the body axis in the world; R: the last nine features."""
    many, rows = lane_count(fixed), int(fixed[F_ROWS])
    table, distance = singles(fixed), singles(w)
    begin = 2 * distances_at(fixed) + lane * rows
    block = int(fixed[F_BLOCK])
    o = many * goal_at(t, size(fixed)) + lane
    for out in range(begin, begin + rows, BLOCK):
        at += 4 * BLOCK
        for i in range(9):
            g = w[o + many * (G_WORLD_AXIS + i // 3)] * w[o + many * (G_BODY_AXIS + i % 3)]
            factor = np.float32(fixed[F_TABLE_WEIGHT] * g)
            for k in range(block):
                distance[out + k] -= factor * table[at + k]
            at += BLOCK
    return at


def nearest_row(lane: int, fixed: Array, w: Array) -> int:
    """The table row of least distance, which is then used up; -1 if none is left."""
    rows, block = int(fixed[F_ROWS]), int(fixed[F_BLOCK])
    distance = singles(w)
    begin = 2 * distances_at(fixed) + lane * rows
    # The least of every k-th of a block, and the block that it is in.
    least = 2 * distances_at(fixed) + lane_count(fixed) * rows
    place = least + BLOCK
    for k in range(BLOCK):
        distance[least + k], distance[place + k] = np.float32(np.inf), np.float32(0.0)
    for number in range(rows // BLOCK):
        here = np.float32(number)
        at = begin + number * BLOCK
        for k in range(block):
            nearer = distance[at + k] < distance[least + k]
            distance[place + k] = here if nearer else distance[place + k]
            distance[least + k] = distance[at + k] if nearer else distance[least + k]
    row, nearest = -1, np.float32(np.inf)
    for k in range(BLOCK):
        if distance[least + k] < nearest:
            row, nearest = BLOCK * int(distance[place + k]) + k, distance[least + k]
    if row >= 0:
        distance[begin + row] = np.float32(np.inf)
    w[lane_count(fixed) * (state_at(size(fixed)) + S_TABLE_ROW) + lane] = row
    return row


def pass_over(lane: int, fixed: Array, w: Array) -> None:
    """Uses up the table rows that are close to the last one, which has failed.

    What lies in its neighbourhood would mostly descend to where it went.
    """
    n, many, rows = size(fixed), lane_count(fixed), int(fixed[F_ROWS])
    last = int(w[many * (state_at(n) + S_TABLE_ROW) + lane])
    if last < 0:
        return
    distance, begin = singles(w), 2 * distances_at(fixed) + lane * rows
    table, low, high = int(fixed[F_TABLE]), HEADER + 2 * n, HEADER + 3 * n
    # Joints without a range (locked ones) do not count.
    for k in range(rows):
        square = 0.0
        for i in range(n):
            x = fixed[table + i * rows + k] - fixed[table + i * rows + last]
            x *= (
                1.0 / (fixed[high + i] - fixed[low + i])
                if fixed[high + i] > fixed[low + i]
                else 0.0
            )
            square += x * x
        distance[begin + k] = (
            np.float32(np.inf) if square < n * fixed[F_APART] else distance[begin + k]
        )


def place_start(start: int, lane: int, fixed: Array, w: Array) -> None:
    """Sets a lane's next configuration to start number `start` (1 or more)."""
    n, many = size(fixed), lane_count(fixed)
    rows, near = int(fixed[F_ROWS]), int(fixed[F_NEAR])
    near = min(near, rows)
    # Below 0 where the table is used up early, which the random sequence takes as well.
    later = start - near - 1
    row = -1
    if start <= near or (later > 0 and later % 2 == 0 and near + later // 2 <= rows):
        pass_over(lane, fixed, w)
        row = nearest_row(lane, fixed, w)
    low, high = HEADER + 2 * n, HEADER + 3 * n
    table = int(fixed[F_TABLE])
    for i in range(n):
        if row >= 0:
            x = fixed[table + i * rows + row]
        elif later == 0:
            x = 0.5 * (fixed[low + i] + fixed[high + i])
        else:
            x = fixed[F_SEED] + later * fixed[HEADER + 4 * n + i]
            x -= math.floor(x)
            # A start right at a limit is a bad one: 5 % of the range stay free at both ends.
            x = fixed[low + i] + (0.05 + 0.9 * x) * (fixed[high + i] - fixed[low + i])
        x = min(max(x, fixed[HEADER + i]), fixed[HEADER + n + i])
        w[many * (W_NEXT * n + i) + lane] = x
