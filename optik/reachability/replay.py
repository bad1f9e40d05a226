"""Replays a branch and bound: the bounds of boxes.py in NumPy, for all leaves at once.

It shares nothing with the compiled search but the formulas, which are told in boxes.py.
"""

from __future__ import annotations

import numpy as np

from optik.pose import Array
from optik.reachability.boxes import ROUNDING, Sweep, Tree, sweep_of
from optik.reachability.goal import Goal
from optik.reachability.path import Path


def replay(path: Path, goal: Goal, tree: Tree) -> float:
    """The smallest bound over the leaves of a tree, less 1e-9 m; -inf for a broken tree [m]."""
    s = sweep_of(path, goal)
    try:
        middle, half, _ = tree.leaves(s.middle, s.half)
    except ValueError:
        return -np.inf
    if not middle.size or any(j == 0 and s.swept for j in tree.joint):
        return -np.inf
    return float(_bounds(s, middle, half).min()) - ROUNDING


def _bounds(s: Sweep, middle: Array, half: Array) -> Array:
    """Lower bounds on the distance over boxes, shape (N,), from middles and halves (N, m)."""
    count, m = middle.shape
    center = np.broadcast_to(s.tool, (count, 3))
    tool = center
    radius = np.zeros(count)
    reach = np.ones((count, m))
    lever = np.zeros((count, m, 3))
    bulge = np.zeros((count, m, 3))
    for j in range(m - 1, s.swept - 1, -1):
        a, u, h = s.axis[j], middle[:, j], half[:, j]
        if s.hinge[j]:
            along = (center @ a)[:, None] * a
            across = center - along
            rho = np.linalg.norm(across, axis=1)
            reach[:, j] = rho + radius
            shrink = np.where(h < 0.5 * np.pi, np.cos(h), 0.0)
            center = along + shrink[:, None] * _spin(a, u, across)
            radius = radius + rho * np.where(h < 0.5 * np.pi, np.sin(h), 1.0)
            along = (tool @ a)[:, None] * a
            bulge[:, j] = _spin(a, u, tool - along)
            tool = along + bulge[:, j]
            lever[:, j] = np.cross(a, tool)
        else:
            shift = u[:, None] * a
            center, tool, radius = center + shift, tool + shift, radius + h
            lever[:, j] = a
        center = s.offset[j] + center @ s.rotation[j].T
        tool = s.offset[j] + tool @ s.rotation[j].T
        lever[:, j:] = lever[:, j:] @ s.rotation[j].T
        bulge[:, j:] = bulge[:, j:] @ s.rotation[j].T
    hinge = s.hinge > 0.0
    chord = np.where(hinge, 2.0 * np.sin(0.5 * half), half)
    moved = chord * reach
    coupling = np.zeros(count)
    for j in range(s.swept, m):
        if hinge[j]:
            coupling += chord[:, j] * moved[:, j + 1 :].sum(axis=1)
    if s.swept:
        first, base, n = _arc_bounds(s, center, radius, tool, half, lever, bulge, coupling)
    else:
        first = np.linalg.norm(s.rows * (center - s.target), axis=1) - radius
        gap = s.rows * (tool - s.target)
        base = np.linalg.norm(gap, axis=1)
        n = gap / np.maximum(base, 1e-300)[:, None]
    second = base - coupling
    for j in range(s.swept, m):
        h = half[:, j]
        sine, cosine = (n * lever[:, j]).sum(axis=1), (n * bulge[:, j]).sum(axis=1)
        if not hinge[j]:
            second -= h * np.abs(sine)
            continue
        inside = np.abs(np.arctan2(-sine, -cosine)) <= h
        ends = np.abs(sine) * np.sin(h) + cosine * (1.0 - np.cos(h))
        second -= np.where(inside, np.hypot(sine, cosine) + cosine, ends)
    return np.maximum(first, second)


def _arc_bounds(
    s: Sweep,
    center: Array,
    radius: Array,
    tool: Array,
    half: Array,
    lever: Array,
    bulge: Array,
    coupling: Array,
) -> tuple[Array, Array, Array]:
    """First-order bounds; what a direction proves at the middle; the directions, (N, 3)."""
    a, t = s.axis[0], s.target
    height = float(a @ t)
    flat = t - height * a
    side = np.cross(a, flat)
    target_radius = float(np.linalg.norm(flat))
    arc = half[:, 0]

    def nearest(x: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Distance to the arc, the flat part of x, its length, the height gap, the angle."""
        v = x - (x @ a)[:, None] * a
        rho = np.linalg.norm(v, axis=1)
        angle = np.arctan2(v @ side, v @ flat)
        over = np.maximum(np.abs(angle) - arc, 0.0)
        chord = 4.0 * rho * target_radius * np.sin(0.5 * over) ** 2
        gap = s.axial * (x @ a - height)
        return np.sqrt((rho - target_radius) ** 2 + chord + gap**2), v, rho, gap, angle

    first = nearest(center)[0] - radius
    d, v, rho, gap, angle = nearest(tool)
    safe = np.maximum(d, 1e-300)
    u = v / np.maximum(rho, 1e-300)[:, None]
    radial = (rho - target_radius) / safe
    upward = s.axial * (gap / safe)[:, None] * a
    # Inside the arc's sector: the circle bounds the arc.
    n_in = radial[:, None] * u + upward
    tangent = np.cross(a, u)
    sway = coupling.copy()
    for j in range(s.swept, len(s.hinge)):
        h = half[:, j]
        slope = np.abs((tangent * lever[:, j]).sum(axis=1))
        bow = np.abs((tangent * bulge[:, j]).sum(axis=1))
        if s.hinge[j]:
            sway += slope * np.sin(np.minimum(h, 0.5 * np.pi)) + bow * (1.0 - np.cos(h))
        else:
            sway += slope * h
    low = rho - radius - np.linalg.norm(tool - center, axis=1)
    bend = np.where(radial < 0.0, -radial * sway**2 / (2.0 * np.maximum(low, 1e-300)), 0.0)
    base_in = np.where((radial < 0.0) & (low <= 0.0), -1.0, d - bend)
    # Beyond its ends: the end is nearest, and the arc lies behind a plane.
    turn = np.sign(angle) * arc
    end = np.cos(turn)[:, None] * flat + np.sin(turn)[:, None] * side
    n_flat = (v - end) / safe[:, None]
    cosine, sine = n_flat @ flat, n_flat @ side
    edge = cosine * np.cos(arc) + np.abs(sine) * np.sin(arc)
    top = np.where(np.abs(np.arctan2(sine, cosine)) <= arc, np.hypot(cosine, sine), edge)
    base_out = (n_flat * v).sum(axis=1) - top + gap * gap / safe
    inside = np.abs(angle) <= arc
    base = np.where(inside, base_in, base_out)
    base = np.where((d > 0.0) & (rho > 0.0), base, -1.0)
    return first, base, np.where(inside[:, None], n_in, n_flat + upward)


def _spin(axis: Array, angle: Array, across: Array) -> Array:
    """Turns vectors perpendicular to a unit axis, shape (N, 3), by angles, shape (N,)."""
    return np.cos(angle)[:, None] * across + np.sin(angle)[:, None] * np.cross(axis, across)
