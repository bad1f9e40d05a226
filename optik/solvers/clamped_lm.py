r"""Levenberg-Marquardt with clamped trial points, accepted or rejected by the gain ratio.

The idea.  Let the damping follow the success of the last step.  With rows r = [-e; posture] and

    d = -(J^T J + mu I)^-1 J^T r,    t = clip(x + d),    p = t - x,

the trial t is accepted when the cost falls.  The gain ratio

    rho = (1/2 |r(x)|^2 - 1/2 |r(t)|^2) / (-r^T J p - 1/2 |J p|^2)

compares the fall with what the linear model said of p, the clipped step.  After an acceptance
mu <- mu max(1/3, 1 - (2 rho - 1)^3), after a rejection mu <- nu mu, nu <- 2 nu (Levenberg 1944;
Marquardt 1963; Nielsen 1999).

Why it is the strong clamped baseline.  For mu -> infinity the trial becomes clip(x - J^T r / mu), a
projected-gradient step, which lowers the cost unless x is stationary for the bounded problem.  So
it does not stop at the false fixed points of clamping; it crawls out of them, in many small steps,
because there the clipped Gauss-Newton step stays a bad one.

Stopping.  Solved within tolerance; the iteration or time limit, where a rejected trial counts as an
iteration; a trial that moves no joint by more than `tolerance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.pose import Array
from optik.solvers._levenberg import LevenbergMarquardt


@dataclass(frozen=True, kw_only=True)
class ClampedLM(LevenbergMarquardt):
    """Levenberg-Marquardt, every trial clamped; options as in `LevenbergMarquardt`."""

    name: ClassVar[str] = "clamped-lm"
    summary: ClassVar[str] = "gain-ratio Levenberg-Marquardt, trials clamped, accept or reject"
    family: ClassVar[str] = "clamped"
    reference: ClassVar[str] = "Marquardt 1963; Nielsen 1999"

    def trial(self, H: Array, g: Array, low: Array, high: Array) -> Array:
        """See `LevenbergMarquardt.trial`."""
        return np.clip(-np.linalg.solve(H, g), low, high)
