"""PIQP, ProxQP and Clarabel through qpsolvers: one call for many backends (Caron et al. 2024).

Interior-point and proximal methods on the condensed Hessian, asked for 1e-10 or less.  Each problem
is set up afresh, which costs more than the solving; what a kept workspace would cost is not shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from optik.pose import Array
from optik.solvers.qp.base import Backend, QPStatus, condensed, extra
from optik.solvers.qp.null_space import LEAST_WEIGHT


class Qpsolvers(Backend):
    """`qpsolvers.solve_problem` with one of its solvers.

    Class attributes:
        solver: the name that qpsolvers gives the solver.
        package: what it needs beside qpsolvers.
        settings: the solver's own settings.
        power: the power of lambda that the cost is divided by.
    """

    solver: ClassVar[str]
    package: ClassVar[str]
    settings: ClassVar[Mapping[str, Any]]
    power: ClassVar[int] = 2
    noise = 1e-8

    def __init__(self, m: int, n: int) -> None:
        super().__init__(m, n)
        extra(self.package, backend=self.solver)
        qpsolvers = extra("qpsolvers", backend=self.solver)
        self._problem, self._solve = qpsolvers.Problem, qpsolvers.solve_problem
        self._error = qpsolvers.SolverError

    def _step(
        self, J: Array, e: Array, damping: float, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        H, g = condensed(J, e, damping, power=self.power)
        return self._run(H, g, None, None, lower, upper)

    def _keep(
        self, E: Array, d: Array, weights: Array, wanted: Array, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        squares = np.maximum(weights, LEAST_WEIGHT) ** 2
        return self._run(np.diag(squares), -squares * wanted, E, E @ d, lower, upper)

    def _run(
        self, H: Array, g: Array, A: Array | None, b: Array | None, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        problem = self._problem(H, g, A=A, b=b, lb=lower, ub=upper)
        try:
            with warnings.catch_warnings():
                # Dense to sparse for the solvers that want it; a failure is in `found`.
                warnings.simplefilter("ignore")
                out = self._solve(problem, solver=self.solver, **self.settings)
        except self._error as error:
            return None, QPStatus.FAILED, str(error)
        word = _word(out.extras)
        if out.found:
            return np.array(out.x), QPStatus.SOLVED, word
        # qpsolvers says only that there is no answer; the word is the solver's own.
        lowered = word.lower()
        for part, status in _WORDS.items():
            if part in lowered:
                return out.x, status, word
        return out.x, QPStatus.FAILED, word


_WORDS = {
    "infeasible": QPStatus.INFEASIBLE,
    "iter": QPStatus.ITERATION_LIMIT,
    "almost": QPStatus.INACCURATE,
}


def _word(extras: Mapping[str, Any]) -> str:
    info = extras.get("info")
    for place in (extras, vars(info) if hasattr(info, "__dict__") else {}):
        if "status" in place:
            return str(place["status"])
    return str(getattr(info, "status", "no answer"))


class Piqp(Qpsolvers):
    """PIQP: proximal interior point (Schwan et al. 2023)."""

    solver = "piqp"
    package = "piqp"
    settings: ClassVar = {
        "eps_abs": 1e-10,
        "eps_rel": 1e-10,
        "eps_duality_gap_abs": 1e-13,
        "eps_duality_gap_rel": 1e-13,
    }


class Proxqp(Qpsolvers):
    """ProxQP: primal-dual proximal augmented Lagrangian (Bambade et al. 2022)."""

    solver = "proxqp"
    package = "proxsuite"
    settings: ClassVar = {"eps_abs": 1e-11, "eps_rel": 1e-12}


class Clarabel(Qpsolvers):
    """Clarabel: interior point with a homogeneous embedding (Goulart and Chen 2024)."""

    solver = "clarabel"
    package = "clarabel"
    settings: ClassVar = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
    power = 1  # at power 2 it loses one step in a hundred to its own infeasibility test
