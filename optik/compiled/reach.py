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
def _ball(
    hinge: Array,
    axis: Array,
    offset: Array,
    rotation: Array,
    tool: Array,
    swept: int,
    middle: Array,
    half: Array,
    reach: Array,
    center: Array,
) -> float:
    """Radius of a ball that holds every tool position; fills its centre and `reach`."""
    x, y, z = tool[0], tool[1], tool[2]
    radius = 0.0
    for j in range(len(hinge) - 1, swept - 1, -1):
        ax, ay, az = axis[j, 0], axis[j, 1], axis[j, 2]
        u, h = middle[j], half[j]
        if hinge[j] > 0.5:
            along = ax * x + ay * y + az * z
            vx, vy, vz = x - along * ax, y - along * ay, z - along * az
            rho = np.sqrt(vx * vx + vy * vy + vz * vz)
            reach[j] = rho + radius
            x, y, z = along * ax, along * ay, along * az
            if h >= 0.5 * np.pi:
                radius += rho
            else:
                k, s = np.cos(h) * np.cos(u), np.cos(h) * np.sin(u)
                x += k * vx + s * (ay * vz - az * vy)
                y += k * vy + s * (az * vx - ax * vz)
                z += k * vz + s * (ax * vy - ay * vx)
                radius += rho * np.sin(h)
        else:
            reach[j] = 1.0
            x, y, z = x + u * ax, y + u * ay, z + u * az
            radius += h
        R, o = rotation[j], offset[j]
        x, y, z = (
            o[0] + R[0, 0] * x + R[0, 1] * y + R[0, 2] * z,
            o[1] + R[1, 0] * x + R[1, 1] * y + R[1, 2] * z,
            o[2] + R[2, 0] * x + R[2, 1] * y + R[2, 2] * z,
        )
    center[0], center[1], center[2] = x, y, z
    return radius


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _middle(
    hinge: Array,
    axis: Array,
    offset: Array,
    rotation: Array,
    tool: Array,
    swept: int,
    middle: Array,
    place: Array,
    lever: Array,
    across: Array,
    link: Array,
) -> None:
    """Poses the arm at the middle of a box; fills `place` (last row: the tool) and what follows."""
    m = len(hinge)
    R, S = np.eye(3), np.empty((3, 3))
    x, y, z = 0.0, 0.0, 0.0
    for j in range(swept, m):
        o, A, a, u = offset[j], rotation[j], axis[j], middle[j]
        x, y, z = (
            x + R[0, 0] * o[0] + R[0, 1] * o[1] + R[0, 2] * o[2],
            y + R[1, 0] * o[0] + R[1, 1] * o[1] + R[1, 2] * o[2],
            z + R[2, 0] * o[0] + R[2, 1] * o[1] + R[2, 2] * o[2],
        )
        cosine, sine = (np.cos(u), np.sin(u)) if hinge[j] > 0.5 else (1.0, 0.0)
        for r in range(3):
            b0 = R[r, 0] * A[0, 0] + R[r, 1] * A[1, 0] + R[r, 2] * A[2, 0]
            b1 = R[r, 0] * A[0, 1] + R[r, 1] * A[1, 1] + R[r, 2] * A[2, 1]
            b2 = R[r, 0] * A[0, 2] + R[r, 1] * A[1, 2] + R[r, 2] * A[2, 2]
            along = b0 * a[0] + b1 * a[1] + b2 * a[2]
            lever[j, r] = along  # the axis, for now
            k = (1.0 - cosine) * along
            # A row times Rot(a, u): b cos + a (a . b) (1 - cos) + (b x a) sin.
            S[r, 0] = b0 * cosine + k * a[0] + sine * (b1 * a[2] - b2 * a[1])
            S[r, 1] = b1 * cosine + k * a[1] + sine * (b2 * a[0] - b0 * a[2])
            S[r, 2] = b2 * cosine + k * a[2] + sine * (b0 * a[1] - b1 * a[0])
        for r in range(3):
            for c in range(3):
                R[r, c] = S[r, c]
        place[j, 0], place[j, 1], place[j, 2] = x, y, z
        if hinge[j] < 0.5:
            x, y, z = x + u * lever[j, 0], y + u * lever[j, 1], z + u * lever[j, 2]
    for r in range(3):
        place[m, r] = R[r, 0] * tool[0] + R[r, 1] * tool[1] + R[r, 2] * tool[2]
    place[m, 0] += x
    place[m, 1] += y
    place[m, 2] += z
    fx, fy, fz = 0.0, 0.0, 0.0  # the part of the links further out that this joint does not turn
    for j in range(m - 1, swept - 1, -1):
        fx += place[j + 1, 0] - place[j, 0]
        fy += place[j + 1, 1] - place[j, 1]
        fz += place[j + 1, 2] - place[j, 2]
        if hinge[j] < 0.5:
            continue
        ax, ay, az = lever[j, 0], lever[j, 1], lever[j, 2]
        vx, vy, vz = place[m, 0] - place[j, 0], place[m, 1] - place[j, 1], place[m, 2] - place[j, 2]
        lever[j, 0], lever[j, 1], lever[j, 2] = (
            ay * vz - az * vy,
            az * vx - ax * vz,
            ax * vy - ay * vx,
        )
        along = ax * vx + ay * vy + az * vz
        across[j, 0], across[j, 1], across[j, 2] = (
            vx - along * ax,
            vy - along * ay,
            vz - along * az,
        )
        along = ax * fx + ay * fy + az * fz
        link[j, 0], link[j, 1], link[j, 2] = fx - along * ax, fy - along * ay, fz - along * az
        fx, fy, fz = along * ax, along * ay, along * az


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
    enough: float,
    reach: Array,
    place: Array,
    lever: Array,
    across: Array,
    link: Array,
) -> tuple[float, float]:
    """Lower bound over one box, and the distance at its middle unless the ball was enough."""
    m = len(hinge)
    radius = _ball(hinge, axis, offset, rotation, tool, swept, middle, half, reach, place[m])
    cx, cy, cz = place[m, 0], place[m, 1], place[m, 2]
    px, py, pz = cx, cy, cz
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
        if first > enough:
            return first, np.inf
        _middle(hinge, axis, offset, rotation, tool, swept, middle, place, lever, across, link)
        px, py, pz = place[m, 0], place[m, 1], place[m, 2]
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
                if first > enough:
                    return first, np.inf
                _middle(
                    hinge, axis, offset, rotation, tool, swept, middle, place, lever, across, link
                )
                px, py, pz = place[m, 0], place[m, 1], place[m, 2]
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
                    if second > enough:
                        break
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
    across, link, place = np.zeros((m, 3)), np.zeros((m, 3)), np.zeros((m + 1, 3))
    here, width = np.empty(m), np.empty(m)
    mids[0], halves[0], nodes[0] = middle, half, 0
    top, used, lowest = 1, 1, np.inf
    while top > 0:
        top -= 1
        k = nodes[top]
        here[:], width[:] = mids[top], halves[top]
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
            # The whole is looked at closely: often it is the only box, and the bound is told.
            np.inf if used == 1 else threshold,
            reach,
            place,
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
