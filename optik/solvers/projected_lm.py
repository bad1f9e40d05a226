r"""Bounded Levenberg-Marquardt in plain NumPy: the readable reference of the whole idea.

The idea.  Linearise, and minimise the damped linear model inside the joint limits, exactly:

    p = argmin 1/2 p^T (J^T J + mu I) p + g^T p    subject to    lower - x <= p <= upper - x,

with r = [-e; posture], g = J^T r.  Accept x + p when the cost falls, and let mu follow the gain
ratio (Nielsen 1999), as `clamped-lm` does.  The only difference from it is that the limits are
inside the step: the joints that can still move are chosen knowing which ones cannot (Kanzow,
Yamashita and Fukushima 2004).

The step is a strictly convex QP with bounds alone.  `box_step` solves it by a primal active-set
method (Nocedal and Wright 2006, algorithm 16.3): minimise over the joints that are not held; where
that leaves the box, go as far as the first bound and hold that joint too; where it does not, let go
of the held joint that the gradient pulls inwards hardest.  Every minimiser it passes lowers the
quadratic, so no set of held joints comes back, and it ends at the exact solution.

Where it stops the bounded problem is stationary to first order: p = 0 exactly when every free
gradient entry is 0 and every other one pushes outwards.

Stopping.  Solved within tolerance; the iteration or time limit, where a rejected trial counts as an
iteration; a step that moves no joint by more than `tolerance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.pose import Array
from optik.solvers._levenberg import LevenbergMarquardt

_MOST_CHANGES = 20  # changes of the held set for each joint; three or four in all is usual
_ROUNDING = 1e-14  # a pull below this share of the gradient is rounding


@dataclass(frozen=True, kw_only=True)
class ProjectedLM(LevenbergMarquardt):
    """Levenberg-Marquardt with steps inside the box; options as in `LevenbergMarquardt`."""

    name: ClassVar[str] = "projected-lm"
    summary: ClassVar[str] = "gain-ratio Levenberg-Marquardt, limits inside the step (plain NumPy)"
    reference: ClassVar[str] = "Kanzow, Yamashita and Fukushima 2004"

    def trial(self, H: Array, g: Array, low: Array, high: Array) -> Array:
        """See `LevenbergMarquardt.trial`."""
        return box_step(H, g, low, high)


def box_step(H: Array, g: Array, low: Array, high: Array) -> Array:
    """Returns argmin 1/2 p^T H p + g^T p with low <= p <= high, for positive definite H.

    Args:
        H: shape (n, n).
        g: shape (n,).
        low: shape (n,), at most 0, -inf where there is no bound.
        high: shape (n,), at least 0, inf where there is no bound.
    """
    n = len(g)
    p = np.zeros(n)
    held = ((low >= 0.0) & (g > 0.0)) | ((high <= 0.0) & (g < 0.0))
    for _ in range(_MOST_CHANGES * n):
        free = np.flatnonzero(~held)
        move = np.zeros(n)
        slope = H @ p + g
        if len(free):
            move[free] = -np.linalg.solve(H[np.ix_(free, free)], slope[free])
        # How far along the move each joint's bound is.
        room = np.full(n, np.inf)
        np.divide(high - p, move, out=room, where=move > 0.0)
        np.divide(low - p, move, out=room, where=move < 0.0)
        first = int(room.argmin())
        if room[first] < 1.0:
            p = np.clip(p + room[first] * move, low, high)
            p[first] = high[first] if move[first] > 0.0 else low[first]
            held[first] = True
            continue
        p = np.clip(p + move, low, high)
        slope = H @ p + g
        # Positive where a held joint would lower the cost by coming off its bound.
        pull = np.where(held, np.where(p >= high, slope, -slope), 0.0)
        pull[high <= low] = 0.0
        worst = int(pull.argmax())
        if pull[worst] <= _ROUNDING * float(np.abs(g).max()):
            return p
        held[worst] = False
    return p
