"""CVXPY: the program written down as the formula says; the reference, not the fast way.

J and lambda enter as parameters inside sums of squares, which is DPP (disciplined parametrized
programming, Agrawal et al. 2019): the program is compiled once, at the first solve of a discarded
step when the backend is built, and afterwards only its numbers change.  A quadratic form with a
parameter as its matrix would be compiled again at every step.  Clarabel solves it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from optik.pose import Array
from optik.solvers.qp.base import FAR, Backend, QPStatus, finite_bounds
from optik.solvers.qp.null_space import LEAST_WEIGHT

_SETTINGS: dict[str, Any] = {
    "solver": "CLARABEL",
    "tol_gap_abs": 1e-12,
    "tol_gap_rel": 1e-12,
    "tol_feas": 1e-12,
    "max_iter": 200,
}
_STATUSES: Mapping[str, QPStatus] = {
    "optimal": QPStatus.SOLVED,
    "optimal_inaccurate": QPStatus.INACCURATE,
    "infeasible": QPStatus.INFEASIBLE,
    "infeasible_inaccurate": QPStatus.INFEASIBLE,
    "infeasible_or_unbounded": QPStatus.INFEASIBLE,
    "unbounded": QPStatus.FAILED,  # the cost is bounded below, so this is an error
    "unbounded_inaccurate": QPStatus.FAILED,
    "user_limit": QPStatus.ITERATION_LIMIT,
    "solver_error": QPStatus.FAILED,
}


class Cvxpy(Backend):
    """CVXPY with Clarabel, compiled once.

    Attributes:
        program: the step's program.
    """

    noise = 1e-8

    def __init__(self, m: int, n: int) -> None:
        super().__init__(m, n)
        import cvxpy as module

        cvxpy: Any = module
        self._cvxpy = cvxpy
        self._d = cvxpy.Variable(n)
        self._J, self._e = cvxpy.Parameter((m, n)), cvxpy.Parameter(m)
        self._damping = cvxpy.Parameter(nonneg=True)
        self._lower, self._upper = cvxpy.Parameter(n), cvxpy.Parameter(n)
        self._box = [self._d >= self._lower, self._d <= self._upper]
        cost = cvxpy.sum_squares(self._J @ self._d - self._e) + cvxpy.sum_squares(
            self._damping * self._d
        )
        self.program = cvxpy.Problem(cvxpy.Minimize(cost), self._box)
        self._posture: Any = None
        ones = np.ones(n)
        self._step(np.ones((m, n)), np.ones(m), 1.0, -ones, ones)  # compiles

    def _step(
        self, J: Array, e: Array, damping: float, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        scale = damping**-0.5  # the cost divided by lambda: curvatures on both sides of 1
        self._J.value, self._e.value, self._damping.value = scale * J, scale * e, damping**0.5
        self._lower.value, self._upper.value = finite_bounds(e, damping, lower, upper)
        return self._run(self.program)

    def _keep(
        self, E: Array, d: Array, weights: Array, wanted: Array, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        n = self.n
        if self._posture is None:
            cp = self._cvxpy
            self._W, self._wanted = cp.Parameter(n, nonneg=True), cp.Parameter(n)
            self._E, self._f = cp.Parameter((n, n)), cp.Parameter(n)
            away = cp.sum_squares(cp.multiply(self._W, self._d) - self._wanted)
            self._posture = cp.Problem(
                cp.Minimize(away), [self._E @ self._d == self._f, *self._box]
            )
        rows = np.zeros((n, n))  # rows that E does not need stay empty
        rows[: len(E)] = E
        W = np.maximum(weights, LEAST_WEIGHT)
        self._W.value, self._wanted.value = W, W * wanted
        self._E.value, self._f.value = rows, rows @ d
        self._lower.value = np.maximum(lower, -FAR)
        self._upper.value = np.minimum(upper, FAR)
        return self._run(self._posture)

    def _run(self, program: Any) -> tuple[Array | None, QPStatus, str]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the status says the same
                program.solve(**_SETTINGS)
        except self._cvxpy.error.SolverError as error:
            return None, QPStatus.FAILED, str(error)
        word = str(program.status)
        d = None if self._d.value is None else np.array(self._d.value)
        return d, _STATUSES.get(word, QPStatus.FAILED), word
