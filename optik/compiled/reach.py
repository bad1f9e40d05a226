"""Branch and bound over joint ranges for position targets: the inner loop, compiled.

The mathematics is told in `optik.reachability.boxes`, whose NumPy code checks what is found here
and shares no line with it.  One file and one function, because Numba's disk cache watches one file
and because a call per box would cost more than the box.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from optik.pose import Array

REACHED, PROVED, OUT_OF_BOXES = 0, 1, 2


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _turn(R: Array, v: Array) -> None:
    """Replaces v by R v."""
    x, y, z = v[0], v[1], v[2]
    v[0] = R[0, 0] * x + R[0, 1] * y + R[0, 2] * z
    v[1] = R[1, 0] * x + R[1, 1] * y + R[1, 2] * z
    v[2] = R[2, 0] * x + R[2, 1] * y + R[2, 2] * z


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _least(
    n0: float,
    n1: float,
    n2: float,
    hinge: Array,
    lever: Array,
    across: Array,
    link: Array,
    half: Array,
    swept: int,
    coupling: float,
) -> float:
    """Lower bound on n . (x(q) - x(middle)): joint after joint or link after link."""
    joints, links, angle = -coupling, 0.0, 0.0
    for j in range(swept, len(hinge)):
        sine = n0 * lever[j, 0] + n1 * lever[j, 1] + n2 * lever[j, 2]
        h = half[j]
        if hinge[j] < 0.5:
            joints -= h * abs(sine)
            links -= h
            continue
        cosine = n0 * across[j, 0] + n1 * across[j, 1] + n2 * across[j, 2]
        # cosine (cos d - 1) + sine sin d is least inside |d| <= h, or at an end of it.
        if -cosine >= np.cos(h) * np.sqrt(cosine * cosine + sine * sine):
            joints -= np.sqrt(cosine * cosine + sine * sine) + cosine
        else:
            joints -= abs(sine) * np.sin(h) + cosine * (1.0 - np.cos(h))
        # The link's direction turns by no more than the joints before it, all together.
        angle += h
        x, y, z = link[j, 0], link[j, 1], link[j, 2]
        length = np.sqrt(x * x + y * y + z * z)
        cosine = n0 * x + n1 * y + n2 * z
        if angle >= np.pi or cosine <= -np.cos(angle) * length:
            links -= length + cosine
        else:
            sine = np.sqrt(max(length * length - cosine * cosine, 0.0))
            links -= cosine * (1.0 - np.cos(angle)) + sine * np.sin(angle)
    return max(joints, links)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _most(
    n0: float,
    n1: float,
    n2: float,
    hinge: Array,
    lever: Array,
    across: Array,
    half: Array,
    swept: int,
) -> float:
    """Sum over the joints of a bound on |n . (Rot(d) - 1) r| over |d| <= h."""
    total = 0.0
    for j in range(swept, len(hinge)):
        slope = abs(n0 * lever[j, 0] + n1 * lever[j, 1] + n2 * lever[j, 2])
        if hinge[j] < 0.5:
            total += half[j] * slope
            continue
        bow = abs(n0 * across[j, 0] + n1 * across[j, 1] + n2 * across[j, 2])
        total += slope * np.sin(min(half[j], 0.5 * np.pi)) + bow * (1.0 - np.cos(half[j]))
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _bound(
    hinge: Array,
    axis: Array,
    offset: Array,
    rotation: Array,
    tool: Array,
    target: Array,
    rows: Array,
    swept: int,
    axial: float,
    middle: Array,
    half: Array,
    reach: Array,
    lever: Array,
    across: Array,
    link: Array,
) -> tuple[float, float]:
    """Lower bound over one box and the distance at its middle; fills the last four arrays."""
    m = len(hinge)
    cx, cy, cz = tool[0], tool[1], tool[2]  # centre of a ball that holds every tool position
    px, py, pz = tool[0], tool[1], tool[2]  # tool position at the middle of the box
    fx, fy, fz = tool[0], tool[1], tool[2]  # what does not turn with the joint that comes next
    T, S = np.empty((3, 3)), np.empty((3, 3))
    radius = 0.0
    for j in range(m - 1, swept - 1, -1):
        ax, ay, az = axis[j, 0], axis[j, 1], axis[j, 2]
        u, h = middle[j], half[j]
        T[:] = 0.0  # the joint's own rotation at the middle of its range
        T[0, 0] = T[1, 1] = T[2, 2] = 1.0
        if hinge[j] > 0.5:
            along = ax * cx + ay * cy + az * cz
            vx, vy, vz = cx - along * ax, cy - along * ay, cz - along * az
            rho = np.sqrt(vx * vx + vy * vy + vz * vz)
            reach[j] = rho + radius
            cu, su = np.cos(u), np.sin(u)
            e = 1.0 - cu
            T[0, 0], T[0, 1], T[0, 2] = (
                cu + e * ax * ax,
                e * ax * ay - su * az,
                e * ax * az + su * ay,
            )
            T[1, 0], T[1, 1], T[1, 2] = (
                e * ax * ay + su * az,
                cu + e * ay * ay,
                e * ay * az - su * ax,
            )
            T[2, 0], T[2, 1], T[2, 2] = (
                e * ax * az - su * ay,
                e * ay * az + su * ax,
                cu + e * az * az,
            )
            if h >= 0.5 * np.pi:
                cx, cy, cz = along * ax, along * ay, along * az
                radius += rho
            else:
                k = np.cos(h)
                wx, wy, wz = ay * vz - az * vy, az * vx - ax * vz, ax * vy - ay * vx
                cx = along * ax + k * (cu * vx + su * wx)
                cy = along * ay + k * (cu * vy + su * wy)
                cz = along * az + k * (cu * vz + su * wz)
                radius += rho * np.sin(h)
            along = ax * px + ay * py + az * pz
            vx, vy, vz = px - along * ax, py - along * ay, pz - along * az
            wx, wy, wz = ay * vz - az * vy, az * vx - ax * vz, ax * vy - ay * vx
            px = along * ax + cu * vx + su * wx
            py = along * ay + cu * vy + su * wy
            pz = along * az + cu * vz + su * wz
            # d tool / d u = axis x tool, and -d2 tool / du2, carried inwards through the frames.
            lever[j, 0], lever[j, 1] = ay * pz - az * py, az * px - ax * pz
            lever[j, 2] = ax * py - ay * px
            side = ax * fx + ay * fy + az * fz
            vx, vy, vz = fx - side * ax, fy - side * ay, fz - side * az
            wx, wy, wz = ay * vz - az * vy, az * vx - ax * vz, ax * vy - ay * vx
            link[j, 0], link[j, 1] = cu * vx + su * wx, cu * vy + su * wy
            link[j, 2] = cu * vz + su * wz
            fx, fy, fz = side * ax, side * ay, side * az
            across[j, 0], across[j, 1], across[j, 2] = (
                px - along * ax,
                py - along * ay,
                pz - along * az,
            )
        else:
            reach[j] = 1.0
            cx, cy, cz = cx + u * ax, cy + u * ay, cz + u * az
            px, py, pz = px + u * ax, py + u * ay, pz + u * az
            fx, fy, fz = fx + u * ax, fy + u * ay, fz + u * az
            radius += h
            lever[j, 0], lever[j, 1], lever[j, 2] = ax, ay, az
        R, o = rotation[j], offset[j]
        cx, cy, cz = (
            o[0] + R[0, 0] * cx + R[0, 1] * cy + R[0, 2] * cz,
            o[1] + R[1, 0] * cx + R[1, 1] * cy + R[1, 2] * cz,
            o[2] + R[2, 0] * cx + R[2, 1] * cy + R[2, 2] * cz,
        )
        px, py, pz = (
            o[0] + R[0, 0] * px + R[0, 1] * py + R[0, 2] * pz,
            o[1] + R[1, 0] * px + R[1, 1] * py + R[1, 2] * pz,
            o[2] + R[2, 0] * px + R[2, 1] * py + R[2, 2] * pz,
        )
        fx, fy, fz = (
            o[0] + R[0, 0] * fx + R[0, 1] * fy + R[0, 2] * fz,
            o[1] + R[1, 0] * fx + R[1, 1] * fy + R[1, 2] * fz,
            o[2] + R[2, 0] * fx + R[2, 1] * fy + R[2, 2] * fz,
        )
        # Everything further out is seen from before this joint from now on.
        for r in range(3):
            for c in range(3):
                S[r, c] = R[r, 0] * T[0, c] + R[r, 1] * T[1, c] + R[r, 2] * T[2, c]
        for i in range(j, m):
            Q = R if i == j else S
            _turn(Q, lever[i])
            _turn(Q, across[i])
            _turn(Q, link[i])

    coupling, outer = 0.0, 0.0  # what the joints do to each other's effect
    for j in range(m - 1, swept - 1, -1):
        chord = 2.0 * np.sin(0.5 * half[j]) if hinge[j] > 0.5 else half[j]
        if hinge[j] > 0.5:
            coupling += chord * outer
        outer += chord * reach[j]
    if swept == 0:
        dx, dy, dz = (
            rows[0] * (cx - target[0]),
            rows[1] * (cy - target[1]),
            rows[2] * (cz - target[2]),
        )
        first = np.sqrt(dx * dx + dy * dy + dz * dz) - radius
        dx, dy, dz = (
            rows[0] * (px - target[0]),
            rows[1] * (py - target[1]),
            rows[2] * (pz - target[2]),
        )
        d = np.sqrt(dx * dx + dy * dy + dz * dz)
        second = -1.0
        if d > 0.0:
            n0, n1, n2 = dx / d, dy / d, dz / d
            second = d + _least(n0, n1, n2, hinge, lever, across, link, half, swept, coupling)
    else:
        ax, ay, az = axis[0, 0], axis[0, 1], axis[0, 2]
        h = half[0]
        tz = ax * target[0] + ay * target[1] + az * target[2]
        tx_, ty_, tz_ = target[0] - tz * ax, target[1] - tz * ay, target[2] - tz * az
        tr = np.sqrt(tx_ * tx_ + ty_ * ty_ + tz_ * tz_)
        bx, by, bz = ay * tz_ - az * ty_, az * tx_ - ax * tz_, ax * ty_ - ay * tx_  # axis x target
        first, second, d = 0.0, -1.0, 0.0
        for pick in range(2):
            x, y, z = (cx, cy, cz) if pick == 0 else (px, py, pz)
            along = ax * x + ay * y + az * z
            vx, vy, vz = x - along * ax, y - along * ay, z - along * az
            rho = np.sqrt(vx * vx + vy * vy + vz * vz)
            dot = vx * tx_ + vy * ty_ + vz * tz_
            cross = vx * bx + vy * by + vz * bz
            angle = abs(np.arctan2(cross, dot)) if rho * tr > 0.0 else 0.0
            excess = angle - h
            gap = axial * (along - tz)
            if excess <= 0.0:
                distance = np.sqrt((rho - tr) * (rho - tr) + gap * gap)
            else:
                s = np.sin(0.5 * excess)
                distance = np.sqrt((rho - tr) * (rho - tr) + 4.0 * rho * tr * s * s + gap * gap)
            if pick == 0:
                first = distance - radius
                continue
            d = distance
            if d <= 0.0 or rho <= 0.0:
                continue
            if excess <= 0.0:
                ux, uy, uz = vx / rho, vy / rho, vz / rho
                bend = -1.0
                for j in range(swept - 1, m):
                    # The direction to the target, then those across one joint's motion.
                    nr, na = rho - tr, gap
                    if j >= swept:
                        nr = -axial * (ax * lever[j, 0] + ay * lever[j, 1] + az * lever[j, 2])
                        na = axial * (ux * lever[j, 0] + uy * lever[j, 1] + uz * lever[j, 2])
                    length = np.sqrt(nr * nr + na * na)
                    if length <= 0.0:
                        continue
                    nr, na = nr / length, na / length
                    if nr * (rho - tr) + na * gap < 0.0:
                        nr, na = -nr, -na
                    value = nr * (rho - tr) + na * gap
                    if value <= second:
                        continue
                    if nr < 0.0:
                        # rho(q) <= u . x + tangential^2 / (2 u . x)
                        if bend < 0.0:
                            wx, wy, wz = ay * uz - az * uy, az * ux - ax * uz, ax * uy - ay * ux
                            sway = coupling + _most(wx, wy, wz, hinge, lever, across, half, swept)
                            dx, dy, dz = px - cx, py - cy, pz - cz
                            low = rho - radius - np.sqrt(dx * dx + dy * dy + dz * dz)
                            bend = sway * sway / (2.0 * low) if low > 0.0 else np.inf
                        value += nr * bend
                    n0, n1, n2 = nr * ux + na * ax, nr * uy + na * ay, nr * uz + na * az
                    value += _least(n0, n1, n2, hinge, lever, across, link, half, swept, coupling)
                    second = max(second, value)
            else:
                # The nearest end of the arc of targets, and the arc's support in that direction.
                turn = h if cross > 0.0 else -h
                ct, st = np.cos(turn), np.sin(turn)
                ex, ey, ez = ct * tx_ + st * bx, ct * ty_ + st * by, ct * tz_ + st * bz
                nx, ny, nz = (vx - ex) / d, (vy - ey) / d, (vz - ez) / d
                # Largest n . (cos s t + sin s b) over |s| <= h.
                cc, ss = nx * tx_ + ny * ty_ + nz * tz_, nx * bx + ny * by + nz * bz
                best = np.arctan2(ss, cc)
                top = np.sqrt(cc * cc + ss * ss)
                if abs(best) > h:
                    top = max(cc * np.cos(h) + ss * np.sin(h), cc * np.cos(h) - ss * np.sin(h))
                na = axial * gap / d
                second = nx * vx + ny * vy + nz * vz - top + na * (along - tz)
                nx, ny, nz = nx + na * ax, ny + na * ay, nz + na * az
                second += _least(nx, ny, nz, hinge, lever, across, link, half, swept, coupling)
    return max(first, second), d


@numba.njit(cache=True, nogil=True, error_model="numpy")
def search_boxes(
    hinge: Array,
    axis: Array,
    offset: Array,
    rotation: Array,
    tool: Array,
    target: Array,
    rows: Array,
    swept: int,
    axial: float,
    middle: Array,
    half: Array,
    threshold: float,
    tolerance: float,
    most: int,
) -> tuple[int, NDArray[np.int64], NDArray[np.int64], float]:
    """Cuts the ranges into boxes until each is farther than `threshold` from the target.

    Args:
        hinge: 1 for a hinge, 0 for a slide, shape (m,).
        axis: shape (m, 3).
        offset: fixed translation before each joint, shape (m, 3) [m].
        rotation: fixed rotation before each joint, shape (m, 3, 3).
        tool: the tool after the last joint, shape (3,) [m].
        target: in the axes before joint 1 turned to the middle of its range if that joint is swept,
            else in the base, shape (3,) [m].
        rows: 1 for each coordinate of the base that counts, shape (3,); used when nothing is swept.
        swept: 1 if joint 1 is eliminated in closed form, else 0.
        axial: 1 if the coordinate along a swept axis counts, else 0.
        middle: of each range, shape (m,) [rad or m].
        half: half widths, shape (m,) [rad or m].
        threshold: what a bound must exceed [m].
        tolerance: stop when the middle of a box is this close to the target [m].
        most: how many boxes may be looked at.

    Returns:
        REACHED, PROVED or OUT_OF_BOXES; for each node the joint that is halved (-1 in a leaf) and
        its first child (the second follows it); the smallest bound of a leaf [m].
    """
    m = len(hinge)
    joint = np.full(most + 2, -1, dtype=np.int64)
    child = np.zeros(most + 2, dtype=np.int64)
    depth = 64 * m + 2
    mids, halves = np.empty((depth, m)), np.empty((depth, m))
    nodes = np.empty(depth, dtype=np.int64)
    reach, lever = np.zeros(m), np.zeros((m, 3))
    across, link = np.zeros((m, 3)), np.zeros((m, 3))
    mids[0], halves[0], nodes[0] = middle, half, 0
    top, used, lowest = 1, 1, np.inf
    while top > 0:
        top -= 1
        k = nodes[top]
        here, width = mids[top].copy(), halves[top].copy()
        bound, distance = _bound(
            hinge,
            axis,
            offset,
            rotation,
            tool,
            target,
            rows,
            swept,
            axial,
            here,
            width,
            reach,
            lever,
            across,
            link,
        )
        if distance <= tolerance:
            return REACHED, joint[:used], child[:used], 0.0
        if bound > threshold:
            lowest = min(lowest, bound)
            continue
        widest, score = -1, 0.0
        for j in range(swept, m):
            s = width[j] * reach[j]
            if s > score:
                widest, score = j, s
        if widest < 0 or used + 2 > most or top + 2 > depth:
            return OUT_OF_BOXES, joint[:used], child[:used], 0.0
        joint[k], child[k] = widest, used
        w = 0.5 * width[widest]
        for side in range(2):
            mids[top], halves[top], nodes[top] = here, width, used + side
            mids[top, widest] = here[widest] + (w if side == 1 else -w)
            halves[top, widest] = w
            top += 1
        used += 2
    return PROVED, joint[:used], child[:used], lowest
