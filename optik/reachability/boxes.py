r"""Proof by branch and bound: no box of joint ranges brings the tool near the target position.

The idea.  Cut the box of joint ranges into smaller boxes until in each one a lower bound on the
distance from the tool to the target exceeds the tolerance.  Two bounds are used, whichever is
larger.

First order, a ball.  Going from the tool to the base, keep a ball that holds every tool position as
seen after joint j.  A hinge turns its centre, at distance rho from the axis, through an arc of half
width h; the smallest ball around the arc has the centre at rho cos h on the middle of the arc and
radius rho sin h (for h >= pi/2: on the axis, rho), and the radii add.  A slide adds its half width.

Second order, a direction.  Move the joints from the middle c of a box one after the other, the
outermost first.  For a unit vector n, moving hinge j by d changes n . x by

    n . (Rot(a_j, d) - 1) r_j,    r_j the tool as seen from the joint,

which at the middle of the outer joints is  A (cos d - 1) + B sin d  with A = n . r_j across the
axis and B = n . (a_j x r_j), whose least value over |d| <= h_j has a closed form.  That the outer
joints have moved r_j already costs at most the chord 2 sin(h_j / 2) times how far they moved it,
sum_(k > j) 2 sin(h_k / 2) rho_k, rho_k being the largest distance of the tool from axis k, which
the first bound knows.  So n . x(q) - n . x(c) is at least the sum of the least values less these
couplings.  Where the gap is a minimum over the inside of the ranges, B is small and boxes of size
sqrt(gap) are enough; a last joint that turns a short tool about a long axis need not be cut at all.

Or link after link: link k, without its part along its own joint's axis, turns by no more than
H_k = sum_(i <= k) h_i, so an angle alpha_k with n grows to at most alpha_k + H_k, and n . x changes
by at least sum_k |l_k| (cos min(pi, alpha_k + H_k) - cos alpha_k).  That has no couplings, and is
exact where the arm is stretched towards the target.  The larger of the two counts.

Joint 1 is not cut.  If it is a hinge, its axis does not move: seen from the link it turns, the
target runs along an arc about that axis.  The distance from a point to an arc has a closed form,
and with u the radial direction and rho the distance from the axis, both
rho(x) >= u . x and rho(x) <= u . x + t^2 / (2 u . x), t the tangential part, turn it into a
direction n as above, in the plane of radius and height.  Which n is best is a question in two
dimensions, where a sum of short arcs is nearly a zonotope: tried are the direction to the target
and those across the motion of each single joint.  Beyond the ends of the arc n points at the end,
and the arc's largest n . y stands for it.  So a planar arm with two joints needs one box or none.

What is proved.  A leaf counts if its bound, less 1e-9 m, exceeds the tolerance.  The bounds are
some hundred operations in double precision on numbers near one, and err by less than 1e-13 m; so
the replay (replay.py) is not exact arithmetic, and says so.  It is NumPy code that shares nothing
with the compiled search (compiled/reach.py) but the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optik.chain import axis_rotation
from optik.pose import Array
from optik.reachability.goal import Goal
from optik.reachability.path import Path

ROUNDING = 1e-9  # [m], taken off every bound
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sweep:
    """A path and a position as the search takes them: arrays, joint 1 swept where that is possible.

    Attributes:
        hinge: shape (m,), 1 or 0.
        axis: shape (m, 3).
        offset: shape (m, 3) [m].
        rotation: shape (m, 3, 3).
        tool: shape (3,) [m].
        target: shape (3,) [m], in the axes of joint 1 at the middle of its range, if swept.
        rows: shape (3,), 1 for the coordinates that count.
        swept: 1 or 0.
        axial: whether the coordinate along the swept axis counts, 1.0 or 0.0.
        middle: shape (m,) [rad or m].
        half: shape (m,) [rad or m].
    """

    hinge: Array
    axis: Array
    offset: Array
    rotation: Array
    tool: Array
    target: Array
    rows: Array
    swept: int
    axial: float
    middle: Array
    half: Array


def sweep_of(path: Path, goal: Goal) -> Sweep:
    """Lays out a path for the search."""
    steps = path.steps
    first = steps[0]
    masked = [i for i, counts in enumerate(goal.rows) if not counts]
    swept, axial = int(first.hinge), 1.0
    if masked and swept:
        # A coordinate that does not count can only be swept over along the axis itself.
        direction = first.rotation @ first.axis
        swept = int(len(masked) == 1 and abs(direction[masked[0]]) == 1.0)
        axial = 0.0
    target = goal.position
    if swept:
        turned = first.rotation @ axis_rotation(first.axis, first.middle)
        target = turned.T @ (goal.position - first.offset)
    return Sweep(
        hinge=np.array([float(s.hinge) for s in steps]),
        axis=np.array([s.axis for s in steps]),
        offset=np.array([s.offset for s in steps]),
        rotation=np.array([s.rotation for s in steps]),
        tool=np.array(path.tool_offset),
        target=np.array(target),
        rows=np.array([float(r) for r in goal.rows]),
        swept=swept,
        axial=axial,
        middle=np.array([s.middle for s in steps]),
        half=np.array([s.half for s in steps]),
    )


@dataclass(frozen=True)
class Tree:
    """How a box was cut: for each node the joint that is halved and its first child.

    Attributes:
        joint: index of the joint, -1 in a leaf.
        child: number of the first child, whose sibling follows it; 0 in a leaf.
    """

    joint: tuple[int, ...]
    child: tuple[int, ...]

    def leaves(self, middle: Array, half: Array) -> tuple[Array, Array, list[int]]:
        """The closed boxes of the leaves, which together cover the whole: middles, halves, nodes.

        Raises:
            ValueError: if the numbers are not a tree over these joints.
        """
        boxes: dict[int, tuple[Array, Array]] = {0: (middle, half)}
        out: list[int] = []
        if len(self.joint) != len(self.child) or not self.joint:
            raise ValueError("a tree needs one child for each joint, and a root")
        for k, (j, c) in enumerate(zip(self.joint, self.child, strict=True)):
            if k not in boxes:
                raise ValueError("a node that is no child")
            if type(j) is not int or type(c) is not int:
                raise ValueError("a joint or a child that is no integer")
            if j == -1:
                out.append(k)
                continue
            if not (0 <= j < len(middle) and k < c < len(self.joint) - 1) or c in boxes:
                raise ValueError("a child that is no node, or a joint that is none")
            m, h = boxes[k]
            narrow = h.copy()
            narrow[j] = 0.5 * h[j]
            for side, sign in enumerate((-1.0, 1.0)):
                shifted = m.copy()
                shifted[j] = m[j] + sign * narrow[j]
                boxes[c + side] = (shifted, narrow)
        mids = np.array([boxes[k][0] for k in out])
        return mids, np.array([boxes[k][1] for k in out]), out


@dataclass(frozen=True)
class Cut:
    """What the search found: a tree whose leaves all keep their distance, or why there is none.

    Attributes:
        tree: the tree, or None.
        bound: what the replay of the tree can be relied on to confirm [m].
        reached: whether some box's middle lies within the tolerance of the target.
        boxes: how many boxes were looked at.
    """

    tree: Tree | None
    bound: float
    reached: bool
    boxes: int


def search(path: Path, goal: Goal, *, most: int) -> Cut:
    """Looks for a proof with at most so many boxes."""
    from optik.compiled.reach import PROVED, REACHED, search_boxes

    s = sweep_of(path, goal)
    outcome, joint, child, lowest = search_boxes(
        s.hinge,
        s.axis,
        s.offset,
        s.rotation,
        s.tool,
        s.target,
        s.rows,
        s.swept,
        s.axial,
        s.middle,
        s.half,
        # A margin of its own, so that the replay's rounding cannot tip a box over.
        goal.position_tolerance + 3.0 * ROUNDING,
        goal.position_tolerance,
        most,
    )
    tree = None
    if outcome == PROVED:
        tree = Tree(tuple(joint.tolist()), tuple(child.tolist()))
    return Cut(tree, float(lowest) - 2.0 * ROUNDING, outcome == REACHED, len(joint))
