"""Replays a branch and bound: the bounds of boxes.py in NumPy, for all leaves at once.

It shares nothing with the compiled search but the formulas, which are told in boxes.py.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    link = np.zeros((count, m, 3))
    loose = center  # what does not turn with the joint that comes next
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
            for outer in (lever, bulge, link):
                for i in range(j + 1, m):
                    along = (outer[:, i] @ a)[:, None] * a
                    outer[:, i] = along + _spin(a, u, outer[:, i] - along)
            lever[:, j] = np.cross(a, tool)
            along = (loose @ a)[:, None] * a
            link[:, j] = _spin(a, u, loose - along)
            loose = along
        else:
            shift = u[:, None] * a
            center, tool, loose = center + shift, tool + shift, loose + shift
            radius = radius + h
            lever[:, j] = a
        center = s.offset[j] + center @ s.rotation[j].T
        tool = s.offset[j] + tool @ s.rotation[j].T
        loose = s.offset[j] + loose @ s.rotation[j].T
        link[:, j:] = link[:, j:] @ s.rotation[j].T
        lever[:, j:] = lever[:, j:] @ s.rotation[j].T
        bulge[:, j:] = bulge[:, j:] @ s.rotation[j].T
    hinge = s.hinge > 0.0
    chord = np.where(hinge, 2.0 * np.sin(0.5 * half), half)
    moved = chord * reach
    coupling = np.zeros(count)
    for j in range(s.swept, m):
        if hinge[j]:
            coupling += chord[:, j] * moved[:, j + 1 :].sum(axis=1)
    motion = _Motion(s, half, lever, bulge, link, coupling)
    if s.swept:
        return _arc_bounds(s, center, radius, tool, motion)
    first = np.linalg.norm(s.rows * (center - s.target), axis=1) - radius
    gap = s.rows * (tool - s.target)
    distance = np.linalg.norm(gap, axis=1)
    n = gap / np.maximum(distance, 1e-300)[:, None]
    return np.maximum(first, distance + motion.least(n))


@dataclass(frozen=True, eq=False)
class _Motion:
    """How far boxes let the tool move from the middle, along directions (N, 3)."""

    sweep: Sweep
    half: Array
    lever: Array
    bulge: Array
    link: Array
    coupling: Array

    def least(self, n: Array) -> Array:
        """Lower bound on n . (x(q) - x(middle)), shape (N,)."""
        total = -self.coupling
        links, turn = np.zeros(len(n)), np.zeros(len(n))
        for j in range(self.sweep.swept, len(self.sweep.hinge)):
            h = self.half[:, j]
            sine, cosine = (n * self.lever[:, j]).sum(axis=1), (n * self.bulge[:, j]).sum(axis=1)
            if not self.sweep.hinge[j]:
                total = total - h * np.abs(sine)
                links = links - h
                continue
            turn = turn + h
            length = np.linalg.norm(self.link[:, j], axis=1)
            part = (n * self.link[:, j]).sum(axis=1)
            angle = np.arccos(np.clip(part / np.maximum(length, 1e-300), -1.0, 1.0))
            links = links + length * np.cos(np.minimum(np.pi, angle + turn)) - part
            inside = np.abs(np.arctan2(-sine, -cosine)) <= h
            ends = np.abs(sine) * np.sin(h) + cosine * (1.0 - np.cos(h))
            total = total - np.where(inside, np.hypot(sine, cosine) + cosine, ends)
        return np.maximum(total, links)

    def most(self, n: Array) -> Array:
        """Upper bound on |n . (x(q) - x(middle))|, shape (N,)."""
        total = self.coupling
        for j in range(self.sweep.swept, len(self.sweep.hinge)):
            h = self.half[:, j]
            slope = np.abs((n * self.lever[:, j]).sum(axis=1))
            bow = np.abs((n * self.bulge[:, j]).sum(axis=1))
            if self.sweep.hinge[j]:
                arc = np.sin(np.minimum(h, 0.5 * np.pi))
                total = total + slope * arc + bow * (1.0 - np.cos(h))
            else:
                total = total + slope * h
        return total


def _arc_bounds(s: Sweep, center: Array, radius: Array, tool: Array, motion: _Motion) -> Array:
    """Bounds where joint 1 is swept: the target runs along an arc about its axis."""
    a, t = s.axis[0], s.target
    height = float(a @ t)
    flat = t - height * a
    side = np.cross(a, flat)
    target_radius = float(np.linalg.norm(flat))
    arc = motion.half[:, 0]

    def nearest(x: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Distance to the arc, the flat part of x, its length, the height gap, the angle."""
        v = x - (x @ a)[:, None] * a
        rho = np.linalg.norm(v, axis=1)
        angle = np.arctan2(v @ side, v @ flat)
        over = np.maximum(np.abs(angle) - arc, 0.0)
        chord = 4.0 * rho * target_radius * np.sin(0.5 * over) ** 2
        gap = s.axial * (x @ a - height)
        return np.sqrt((rho - target_radius) ** 2 + chord + gap**2), v, rho, gap, angle

    best = nearest(center)[0] - radius
    d, v, rho, gap, angle = nearest(tool)
    usable = (d > 0.0) & (rho > 0.0)
    inside = usable & (np.abs(angle) <= arc)
    # Inside the arc's sector the circle bounds the arc; n lies in the plane of radius and height.
    u = v / np.maximum(rho, 1e-300)[:, None]
    low = rho - radius - np.linalg.norm(tool - center, axis=1)
    sway = motion.most(np.cross(a, u))
    bend = np.where(low > 0.0, sway**2 / (2.0 * np.maximum(low, 1e-300)), np.inf)
    choices = [(rho - target_radius, gap)]
    for j in range(1, len(s.hinge)):
        lever = motion.lever[:, j]
        choices.append((-s.axial * (lever @ a), s.axial * (u * lever).sum(axis=1)))
    for radial, upward in choices:
        length = np.hypot(radial, upward)
        sign = np.where(radial * (rho - target_radius) + upward * gap < 0.0, -1.0, 1.0)
        scale = sign / np.maximum(length, 1e-300)
        radial, upward = radial * scale, upward * scale
        base = radial * (rho - target_radius) + upward * gap
        base = np.where(radial < 0.0, base + radial * np.where(radial < 0.0, bend, 0.0), base)
        value = base + motion.least(radial[:, None] * u + upward[:, None] * a)
        best = np.where(inside & (length > 0.0), np.maximum(best, value), best)
    # Beyond its ends: the end is nearest, and the arc lies behind a plane.
    safe = np.maximum(d, 1e-300)
    turn = np.sign(angle) * arc
    end = np.cos(turn)[:, None] * flat + np.sin(turn)[:, None] * side
    n = (v - end) / safe[:, None]
    cosine, sine = n @ flat, n @ side
    edge = cosine * np.cos(arc) + np.abs(sine) * np.sin(arc)
    top = np.where(np.abs(np.arctan2(sine, cosine)) <= arc, np.hypot(cosine, sine), edge)
    value = (n * v).sum(axis=1) - top + s.axial * gap * gap / safe
    value = value + motion.least(n + s.axial * (gap / safe)[:, None] * a)
    return np.where(usable & ~inside, np.maximum(best, value), best)


def _spin(axis: Array, angle: Array, across: Array) -> Array:
    """Turns vectors perpendicular to a unit axis, shape (N, 3), by angles, shape (N,)."""
    return np.cos(angle)[:, None] * across + np.sin(angle)[:, None] * np.cross(axis, across)
