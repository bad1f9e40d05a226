"""Bounded-variable least squares by SciPy: an active-set method, exact, the reference for tests.

It solves min |A d - b|^2 with A = [J; lambda I] and b = [e; 0] by freezing variables on their
bounds and solving the rest by QR, so that the squared condition number never enters (Stark and
Parker 1995).  SciPy wants lower < upper strictly: bounds that coincide are opened by 1e-15.
"""

from __future__ import annotations

import numpy as np

from optik.pose import Array
from optik.solvers.qp.base import Backend, QPStatus, stacked

_STATUSES = {
    -1: QPStatus.FAILED,
    0: QPStatus.ITERATION_LIMIT,
    1: QPStatus.SOLVED,  # first-order optimality within the tolerance
    2: QPStatus.SOLVED,  # the cost no longer changes
    3: QPStatus.SOLVED,  # the unconstrained answer lies inside the box
}


class LsqLinear(Backend):
    """`scipy.optimize.lsq_linear(method="bvls")`."""

    def __init__(self, m: int, n: int) -> None:
        super().__init__(m, n)
        from scipy.optimize import lsq_linear

        self._solve = lsq_linear

    def _step(
        self, J: Array, e: Array, damping: float, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        A, b = stacked(J, e, damping)
        shut = lower == upper
        bounds = (np.where(shut, lower - 1e-15, lower), np.where(shut, upper + 1e-15, upper))
        # SciPy's own cap, n iterations, is reached when many joints stand at a limit.
        try:
            out = self._solve(A, b, bounds, method="bvls", max_iter=10 * self.n)
        except np.linalg.LinAlgError as error:
            return None, QPStatus.FAILED, str(error)
        return out.x, _STATUSES.get(out.status, QPStatus.FAILED), str(out.message)
