"""MuJoCo's own box QP: a projected Newton method on the condensed Hessian (Tassa et al. 2014).

It starts from zero each time: its warm start is the one thing that it could remember.  Its test on
the gradient is an absolute 1e-8, hence the scaled cost (see `condensed`).  About once in a thousand
steps it stops short at a corner of the box and reports success; so the answer's first-order
condition is checked here, and the search taken up again from a projected gradient step.
"""

from __future__ import annotations

import mujoco
import numpy as np

from optik.pose import Array
from optik.solvers.qp.base import Backend, QPStatus, condensed

_SCALE = 100.0
_TRIES = 10
_ACCURACY = 1e-8  # largest distance to the exact step [rad]


class Mujoco(Backend):
    """`mujoco.mju_boxQP`, its answer checked."""

    def __init__(self, m: int, n: int) -> None:
        super().__init__(m, n)
        self._factor = np.empty((n, n + 7))

    def _step(
        self, J: Array, e: Array, damping: float, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        H, g = condensed(J, e, damping)
        H *= _SCALE
        g *= _SCALE
        shut = lower == upper  # MuJoCo ends the program over bounds that coincide
        lower, upper = np.where(shut, lower - 1e-12, lower), np.where(shut, upper + 1e-12, upper)
        d = np.zeros(self.n)
        for _ in range(_TRIES):
            free = mujoco.mju_boxQP(d, self._factor, None, H, g, lower, upper)
            if free < 0:
                return None, QPStatus.FAILED, "mju_boxQP failed"
            gradient = H @ d + g
            # Zero exactly where the first-order conditions hold (d stands on its bounds exactly).
            outward = ((d <= lower) & (gradient > 0.0)) | ((d >= upper) & (gradient < 0.0))
            P = np.where(outward, 0.0, gradient)
            # The least curvature is _SCALE, so |P| / _SCALE bounds the distance to the answer.
            if float(P @ P) <= (_SCALE * _ACCURACY) ** 2:
                return d, QPStatus.SOLVED, f"{free} free"
            d = np.minimum(np.maximum(d - gradient / float(np.trace(H)), lower), upper)
        return d, QPStatus.INACCURATE, "the first-order condition is not met"
