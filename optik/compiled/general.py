"""Forward kinematics and Jacobian of any chain, from its numbers: compiled once for all.

    T = F_0 Mz_1 F_1 Mz_2 ... Mz_m F_m  (optik.compiled.normal)

The Jacobian's columns are z_j x (p - o_j) over z_j for a hinge and z_j over 0 for a slide, with
o_j, z_j the origin and axis of joint j in the world, times du_j/dq (Whitney 1972); joints that
follow the same entry of q are added up.  `fold.py` writes the same computation out for one chain.
"""

from __future__ import annotations

import numpy as np

from optik.compiled.layout import (
    BLOCK,
    F_CHAIN,
    F_FRAMES,
    F_ROWS,
    F_SIZE,
    F_TARGETS,
    FRAME_HEAD,
    FRAME_RECORD,
    GOAL,
    JOINT_RECORD,
    STATES,
    TARGET_RECORD,
    W_VECTORS,
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


def lane_count(fixed: Array) -> int:
    """Problems that are worked on at once; more than one only in a module folded for a batch."""
    return 1


def state_at(n: int) -> int:
    """Place of the states in the first part of `w`; also the numbers of one quadratic program."""
    return W_VECTORS * n + 2 * n * n


def goal_at(k: int, n: int) -> int:
    """Place of target k's goal in the first part of `w`."""
    return W_VECTORS * n + 2 * n * n + STATES + GOAL * k


def blocks_at(fixed: Array) -> int:
    """Where the frames' blocks begin in `w`; those of the targets follow after all of them."""
    return lane_count(fixed) * goal_at(targets(fixed), size(fixed))


def program_at(fixed: Array) -> int:
    """Where a box step's program stands in `w`: a copy of a lane's, or at once the only lane's."""
    if lane_count(fixed) == 1:
        return 0
    blocks = (frame_count(fixed) + targets(fixed)) * (FRAME_HEAD + 6 * size(fixed))
    return blocks_at(fixed) + blocks + trig_size(fixed)


def distances_at(fixed: Array) -> int:
    """Where the distances to the table's rows begin in `w`, two to a number.

    After them there is room for what `nearest_row` keeps, BLOCK numbers.
    """
    n = size(fixed)
    if lane_count(fixed) > 1:
        return program_at(fixed) + state_at(n)
    blocks = (frame_count(fixed) + targets(fixed)) * (FRAME_HEAD + 6 * n)
    return blocks_at(fixed) + blocks + trig_size(fixed)


def workspace(fixed: Array) -> Array:
    """Everything that a solve scribbles on, in one allocation."""
    rows = lane_count(fixed) * int(fixed[F_ROWS]) // 2
    return np.empty(distances_at(fixed) + rows + BLOCK)


def target_field(fixed: Array, k: int, field: int) -> int:
    """One entry of target k's record."""
    return int(fixed[int(fixed[F_CHAIN]) + TARGET_RECORD * k + field])


def frames(fixed: Array, w: Array) -> None:
    """Writes the position, rotation and Jacobian of every frame at the configuration in `w`.

    Args:
        fixed: the solver's numbers (optik.compiled.layout).
        w: workspace; frame f's block, at blocks_at + f * (12 + 6 n), is its position (3), its
            rotation row by row (9) and its Jacobian (6, n), linear rows first, all in the world.
    """
    n = size(fixed)
    records = int(fixed[F_CHAIN]) + TARGET_RECORD * targets(fixed)
    for f in range(frame_count(fixed)):
        first = int(fixed[records + FRAME_RECORD * f])
        count = int(fixed[records + FRAME_RECORD * f + 1])
        at = blocks_at(fixed) + f * (FRAME_HEAD + 6 * n)
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
            u = w[index] - fixed[c + 4]
            slope = 1.0
            if fixed[c + 2] == 0.0:
                x = u
                u = fixed[c + 9]
                slope = 0.0
                # Horner's scheme, the derivative one step behind the value.
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
