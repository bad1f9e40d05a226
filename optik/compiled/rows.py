r"""The normal equations of a problem: H = J^T J, g = J^T e and the cost, summed over the targets.

The chordal rotation residual has nine rows, w/sqrt(2) (a_i* - a_i) over the frame's axes a_i, and
the exact Jacobian -w/sqrt(2) [a_i]x J_r.  Since sum_i [a_i]x^T [a_i]x = 2 I, nine rows give the
same normal equations as three:

    J^T J = w^2 J_r^T J_r
    J^T e = w^2 J_r^T s,    s = 1/2 sum_i a_i x a_i* = sin(theta) axis
    cost  = w^2 (1 - cos(theta))

so that the exact chordal Gauss-Newton step costs no more than the geometric one with the logarithm.
For an axis target x -> t:  J^T J = w^2 J_r^T (1 - x x^T) J_r,  J^T e = w^2 J_r^T (x cross t),
cost = w^2 (1 - x.t).  Close to a half turn s vanishes though the error is largest; there the axis
itself, with length one, takes the place of s.

Errors are measured without arcsine or arctangent: `measure` = sin(theta) up to a right angle and
2 - sin(theta) beyond it, which rises from 0 to 2 with theta.
"""

from __future__ import annotations

import math

from optik.compiled.general import (
    blocks_at,
    frame_count,
    frames,
    goal_at,
    size,
    target_field,
    targets,
)
from optik.compiled.layout import (
    AXIS,
    F_LOG,
    FRAME_HEAD,
    G_BODY_AXIS,
    G_POSITION_WEIGHT,
    G_ROTATION,
    G_ROTATION_WEIGHT,
    G_WORLD_AXIS,
    POSE,
    POSITION,
    W_G,
    W_VECTORS,
)
from optik.pose import Array


def normal_equations(fixed: Array, w: Array) -> tuple[float, float, float]:
    """Fills the normal equations at the configuration in `w`.

    Args:
        fixed: the solver's numbers.
        w: workspace: reads q and the goals, writes g = J^T e and the lower triangle of H = J^T J,
            both weighted; the targets' blocks are left with residuals in place of poses.

    Returns:
        The cost, the largest position error [m] and the largest measure of a rotation error.
    """
    n = size(fixed)
    g, H = W_G * n, W_VECTORS * n
    frames(fixed, w)
    for i in range(n):
        w[g + i] = 0.0
        for j in range(i + 1):
            w[H + i * n + j] = 0.0
    cost, position, rotation = 0.0, 0.0, 0.0
    for k in range(targets(fixed)):
        kind = target_field(fixed, k, 0)
        masked = target_field(fixed, k, 3) != 0
        at = block_of(k, fixed, w, n)
        jac = at + FRAME_HEAD
        o = goal_at(k, n)
        wp, wr = w[o + G_POSITION_WEIGHT], w[o + G_ROTATION_WEIGHT]
        # The residual takes the place of the position and of the first row of the rotation.
        square = 0.0
        for row in range(3):
            e = w[o + row] - w[at + row]
            if masked and target_field(fixed, k, 4 + row) == 0:
                e = 0.0
                for j in range(n):
                    w[jac + row * n + j] = 0.0
            w[at + row] = e
            square += e * e
        position = max(position, math.sqrt(square))
        cost += 0.5 * wp * wp * square
        rows = 3
        if kind == POSE:
            c, measure = pose_rows(k, w, at, o, fixed, n)
        elif kind == AXIS:
            c, measure = axis_rows(w, at, o, fixed[F_LOG] != 0.0, n)
        if kind != POSITION:
            rows = 6
            cost += wr * wr * c
            rotation = max(rotation, measure)
        for row in range(rows):
            weight = wp * wp if row < 3 else wr * wr
            e = weight * w[at + row]
            for i in range(n):
                a = w[jac + row * n + i]
                w[g + i] += a * e
                a *= weight
                for j in range(i + 1):
                    w[H + i * n + j] += a * w[jac + row * n + j]
    return cost, position, rotation


def pose_rows(k: int, w: Array, at: int, o: int, fixed: Array, n: int) -> tuple[float, float]:
    """Puts a pose target's rotation residual at `w[at + 3]`; with a mask, changes its Jacobian too.

    Returns:
        Its cost [rad^2] and measure.
    """
    x, y, z, cosine = turn_between(w, at, o)
    sine = math.sqrt(x * x + y * y + z * z)
    masked = target_field(fixed, k, 3) != 0
    log = masked or fixed[F_LOG] != 0.0
    # 1 - cos(theta), without cancellation where theta is small.
    cost = sine * sine / (1.0 + cosine) if cosine > 0.0 else 1.0 - cosine
    measure = sine if cosine > 0.0 else 2.0 - sine
    if log or cosine < -0.9:
        x, y, z = long_axis(w, at, o, x, y, z, cosine)
    if log:
        angle = math.atan2(sine, cosine)
        x, y, z = angle * x, angle * y, angle * z
        cost = 0.5 * angle * angle
    w[at + 3], w[at + 4], w[at + 5] = x, y, z
    if masked:
        # A part of the logarithm has no shortcut (optik.residual): its Jacobian is J_right^-1 J_r,
        #     J_right^-1 v = v + r x v / 2 + f r x (r x v),
        #     f = (1 - a (1 + cos a) / (2 sin a)) / a^2,    a = |r|
        square = x * x + y * y + z * z
        f = 1.0 / 12.0 + square / 720.0
        if square > 1e-8:
            # Half the cotangent of a / 2, in the form that has no small difference.
            half = 0.5 * (1.0 + cosine) / sine if cosine > 0.0 else 0.5 * sine / (1.0 - cosine)
            f = (1.0 - angle * half) / square
        jr = at + FRAME_HEAD + 3 * n
        for j in range(n):
            a, b, c = w[jr + j], w[jr + n + j], w[jr + 2 * n + j]
            u, v, t = y * c - z * b, z * a - x * c, x * b - y * a
            w[jr + j] = a + 0.5 * u + f * (y * t - z * v)
            w[jr + n + j] = b + 0.5 * v + f * (z * u - x * t)
            w[jr + 2 * n + j] = c + 0.5 * t + f * (x * v - y * u)
        square = 0.0
        for row in range(3, 6):
            if target_field(fixed, k, 4 + row) == 0:
                w[at + row] = 0.0
                for j in range(n):
                    w[at + FRAME_HEAD + row * n + j] = 0.0
            square += w[at + row] * w[at + row]
        cost = 0.5 * square
        angle = math.sqrt(square)
        measure = math.sin(angle) if angle < 0.5 * math.pi else 2.0 - math.sin(angle)
    return cost, measure


def turn_between(w: Array, at: int, o: int) -> tuple[float, float, float, float]:
    """Sine times axis (world, 3 numbers) and cosine of the turn from the frame to its goal."""
    a, b = at + 3, o + G_ROTATION
    x = y = z = trace = 0.0
    for i in range(3):
        ux, uy, uz = w[a + i], w[a + 3 + i], w[a + 6 + i]
        vx, vy, vz = w[b + i], w[b + 3 + i], w[b + 6 + i]
        x += uy * vz - uz * vy
        y += uz * vx - ux * vz
        z += ux * vy - uy * vx
        trace += ux * vx + uy * vy + uz * vz
    return 0.5 * x, 0.5 * y, 0.5 * z, 0.5 * (trace - 1.0)


def long_axis(
    w: Array, at: int, o: int, x: float, y: float, z: float, cosine: float
) -> tuple[float, float, float]:
    """Unit axis of the turn from the frame to its goal, also where its sine is zero.

    Beyond a right angle it comes from the symmetric part of E = R* R^T,
    (E + E^T) / 2 = cos 1 + (1 - cos) a a^T.
    """
    if cosine > 0.0:
        sine = math.sqrt(x * x + y * y + z * z)
        scale = 1.0 / sine if sine > 0.0 else 0.0
        return scale * x, scale * y, scale * z
    a, b = at + 3, o + G_ROTATION
    xx = yy = zz = xy = xz = yz = 0.0
    for i in range(3):
        ux, uy, uz = w[a + i], w[a + 3 + i], w[a + 6 + i]
        vx, vy, vz = w[b + i], w[b + 3 + i], w[b + 6 + i]
        xx += vx * ux
        yy += vy * uy
        zz += vz * uz
        xy += 0.5 * (vx * uy + vy * ux)
        xz += 0.5 * (vx * uz + vz * ux)
        yz += 0.5 * (vy * uz + vz * uy)
    return symmetric_axis(xx, yy, zz, xy, xz, yz, cosine, x, y, z)


def symmetric_axis(
    xx: float,
    yy: float,
    zz: float,
    xy: float,
    xz: float,
    yz: float,
    cosine: float,
    x: float,
    y: float,
    z: float,
) -> tuple[float, float, float]:
    """Unit axis of a turn of more than a right angle, from the symmetric part of its matrix.

    The largest column is taken, with the sign of sine times axis, (x, y, z).
    """
    xx, yy, zz = xx - cosine, yy - cosine, zz - cosine
    if xx >= yy and xx >= zz:
        ax, ay, az = xx, xy, xz
    elif yy >= zz:
        ax, ay, az = xy, yy, yz
    else:
        ax, ay, az = xz, yz, zz
    scale = 1.0 / math.sqrt(ax * ax + ay * ay + az * az)
    if ax * x + ay * y + az * z < 0.0:
        scale = -scale
    return scale * ax, scale * ay, scale * az


def opposite_axes(
    x: float, y: float, z: float, sx: float, sy: float, sz: float, sine: float, length: float
) -> tuple[float, float, float]:
    """Gives the turn of axis (x, y, z), with cross product s to its goal, the wanted length.

    Without a cross product the axes are the same, which a short length tells, or opposite: then any
    perpendicular one turns one onto the other.
    """
    if sine < 1e-12:
        if length < 1.0:
            return sx, sy, sz
        sx, sy, sz = z, 0.0, -x
        if abs(x) < 0.5 and abs(z) < 0.5:
            sx, sy, sz = 0.0, -z, y
        sine = math.sqrt(sx * sx + sy * sy + sz * sz)
    scale = length / sine
    return scale * sx, scale * sy, scale * sz


def axis_rows(w: Array, at: int, o: int, log: bool, n: int) -> tuple[float, float]:
    """Puts an axis target's residual at `w[at + 3]` and projects its Jacobian rows.

    Returns:
        Its cost [rad^2] and measure.
    """
    r = at + 3
    bx, by, bz = w[o + G_BODY_AXIS], w[o + G_BODY_AXIS + 1], w[o + G_BODY_AXIS + 2]
    tx, ty, tz = w[o + G_WORLD_AXIS], w[o + G_WORLD_AXIS + 1], w[o + G_WORLD_AXIS + 2]
    x = w[r] * bx + w[r + 1] * by + w[r + 2] * bz
    y = w[r + 3] * bx + w[r + 4] * by + w[r + 5] * bz
    z = w[r + 6] * bx + w[r + 7] * by + w[r + 8] * bz
    sx, sy, sz = y * tz - z * ty, z * tx - x * tz, x * ty - y * tx
    sine = math.sqrt(sx * sx + sy * sy + sz * sz)
    cosine = x * tx + y * ty + z * tz
    measure = sine if cosine > 0.0 else 2.0 - sine
    cost = sine * sine / (1.0 + cosine) if cosine > 0.0 else 1.0 - cosine
    if log or cosine < -0.9:
        angle = math.atan2(sine, cosine)
        if log:
            cost = 0.5 * angle * angle
        length = angle if log else 1.0
        sx, sy, sz = opposite_axes(x, y, z, sx, sy, sz, sine, length)
    w[r], w[r + 1], w[r + 2] = sx, sy, sz
    jr = at + FRAME_HEAD + 3 * n
    # The rows of (1 - x x^T) J_r: their normal equations are those of -[x]x J_r.
    for j in range(n):
        a, b, c = w[jr + j], w[jr + n + j], w[jr + 2 * n + j]
        along = a * x + b * y + c * z
        w[jr + j] = a - along * x
        w[jr + n + j] = b - along * y
        w[jr + 2 * n + j] = c - along * z
    return cost, measure


def block_of(k: int, fixed: Array, w: Array, n: int) -> int:
    """Where target k's pose and Jacobian stand in `w`, in the axes of its base.

    The block is target k's own, after the frames' blocks: the residual is written over it, and
    two targets may control the same frame.
    """
    stride = FRAME_HEAD + 6 * n
    begin = blocks_at(fixed)
    at = begin + target_field(fixed, k, 1) * stride
    base = target_field(fixed, k, 2)
    out = begin + (frame_count(fixed) + k) * stride
    if base < 0:
        for i in range(stride):
            w[out + i] = w[at + i]
        return out
    b = begin + base * stride
    gx, gy, gz = w[at] - w[b], w[at + 1] - w[b + 1], w[at + 2] - w[b + 2]
    for i in range(3):
        x, y, z = w[b + 3 + i], w[b + 6 + i], w[b + 9 + i]  # column i of the base's rotation
        w[out + i] = x * gx + y * gy + z * gz
        for j in range(3):
            w[out + 3 + 3 * i + j] = x * w[at + 3 + j] + y * w[at + 6 + j] + z * w[at + 9 + j]
    ja, jb, jo = at + FRAME_HEAD, b + FRAME_HEAD, out + FRAME_HEAD
    for j in range(n):
        ax = w[ja + 3 * n + j] - w[jb + 3 * n + j]
        ay = w[ja + 4 * n + j] - w[jb + 4 * n + j]
        az = w[ja + 5 * n + j] - w[jb + 5 * n + j]
        bx, by, bz = w[jb + 3 * n + j], w[jb + 4 * n + j], w[jb + 5 * n + j]
        vx = w[ja + j] - w[jb + j] - (by * gz - bz * gy)
        vy = w[ja + n + j] - w[jb + n + j] - (bz * gx - bx * gz)
        vz = w[ja + 2 * n + j] - w[jb + 2 * n + j] - (bx * gy - by * gx)
        for i in range(3):
            x, y, z = w[b + 3 + i], w[b + 6 + i], w[b + 9 + i]
            w[jo + i * n + j] = x * vx + y * vy + z * vz
            w[jo + (3 + i) * n + j] = x * ax + y * ay + z * az
    return out
