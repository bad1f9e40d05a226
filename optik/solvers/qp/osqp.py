"""OSQP: operator splitting, one workspace whose values are replaced (Stellato et al. 2020).

Form.  The condensed Hessian J^T J + lambda^2 I squares the condition number, and in the null space
of J, where lambda^2 is the only curvature, a small residual still hides a large error in d.  So
the residual is a variable of its own,

    minimise |y|^2 + lambda^2 |d|^2    subject to    J d - y = e,   lower <= d <= upper

solved to 1e-9 and polished.  The cost is handed over divided by lambda, so that both its curvatures
lie equally far from 1: at lambda = 1e-3 that is the difference between 1e-5 and 1e-14 rad.

No memory.  A kept workspace remembers its scaling, its step size rho and its iterates.  Scaling is
off; rho, which is adapted after a fixed number of iterations and never by the clock, is set back
before every problem, and every problem starts from zero: A, B, A gives bit-equal answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optik.pose import Array
from optik.solvers.qp.base import Backend, QPStatus
from optik.solvers.qp.null_space import LEAST_WEIGHT

_RHO = 0.1
_SETTINGS: dict[str, Any] = {
    "verbose": False,
    "eps_abs": 1e-9,
    "eps_rel": 1e-9,
    "eps_prim_inf": 1e-9,
    "eps_dual_inf": 1e-9,
    "max_iter": 20_000,
    "polishing": True,
    "polish_refine_iter": 5,
    "scaling": 0,
    "rho": _RHO,
    "adaptive_rho": 1,  # counted in iterations
    "adaptive_rho_interval": 50,
    "check_termination": 25,
    "warm_starting": True,  # so that the zero start below is what it starts from
}
_STATUSES: Mapping[str, QPStatus] = {
    "OSQP_SOLVED": QPStatus.SOLVED,
    "OSQP_SOLVED_INACCURATE": QPStatus.INACCURATE,
    "OSQP_PRIMAL_INFEASIBLE": QPStatus.INFEASIBLE,
    "OSQP_PRIMAL_INFEASIBLE_INACCURATE": QPStatus.INFEASIBLE,
    "OSQP_DUAL_INFEASIBLE": QPStatus.FAILED,  # the cost is bounded below, so this is an error
    "OSQP_DUAL_INFEASIBLE_INACCURATE": QPStatus.FAILED,
    "OSQP_MAX_ITER_REACHED": QPStatus.ITERATION_LIMIT,
    "OSQP_TIME_LIMIT_REACHED": QPStatus.ITERATION_LIMIT,
    "OSQP_NON_CVX": QPStatus.FAILED,
    "OSQP_SIGINT": QPStatus.FAILED,
    "OSQP_UNSOLVED": QPStatus.FAILED,
}


class Osqp(Backend):
    """OSQP on the residual form, silent, deterministic.

    Attributes:
        settings: what the workspace was set up with.
        builds: how many workspaces have been set up.
    """

    def __init__(self, m: int, n: int, **settings: Any) -> None:
        """Sets the workspace up.

        Args:
            m: rows of J.
            n: columns of J.
            settings: OSQP's own settings, in place of the ones that this module chooses.
        """
        super().__init__(m, n)
        import osqp

        self._osqp = osqp
        self.settings = _SETTINGS | settings
        self.builds = 0
        self._task = self._workspace(m, np.concatenate((np.ones(n), np.ones(m))))
        self._posture: Any = None

    def _workspace(self, rows: int, diagonal: Array) -> Any:
        """Sets up min 1/2 x^T D x + q^T x with [M -I; I 0] x, M dense of `rows` rows."""
        from scipy.sparse import csc_matrix, diags_array

        n, slack = self.n, len(diagonal) - self.n
        # Every entry of M is stored, zero or not, so that its values can be replaced later.
        column = np.concatenate((np.arange(rows), [0]))
        indices = np.concatenate([np.append(column[:-1], rows + j) for j in range(n)])
        indices = np.concatenate((indices, np.arange(slack)))
        starts = np.concatenate(
            ((rows + 1) * np.arange(n + 1), (rows + 1) * n + 1 + np.arange(slack))
        )
        values = np.concatenate((np.ones((rows + 1) * n), -np.ones(slack)))
        A = csc_matrix((values, indices, starts), shape=(rows + n, n + slack))
        # OSQP chooses rho by row: equal bounds make an equality, finite ones an inequality.
        bounds = np.concatenate((np.zeros(rows), np.ones(n)))
        low = np.concatenate((np.zeros(rows), -np.ones(n)))
        P = csc_matrix(diags_array(diagonal))
        solver = self._osqp.OSQP()
        solver.setup(P, np.zeros(n + slack), A, low, bounds, **self.settings)
        self.builds += 1
        return solver

    def _step(
        self, J: Array, e: Array, damping: float, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        m, n = self.m, self.n
        values = np.concatenate(
            (np.vstack((J, np.ones(n))).T.reshape(-1), np.full(m, -1.0))  # by columns
        )
        diagonal = np.concatenate((np.full(n, damping), np.full(m, 1.0 / damping)))
        return self._run(self._task, diagonal, None, values, e, lower, upper)

    def _keep(
        self, E: Array, d: Array, weights: Array, wanted: Array, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        n = self.n
        if self._posture is None:
            self._posture = self._workspace(n, np.ones(n))
        rows = np.zeros((n, n))  # rows that E does not need stay empty
        rows[: len(E)] = E
        values = np.vstack((rows, np.ones(n))).T.reshape(-1)
        squares = np.maximum(weights, LEAST_WEIGHT) ** 2
        return self._run(self._posture, squares, -squares * wanted, values, rows @ d, lower, upper)

    def _run(
        self,
        solver: Any,
        diagonal: Array,
        linear: Array | None,
        values: Array,
        right: Array,
        lower: Array,
        upper: Array,
    ) -> tuple[Array | None, QPStatus, str]:
        size = len(diagonal)
        solver.update(
            Px=diagonal,
            Ax=values,
            q=np.zeros(size) if linear is None else linear,
            l=np.concatenate((right, lower)),
            u=np.concatenate((right, upper)),
        )
        solver.update_settings(rho=self.settings["rho"])
        solver.warm_start(x=np.zeros(size), y=np.zeros(len(right) + self.n))
        out = solver.solve(raise_error=False)
        word = self._osqp.SolverStatus(out.info.status_val).name
        d = None if out.x is None else np.array(out.x[: self.n])
        return d, _STATUSES.get(word, QPStatus.FAILED), out.info.status
