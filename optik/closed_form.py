r"""Inverse kinematics of a planar arm with two links, in closed form.

The idea.  A tip at distance r from the shoulder fixes the elbow by the law of cosines,

    cos q2 = (r^2 - L1^2 - L2^2) / (2 L1 L2),

which has two roots, q2 and -q2 (elbow on either side); each fixes the shoulder,

    q1 = atan2(y, x) - atan2(L2 sin q2, L1 + L2 cos q2).

The arm reaches the ring |L1 - L2| <= r <= L1 + L2.  On its two edges both roots are one.
For equal links the ring is a disc whose centre is reached with the elbow folded back by *any*
shoulder angle: a one-parameter family, not two solutions.  Outside the ring the nearest reachable
point lies on the same ray (for r = 0 and unequal links, on the whole inner circle).

q2 is computed from the half-angle, tan^2(q2/2) = ((L1+L2)^2 - r^2) / (r^2 - (L1-L2)^2), which keeps
its digits near both edges, where the arccos of a number close to 1 loses half of them.

Both angles are counted anticlockwise, q2 relative to the first link (Lynch and Park 2017, section
6.1.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from optik.errors import ProblemError
from optik.pose import Array, frozen


class Reach(Enum):
    """Where a target lies; each member's value is the word, `sentence` what it means."""

    TWO_BRANCHES = "two_branches"
    OUTER_EDGE = "outer_edge"
    INNER_EDGE = "inner_edge"
    FAMILY = "family"
    TOO_FAR = "too_far"
    TOO_NEAR = "too_near"

    @property
    def sentence(self) -> str:
        """What the word means, for a person."""
        return _SENTENCES[self]


_SENTENCES = {
    Reach.TWO_BRANCHES: "Inside the ring: two solutions, one for each side of the elbow.",
    Reach.OUTER_EDGE: "On the outer edge: one solution, the arm stretched.",
    Reach.INNER_EDGE: "On the inner edge: one solution, the arm folded.",
    Reach.FAMILY: "At the shoulder with equal links: the arm folded, any shoulder angle.",
    Reach.TOO_FAR: "Beyond the outer edge: unreachable; the nearest point has the arm stretched.",
    Reach.TOO_NEAR: "Inside the inner edge: unreachable; the nearest point has the arm folded.",
}


@dataclass(frozen=True, eq=False)
class TwoLinkSolution:
    """Every solution of a two-link arm, or the nearest reachable point.

    Attributes:
        reach: where the target lies.
        branches: solutions (q1, q2), shape (k, 2) [rad], q1 in (-pi, pi]: two with q2 > 0 first,
            one on an edge; for a family the member with q1 = 0; for an unreachable target the
            configuration of the nearest point.
        nearest: the reachable point nearest to the target, shape (2,) [m]; the target itself where
            it can be reached.
        distance: from the target to `nearest` [m]; 0 where it can be reached.
    """

    reach: Reach
    branches: Array
    nearest: Array
    distance: float

    @property
    def reachable(self) -> bool:
        """Whether the target lies in the ring."""
        return self.distance == 0.0


def two_link(
    target: ArrayLike, *, lengths: tuple[float, float], edge: float = 1e-12
) -> TwoLinkSolution:
    """Solves a planar two-link arm in closed form.

        p = (L1 cos q1 + L2 cos(q1 + q2),  L1 sin q1 + L2 sin(q1 + q2))

    Args:
        target: wanted tip position in the plane of the arm, shape (2,) [m], from the shoulder.
        lengths: L1 and L2 [m], positive.
        edge: relative width, in units of L1 + L2, in which a target counts as on an edge of the
            ring: rounding there decides between two solutions, one and none.

    Returns:
        Both branches, the single one, the family, or the nearest reachable point with the reason.

    Raises:
        ProblemError: for a target that is not two finite numbers, or a length that is not positive.
    """
    t = np.asarray(target, dtype=np.float64)
    if t.shape != (2,) or not np.isfinite(t).all():
        raise ProblemError(
            f"a two-link target is 2 finite numbers in the arm's plane, got {target!r}"
        )
    a, b = (float(v) for v in lengths)
    if not (np.isfinite([a, b]).all() and a > 0 and b > 0):
        raise ProblemError(f"link lengths must be positive [m], got {lengths!r}")
    r, outer, inner = float(np.hypot(*t)), a + b, abs(a - b)
    width = edge * outer
    heading = float(np.arctan2(t[1], t[0])) if r > 0 else 0.0
    if r > outer + width:
        return _at_edge(Reach.TOO_FAR, t, heading, outer, folded=False, swap=False)
    if r < inner - width:
        return _at_edge(Reach.TOO_NEAR, t, heading, inner, folded=True, swap=b > a)
    if a == b and r <= width:
        return TwoLinkSolution(Reach.FAMILY, frozen([[0.0, np.pi]]), frozen(t), 0.0)
    if r >= outer - width:
        return _at_edge(Reach.OUTER_EDGE, t, heading, r, folded=False, swap=False)
    if r <= inner + width:
        return _at_edge(Reach.INNER_EDGE, t, heading, r, folded=True, swap=b > a)
    half = np.sqrt((outer - r) * (outer + r) / ((r - inner) * (r + inner)))
    q2 = 2.0 * float(np.arctan(half))
    branches = []
    for elbow in (q2, -q2):
        q1 = heading - float(np.arctan2(b * np.sin(elbow), a + b * np.cos(elbow)))
        branches.append([_wrapped(q1), elbow])
    return TwoLinkSolution(Reach.TWO_BRANCHES, frozen(branches), frozen(t), 0.0)


def _at_edge(
    reach: Reach, target: Array, heading: float, radius: float, *, folded: bool, swap: bool
) -> TwoLinkSolution:
    """The single configuration on an edge; with a longer second link the first points away."""
    q1 = _wrapped(heading + np.pi) if swap else heading
    out = reach in (Reach.TOO_FAR, Reach.TOO_NEAR)
    nearest = radius * np.array([np.cos(heading), np.sin(heading)]) if out else target
    distance = abs(float(np.hypot(*target)) - radius) if out else 0.0
    return TwoLinkSolution(
        reach, frozen([[q1, np.pi if folded else 0.0]]), frozen(nearest), distance
    )


def _wrapped(angle: float) -> float:
    """The same angle in (-pi, pi]."""
    turned = float(np.remainder(angle + np.pi, 2.0 * np.pi) - np.pi)
    return np.pi if turned == -np.pi else turned
