"""DAQP: a dual active-set method on the condensed Hessian (Arnstrom, Bemporad and Axehill 2022).

Dual methods meet the bounds only at the end, and only to the primal tolerance: DAQP's default of
1e-6 lets a joint leave its range by as much, so it is set to 1e-10.  Every problem is set up
afresh, so that no earlier active set is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optik.pose import Array
from optik.solvers.qp.base import Backend, QPStatus, condensed, extra
from optik.solvers.qp.null_space import LEAST_WEIGHT

_SETTINGS: dict[str, Any] = {"primal_tol": 1e-10, "dual_tol": 1e-12, "iter_limit": 1000}
_INEQUALITY, _EQUALITY = 0, 5
_STATUSES: Mapping[int, tuple[QPStatus, str]] = {
    2: (QPStatus.INACCURATE, "soft optimal"),
    1: (QPStatus.SOLVED, "optimal"),
    -1: (QPStatus.INFEASIBLE, "primal infeasible"),
    -2: (QPStatus.FAILED, "cycling"),
    -3: (QPStatus.FAILED, "unbounded"),
    -4: (QPStatus.ITERATION_LIMIT, "iteration limit"),
    -5: (QPStatus.FAILED, "not convex"),
    -6: (QPStatus.FAILED, "overdetermined initial working set"),
    -7: (QPStatus.ITERATION_LIMIT, "time limit"),
}


class Daqp(Backend):
    """`daqp.solve`."""

    def __init__(self, m: int, n: int) -> None:
        super().__init__(m, n)
        self._solve = extra("daqp", backend="daqp").solve
        self._none = np.zeros((0, n))
        self._bounds = np.full(n, _INEQUALITY, dtype=np.intc)

    def _step(
        self, J: Array, e: Array, damping: float, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        H, g = condensed(J, e, damping)
        return self._run(H, g, self._none, lower, upper, self._bounds)

    def _keep(
        self, E: Array, d: Array, weights: Array, wanted: Array, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        squares = np.maximum(weights, LEAST_WEIGHT) ** 2
        f = E @ d
        sense = np.concatenate((self._bounds, np.full(len(E), _EQUALITY, dtype=np.intc)))
        return self._run(
            np.diag(squares),
            -squares * wanted,
            np.ascontiguousarray(E),
            np.concatenate((lower, f)),
            np.concatenate((upper, f)),
            sense,
        )

    def _run(
        self, H: Array, g: Array, A: Array, lower: Array, upper: Array, sense: Any
    ) -> tuple[Array | None, QPStatus, str]:
        d, _, flag, _ = self._solve(H, g, A, upper.copy(), lower.copy(), sense.copy(), **_SETTINGS)
        status, word = _STATUSES.get(int(flag), (QPStatus.FAILED, f"exit flag {flag}"))
        return np.array(d), status, word
