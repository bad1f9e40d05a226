r"""The convex relaxation of "some configuration inside the limits reaches the target".

The idea.  Cut the path in two where the front, seen from the base, meets the back, seen from the
tool.  Lift each side to its moments (moments.py); the poses of the cut frame are then linear in the
front's moments and, through the target, in the back's.  That both agree is a set of linear
equations; with the semidefinite conditions on the moments it is a convex program.  Whatever is
reachable satisfies it, so a lower bound on it bounds every configuration.

Two stages differ in what is asked to agree.

    gap    M_front = R* M_back,   minimise |p_front - p* - R* p_back|            [m]
    pose   M, p, |p|^2/2, M^T p, p x M and (p p^T - |p|^2/2) M agree up to s_g t, minimise t,

where s_g is how far products of group g can differ when the tool is within the tolerances of the
target (slack.py).  The first bounds the position gap at the target's orientation; it is small and
proves most.  The second has no metres in it: t > 1 says that the tolerances are exceeded.  The
products are consequences of the first two groups for a configuration, not for a mixture of
configurations, which is what the relaxation is made of: they are what makes it tight for arms with
a shoulder and a wrist.

Sizes.  The gap stage takes windows of three hinges at both ends and links what is between by
(rotation, hinge) pairs.  The pose stage takes up to four hinges at each end and nothing between.  A
target without an orientation has no back: three hinges, then pairs up to the tool.

Weak duality.  With conditions s = F_0 + F x in a cone K and |x_k| <= 1 (moments are products of
sines and cosines), any z in the dual cone gives, for a configuration that misses the equations of
group g by e_g,

    sum_g |z_g| |e_g|  >=  -F_0^T z - sum_k |F_k^T z|  =: value,

whatever z is and wherever it came from.  The target is out of reach when value exceeds
sum_g |z_g| s_g(tolerances).  The sum over k pays for equations that z satisfies only nearly.

References: Jansson, Chaykin and Keil 2007, "Rigorous error bounds for the optimal value in
semidefinite programming"; Yenamandra, Bernard, Wang, Mueller and Theobalt 2019, "Convex
optimisation for inverse kinematics"; Dai, Izatt and Tedrake 2019, "Global inverse kinematics via
mixed-integer convex optimization"; Trutman, Safey El Din, Henrion and Pajdla 2022, "Globally
optimal solution to inverse kinematics of 7DOF serial manipulator".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from optik.pose import Array
from optik.reachability.goal import Goal
from optik.reachability.moments import (
    Block,
    Indices,
    Lifted,
    blocks,
    conformal,
    exterior,
    hinge_basis,
    lift,
    lift_products,
)
from optik.reachability.path import Path, Step

Stage = Literal["gap", "pose"]


@dataclass(frozen=True, eq=False)
class Group:
    """Equations between the chain and the target that a tolerance loosens.

    Attributes:
        name: "rotation", "axis", "position", "square", "dot", "cross" or "inversion".
        rows: coefficients of the variables and, last, the constant, shape (r, n + 1).
    """

    name: str
    rows: Array


@dataclass(frozen=True, eq=False)
class Program:
    """The relaxation of one target over one box of joint ranges.

    Attributes:
        stage: "gap" or "pose".
        size: n, the number of variables, all of absolute value at most 1 for a configuration.
        inner: equations that every configuration satisfies, shape (r, n + 1), constant last.
        groups: equations that a configuration at the target satisfies.
        blocks: positive semidefinite conditions.
        balls: first variable of each vector of three whose norm is at most 1 (slides).
        angles: for each joint of the path, the variables of its cosine and sine; -1 for a slide.
        reach: bound on the distance from the tool to the cut frame [m].
        span: bound on the distance from the base to the target or the cut frame [m].
    """

    stage: Stage
    size: int
    inner: Array
    groups: tuple[Group, ...]
    blocks: tuple[Block, ...]
    balls: tuple[int, ...]
    angles: tuple[tuple[int, int], ...]
    reach: float
    span: float


def stages(path: Path, goal: Goal) -> tuple[Stage, ...]:
    """The stages that fit a path and a goal, cheapest first; none where no bound can be had."""
    if not path.bounded or not path.steps:
        return ()
    hinges = sum(s.hinge for s in path.steps)
    if goal.rotation is None or not all(goal.rows) or hinges != len(path.steps) or hinges > 8:
        return ("gap",)
    return ("gap", "pose")


def cuts(path: Path, goal: Goal, stage: Stage) -> tuple[int, int]:
    """How many joints the front and the back window take; what is between is linked by pairs."""
    most = 3 if stage == "gap" else 4
    hinges = sum(s.hinge for s in path.steps)
    if goal.rotation is None:
        return _taken(path.steps, most), 0
    front = min(most, (hinges + 1) // 2)
    if hinges == 6:
        front = most  # four and two bind tighter than three and three
    front_joints = _taken(path.steps, front)
    rest = path.steps[front_joints:]
    return front_joints, _taken(rest[::-1], min(most, hinges - front))


def _taken(steps: Sequence[Step], hinges: int) -> int:
    """How many of the first joints hold no more than so many hinges."""
    count = 0
    for i, s in enumerate(steps):
        count += s.hinge
        if count > hinges:
            return i
    return len(steps)


class _Assembly:
    """Gives out variables and gathers equations, which stay sparse until the size is known."""

    def __init__(self) -> None:
        self.size = 0
        self.blocks: list[Block] = []
        self.balls: list[int] = []
        self.angles: dict[int, tuple[int, int]] = {}

    def window(self, steps: Sequence[Step], joints: Sequence[int]) -> Lifted:
        lifted, self.size = lift(steps, self.size)
        self.balls += [v for v, _ in lifted.slides]
        self.blocks += blocks(steps, lifted.ids)
        hinges = [j for j, s in zip(joints, steps, strict=True) if s.hinge]
        for i, j in enumerate(hinges):
            unit = 3 ** (len(hinges) - 1 - i)
            self.angles[j] = (int(lifted.ids[unit]), int(lifted.ids[2 * unit]))
        return lifted

    def pair(self, step: Step, joint: int) -> Indices:
        ids = np.concatenate(([-1], np.arange(self.size, self.size + 29)))
        self.size += 29
        self.blocks += blocks([step], ids, quaternion=True)
        self.angles[joint] = (int(ids[1]), int(ids[2]))
        return ids


def _place(ids: Indices, coefficients: Array, n: int) -> Array:
    """Spreads coefficients of some variables over all, the constant last, shape (..., n + 1)."""
    out = np.zeros((*coefficients.shape[:-1], n + 1))
    out[..., ids] = coefficients  # -1 is the last column
    return out


def build(path: Path, goal: Goal, stage: Stage) -> Program:
    """Builds the relaxation over the ranges that the path's joints have.

    Args:
        path: the joints, at least one.
        goal: the target.
        stage: one of `stages(path, goal)`.
    """
    made, steps = _Assembly(), path.steps
    count = len(steps)
    front_count, back_count = cuts(path, goal, stage)
    middle = range(front_count, count - back_count)
    front = made.window(steps[:front_count], range(front_count))
    pairs: list[tuple[int, Indices | int]] = []
    for j in middle:
        if steps[j].hinge:
            pairs.append((j, made.pair(steps[j], j)))
        else:
            pairs.append((j, made.size))
            made.balls.append(made.size)
            made.size += 3
    other = path.reversed()
    back = made.window(other.steps[:back_count], range(count - 1, count - 1 - back_count, -1))
    n = made.size

    p, R = _pose(front, n)
    inner: list[Array] = []
    for j, ids in pairs:
        s = steps[j]
        if isinstance(ids, int):
            p = p + _apply(R, s.offset)
            R = _turn(R, s.rotation)
            p = p + s.middle * _apply(R, s.axis)
            p[np.arange(3), ids + np.arange(3)] += s.half
            continue
        M = _place(ids, np.eye(30).reshape(10, 3, 30), n)[1:].reshape(3, 3, 3, n + 1)
        inner.append((R - M[:, :, 0]).reshape(9, n + 1))
        p = p + _apply(M[:, :, 0], s.offset)
        turns = hinge_basis(s)
        R = np.add.reduce([_turn(M[:, :, d], s.rotation @ turns[d]) for d in range(3)])
    if goal.rotation is None:
        p, R = p + _apply(R, path.tool_offset), _turn(R, path.tool_rotation)
        groups, reach, span = _free_end(p, R, goal), 0.0, 0.0
    else:
        last = _after(other, back_count)
        reach = sum(_length(s) for s in other.steps[:back_count])
        reach += float(np.linalg.norm(last[1])) + 1e-9
        span = float(np.linalg.norm(goal.position)) + reach
        bp, bR = _pose(back, n)
        bp, bR = bp + _apply(bR, last[1]), _turn(bR, last[0])
        gap = p - np.einsum("ij,jk->ik", goal.rotation, bp)
        gap[:, n] -= goal.position
        turn = (R - np.einsum("ij,jlk->ilk", goal.rotation, bR)).reshape(9, n + 1)
        groups = (Group("rotation", turn), Group("position", gap[list(goal.rows)]))
        if stage == "pose":
            groups += _products(
                path, goal, (front_count, back_count), (front.ids, back.ids), last, n
            )
    return Program(
        stage=stage,
        size=n,
        inner=np.concatenate(inner) if inner else np.zeros((0, n + 1)),
        groups=tuple(g for g in groups if len(g.rows)),
        blocks=tuple(made.blocks),
        balls=tuple(made.balls),
        angles=tuple(made.angles.get(j, (-1, -1)) for j in range(count)),
        reach=reach,
        span=span,
    )


def _free_end(p: Array, R: Array, goal: Goal) -> tuple[Group, ...]:
    n = p.shape[1] - 1
    gap = p.copy()
    gap[:, n] -= goal.position
    groups = (Group("position", gap[list(goal.rows)]),)
    if goal.axis is None:
        return groups
    points = _apply(R, goal.axis[0])
    points[:, n] -= goal.axis[1]
    return (Group("axis", points), *groups)


def _products(
    path: Path,
    goal: Goal,
    counts: tuple[int, int],
    ids: tuple[Indices, Indices],
    last: tuple[Array, Array],
    n: int,
) -> tuple[Group, ...]:
    """The equations between the conformal products of the cut frame's pose."""
    assert goal.rotation is not None
    V, W = lift_products(path.steps[: counts[0]], np.eye(3), np.zeros(3))
    bV, bW = lift_products(path.reversed().steps[: counts[1]], *last)
    target = conformal(goal.rotation, goal.position)
    bV, bW = target @ bV, np.einsum("ij,jkl->ikl", exterior(target), bW)
    five = _place(ids[0], V, n) - _place(ids[1], bV, n)
    ten = _place(ids[0], W, n) - _place(ids[1], bW, n)
    return (
        Group("square", five[4:]),
        Group("cross", ten[3:6].reshape(9, n + 1)),
        Group("dot", ten[6]),
        Group("inversion", ten[7:].reshape(9, n + 1)),
    )


def _after(path: Path, count: int) -> tuple[Array, Array]:
    """The fixed transform (rotation, offset) after the first joints of a path."""
    if count < len(path.steps):
        return path.steps[count].rotation, path.steps[count].offset
    return path.tool_rotation, path.tool_offset


def _length(step: Step) -> float:
    extent = 0.0 if step.hinge else abs(step.middle) + step.half
    return float(np.linalg.norm(step.offset)) + extent


def _pose(lifted: Lifted, n: int) -> tuple[Array, Array]:
    p = _place(lifted.ids, lifted.position, n)
    for first, half in lifted.slides:
        p[np.arange(3), first + np.arange(3)] += half
    return p, _place(lifted.ids, lifted.rotation, n)


def _apply(R: Array, vector: Array) -> Array:
    return np.einsum("ijk,j->ik", R, vector)


def _turn(R: Array, rotation: Array) -> Array:
    return np.einsum("ijk,jl->ilk", R, rotation)
