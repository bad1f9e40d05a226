"""Forward kinematics and Jacobian of any chain, from its numbers: compiled once for all.

    T = F_0 Mz_1 F_1 Mz_2 ... Mz_m F_m  (optik.compiled.normal)

The Jacobian's columns are z_j x (p - o_j) over z_j for a hinge and z_j over 0 for a slide, with
o_j, z_j the origin and axis of joint j in the world, times du_j/dq (Whitney 1972); joints that
follow the same entry of q are added up.  `fold.py` writes the same computation out for one chain.
"""

from __future__ import annotations

from optik.compiled.layout import (
    F_CHAIN,
    F_FRAMES,
    F_SIZE,
    F_TARGETS,
    FRAME_HEAD,
    FRAME_RECORD,
    JOINT_RECORD,
    TARGET_RECORD,
)
from optik.compiled.trig import sincos
from optik.pose import Array


def size(fixed: Array) -> int:
    """Number of joints n."""
    return int(fixed[F_SIZE])


def targets(fixed: Array) -> int:
    """Number of targets."""
    return int(fixed[F_TARGETS])


def frame_count(fixed: Array) -> int:
    """Number of frames that the targets need, bases included."""
    return int(fixed[F_FRAMES])


def trig_size(fixed: Array) -> int:
    """Numbers that the folded kernel keeps for sines and cosines; none here."""
    return 0


def target_field(fixed: Array, k: int, field: int) -> int:
    """One entry of target k's record."""
    return int(fixed[int(fixed[F_CHAIN]) + TARGET_RECORD * k + field])


def frames(q: Array, fixed: Array, w: Array) -> None:
    """Writes every frame's position, rotation and Jacobian into `w`.

    Args:
        q: configuration, shape (n,) [rad or m].
        fixed: the solver's numbers (optik.compiled.layout).
        w: workspace; frame f's block starts at f * (12 + 6 n).
    """
    n = size(fixed)
    records = int(fixed[F_CHAIN]) + TARGET_RECORD * targets(fixed)
    for f in range(frame_count(fixed)):
        first = int(fixed[records + FRAME_RECORD * f])
        count = int(fixed[records + FRAME_RECORD * f + 1])
        at = f * (FRAME_HEAD + 6 * n)
        jac = at + FRAME_HEAD
        for i in range(6 * n):
            w[jac + i] = 0.0
        px, py, pz = 0.0, 0.0, 0.0
        xx, xy, xz = 1.0, 0.0, 0.0
        yx, yy, yz = 0.0, 1.0, 0.0
        zx, zy, zz = 0.0, 0.0, 1.0  # columns: the frame's axes x, y, z in the world
        for i in range(count):
            c = first + JOINT_RECORD * i
            tx, ty, tz = fixed[c + 10], fixed[c + 11], fixed[c + 12]
            px += xx * tx + yx * ty + zx * tz
            py += xy * tx + yy * ty + zy * tz
            pz += xz * tx + yz * ty + zz * tz
            r = c + 13
            a, b, d = fixed[r], fixed[r + 3], fixed[r + 6]
            ux, uy, uz = (
                xx * a + yx * b + zx * d,
                xy * a + yy * b + zy * d,
                xz * a + yz * b + zz * d,
            )
            a, b, d = fixed[r + 1], fixed[r + 4], fixed[r + 7]
            vx, vy, vz = (
                xx * a + yx * b + zx * d,
                xy * a + yy * b + zy * d,
                xz * a + yz * b + zz * d,
            )
            a, b, d = fixed[r + 2], fixed[r + 5], fixed[r + 8]
            zx, zy, zz = (
                xx * a + yx * b + zx * d,
                xy * a + yy * b + zy * d,
                xz * a + yz * b + zz * d,
            )
            index = int(fixed[c + 1])
            u = q[index] - fixed[c + 4]
            slope = 1.0
            if fixed[c + 2] == 0.0:
                x = u
                u = fixed[c + 9]
                slope = 0.0
                for k in range(4):
                    slope = slope * x + u
                    u = u * x + fixed[c + 8 - k]
            u += fixed[c + 3]
            # With o_j x z_j in place of z_j x (p - o_j) the columns need not wait for p.
            if fixed[c] != 0.0:
                s, co = sincos(u)
                xx, xy, xz = co * ux + s * vx, co * uy + s * vy, co * uz + s * vz
                yx, yy, yz = co * vx - s * ux, co * vy - s * uy, co * vz - s * uz
                w[jac + index] += slope * (py * zz - pz * zy)
                w[jac + n + index] += slope * (pz * zx - px * zz)
                w[jac + 2 * n + index] += slope * (px * zy - py * zx)
                w[jac + 3 * n + index] += slope * zx
                w[jac + 4 * n + index] += slope * zy
                w[jac + 5 * n + index] += slope * zz
            else:
                xx, xy, xz, yx, yy, yz = ux, uy, uz, vx, vy, vz
                px += u * zx
                py += u * zy
                pz += u * zz
                w[jac + index] += slope * zx
                w[jac + n + index] += slope * zy
                w[jac + 2 * n + index] += slope * zz
        c = first + JOINT_RECORD * count
        tx, ty, tz = fixed[c], fixed[c + 1], fixed[c + 2]
        px += xx * tx + yx * ty + zx * tz
        py += xy * tx + yy * ty + zy * tz
        pz += xz * tx + yz * ty + zz * tz
        w[at], w[at + 1], w[at + 2] = px, py, pz
        r = c + 3
        for k in range(3):
            a, b, d = fixed[r + k], fixed[r + 3 + k], fixed[r + 6 + k]
            w[at + 3 + k] = xx * a + yx * b + zx * d
            w[at + 6 + k] = xy * a + yy * b + zy * d
            w[at + 9 + k] = xz * a + yz * b + zz * d
        # v_j = o_j x z_j + z_j x p is the frame's own velocity, w_j its angular part.
        for j in range(n):
            ax, ay, az = w[jac + 3 * n + j], w[jac + 4 * n + j], w[jac + 5 * n + j]
            w[jac + j] += ay * pz - az * py
            w[jac + n + j] += az * px - ax * pz
            w[jac + 2 * n + j] += ax * py - ay * px
