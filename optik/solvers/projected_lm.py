r"""Bounded Levenberg-Marquardt in plain NumPy: the readable reference of the whole idea.

The idea.  Linearise, and minimise the damped linear model inside the joint limits, exactly:

    p = argmin 1/2 p^T (J^T J + mu I) p + g^T p    subject to    lower - x <= p <= upper - x,

with r = [-e; posture], g = J^T r.  Accept x + p when the cost falls, and let mu follow the gain
ratio (Nielsen 1999), as `clamped-lm` does.  The only difference from it is that the limits are
inside the step: the joints that can still move are chosen knowing which ones cannot (Kanzow,
Yamashita and Fukushima 2004).

The step is a convex QP with bounds alone.  `box_step` solves it by Newton's method on the joints
that are not held (Bertsekas 1982): a joint is held when it sits on a bound and the gradient pushes
outwards; the others take the Newton step, cut by the projection, with a backtracking search on the
quadratic.  It ends after finitely many steps, seldom more than four for an arm.

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


@dataclass(frozen=True, kw_only=True)
class ProjectedLM(LevenbergMarquardt):
    """Levenberg-Marquardt with steps inside the box; options as in `LevenbergMarquardt`."""

    name: ClassVar[str] = "projected-lm"
    summary: ClassVar[str] = "gain-ratio Levenberg-Marquardt, limits inside the step (plain NumPy)"
    reference: ClassVar[str] = "Kanzow, Yamashita and Fukushima 2004; Bertsekas 1982"

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
    p = np.clip(-np.linalg.solve(H, g), low, high)
    for _ in range(10 * len(g) + 10):
        slope = H @ p + g
        held = ((p <= low) & (slope > 0)) | ((p >= high) & (slope < 0))
        free = ~held
        if not free.any():
            return p
        newton = np.zeros_like(p)
        newton[free] = -np.linalg.solve(H[np.ix_(free, free)], slope[free])
        # Backtrack on the quadratic along the projected path (Armijo, in closed form).
        size = 1.0
        while True:
            move = np.clip(p + size * newton, low, high) - p
            fall = -float(slope @ move) - 0.5 * float(move @ H @ move)
            if fall >= -0.1 * float(slope @ move) or size < 1e-10:
                break
            size *= 0.5
        if float(np.abs(move).max()) <= 1e-15 * max(1.0, float(np.abs(p).max())):
            return p
        p = p + move
    return p
